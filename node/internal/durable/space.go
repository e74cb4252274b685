package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Disk is the space of a file system, in bytes.
type Disk struct {
	Bytes, Free   uint64 // Free is what this process may use
	withoutInodes bool   // it has blocks and no inodes left
}

// ErrNoSpace wraps errors of writes that the disk had no space for. Nothing is left of them, and
// they may be tried again: unlike a failed sync, a write that was refused leaves no doubt.
var ErrNoSpace = errors.New("no space for writing")

// IsNoSpace reports whether a write failed because the disk, a quota or the limit on the size of
// files has no space.
func IsNoSpace(err error) bool {
	return errors.Is(err, ErrNoSpace) || errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// NoSpace returns the ErrNoSpace of what was done to a file, as "write" or "make". It names the
// file once, also when the cause does, and says what has run out where the cause does not.
func NoSpace(doing, path string, cause error) error {
	cause = noteLack(cause)
	if strings.Contains(cause.Error(), path) {
		return fmt.Errorf("%w: %w", ErrNoSpace, cause)
	}
	return fmt.Errorf("%w: %s %s: %w", ErrNoSpace, doing, path, cause)
}

// spaceError is an error of a file system with what was lacking at that moment.
type spaceError struct {
	cause error
	lack  lack
}

// noteLack adds to an error what is lacking, when it is of a lack of space.
func noteLack(err error) error {
	if !IsNoSpace(err) || errors.As(err, new(*spaceError)) {
		return err
	}
	return &spaceError{err, lackOf(err)}
}

// Error implements error.
func (e *spaceError) Error() string {
	switch e.lack {
	case fileSize:
		return e.cause.Error() + ": the limit on the size of a file is reached (ulimit -f)"
	case inodes:
		return e.cause.Error() + ": no inodes are free"
	}
	return e.cause.Error()
}

// Unwrap returns the error of the file system.
func (e *spaceError) Unwrap() error { return e.cause }

// SpaceAdvice says what ends a lack of space.
//
// Cost: at most one call of the system.
func SpaceAdvice(err error) string {
	switch lackOf(err) {
	case fileSize:
		return "raise the limit on the size of a file (ulimit -f, LimitFSIZE= of systemd; " +
			"prlimit does it for a running process)"
	case quota:
		return "free some space or raise the quota"
	case inodes:
		return "delete files that are not needed, or use a file system with more inodes (df -i)"
	}
	return "free some space or enlarge the disk"
}

// lack is what there is not enough of.
type lack int

const (
	blocks lack = iota
	fileSize
	quota
	inodes
)

func lackOf(err error) lack {
	var noted *spaceError
	switch {
	case errors.As(err, &noted):
		return noted.lack
	case errors.Is(err, syscall.EFBIG):
		return fileSize
	case errors.Is(err, syscall.EDQUOT):
		return quota
	}
	if dir := dirOf(err); dir != "" {
		if disk, ok := DiskOf(dir); ok && disk.withoutInodes {
			return inodes
		}
	}
	return blocks
}

// dirOf returns the directory of the file that an error names; "": it names none.
func dirOf(err error) string {
	var path *os.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return filepath.Dir(path.Path)
	case errors.As(err, &link):
		return filepath.Dir(link.New)
	}
	return ""
}
