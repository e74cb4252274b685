//go:build !linux

package durable

import "os"

type dataFile struct{ *os.File }
