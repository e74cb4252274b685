//go:build !linux

package segment

import "os"

type dataFile struct{ *os.File }
