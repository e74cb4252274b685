//go:build unix

package layout

import (
	"os"

	"golang.org/x/sys/unix"
)

// flock takes a file for this process alone, or with others that only read.
//
// Errors: ErrLocked.
func flock(f *os.File, alone bool) error {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	if unix.Flock(int(f.Fd()), how|unix.LOCK_NB) != nil {
		return ErrLocked
	}
	return nil
}
