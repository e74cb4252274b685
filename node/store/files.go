package store

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/segment"
	"golang.org/x/sys/unix"
)

// lockFile is held while a process has the directory open.
const lockFile = "LOCK"

func corrupt(file string, offset int64, reason string) error {
	return &segment.CorruptError{File: file, Offset: offset, Reason: reason}
}

// lockDir takes the directory for this process until the file is closed.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, ErrLocked)
	}
	return f, nil
}
