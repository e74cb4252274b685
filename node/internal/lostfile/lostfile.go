// Package lostfile detects files that were removed, replaced or truncated while a process has them
// open or relies on them.
//
// Data written to a removed file is lost when the process ends, and neither write nor sync reports
// that. The package knows nothing of the contents of files, has no types and starts no goroutines.
package lostfile

import (
	"errors"
	"fmt"
	"os"
)

// Reason says why the file at path is lost: it is missing, it is not the file that is open, or it
// is smaller than size. It returns "" for a file that is not lost, or that lstat fails on for
// another reason. open may be nil.
//
// Cost: one or two system calls.
func Reason(path string, open *os.File, size int64) (reason string) {
	there, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "the file is missing: it was removed while the node ran"
	} else if err != nil {
		return ""
	}
	if open != nil {
		if info, err := open.Stat(); err == nil && !os.SameFile(info, there) {
			return "another file has its name: it was replaced while the node ran"
		}
	}
	if there.Size() < size {
		return fmt.Sprintf("it has %d bytes, and %d were written: it was cut while the node ran",
			there.Size(), size)
	}
	return ""
}
