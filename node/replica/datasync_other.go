//go:build !linux

package replica

import "os"

type dataFile struct{ *os.File }
