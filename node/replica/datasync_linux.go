package replica

import (
	"os"

	"golang.org/x/sys/unix"
)

// dataFile syncs data and the metadata needed to read it, not the times.
type dataFile struct{ *os.File }

func (f dataFile) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return err
		}
	}
}
