//go:build !linux

package store

import "errors"

func powerChild(string) error { return errors.New("system calls are watched on Linux only") }
