package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleptNs returns how long the machine has slept since it started.
func sleptNs() (slept int64) {
	var before, all, after unix.Timespec
	for range 3 { // the process may be stopped between the readings
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil ||
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &all) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return 0
		}
		slept = all.Nano() - before.Nano()
		if after.Nano()-before.Nano() < int64(time.Millisecond) {
			break
		}
	}
	return slept
}

// synchronized reports whether the kernel was told that its clock follows a time server. Setting
// the clock by hand takes that back.
func synchronized() bool {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
}
