package segment

import (
	"os"

	"golang.org/x/sys/unix"
)

// openDirect opens a file to be read without the system's cache, if the file system can.
func openDirect(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return os.Open(path)
	}
	return f, nil
}
