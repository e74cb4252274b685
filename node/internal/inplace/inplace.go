// Package inplace finds out whether files that a process wrote are still where it wrote them.
//
// What is written to a file that was removed is gone when the process ends, and no write or sync
// says so. It knows nothing of what is in files. It has no types and starts no goroutines.
package inplace

import (
	"errors"
	"fmt"
	"os"
)

// Lost says how the file of a name differs from the one that was opened, or was written with at
// least some bytes; "": it does not. open is nil for a file that is not open. A file that cannot be
// looked at is not lost.
//
// Cost: one or two calls of the system.
func Lost(path string, open *os.File, size int64) (reason string) {
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
