//go:build unix && !solaris && !illumos && !aix

package seal

import (
	"errors"
	"os"
	"syscall"
)

// lockFolder waits until no other process changes keys in a folder. The lock ends with the process.
func lockFolder(path string) (unlock func(), err error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return func() { _ = d.Close() }, nil // which unlocks it
}
