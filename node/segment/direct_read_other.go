//go:build !linux

package segment

import "os"

// openDirect opens a file to be read.
func openDirect(path string) (*os.File, error) { return os.Open(path) }
