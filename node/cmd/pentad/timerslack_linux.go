package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// relaxTimers lets all threads of this process wake so much later than a timer says. A thread has
// the slack of that which made it, and the runtime has made one before main, so the program is
// executed again in this process, unless it has the slack.
func relaxTimers(slack time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := slackHere()
	if before >= slack {
		return nil
	}
	if err := setSlackHere(slack); err != nil {
		return err
	}
	if slackHere() < slack {
		return errors.New("real-time threads have no timer slack")
	}
	own, err := os.Executable()
	if err == nil {
		err = syscall.Exec(own, os.Args, os.Environ()) // returns only when it has failed
	}
	if err != nil { // /proc/self/exe is there when the file of the program is not
		err = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	_ = setSlackHere(before)
	return fmt.Errorf("re-execute this program: %w", err)
}

func slackHere() time.Duration {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0
	}
	return time.Duration(ns)
}

func setSlackHere(slack time.Duration) error {
	return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
}
