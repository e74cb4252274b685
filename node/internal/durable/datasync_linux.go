package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// dataFile syncs data and the metadata needed to read it, not the times.
type dataFile struct{ *os.File }

// Forget lets the kernel drop what it has of the file in memory and on disk alike.
func (f dataFile) Forget() { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

func (f dataFile) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return err
		}
	}
}
