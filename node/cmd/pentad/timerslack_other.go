//go:build !linux

package main

import (
	"errors"
	"time"
)

func relaxTimers(time.Duration) error { return errors.New("supported on Linux only") }
