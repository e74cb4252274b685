package clock

import (
	"os"
	"time"
)

// stepsBy is set by the linker (-X) where a test builds a program whose clock it can set wrong: to
// the name of the environment variable that names the file which says by how much.
var stepsBy = ""

// system is the machine that the process runs on.
type system struct{ began time.Time }

func newMachine() Machine {
	if path := os.Getenv(stepsBy); stepsBy != "" && path != "" {
		return &stepping{began: time.Now(), path: path}
	}
	return system{time.Now()}
}

func (s system) Read() (wallNs, monotonicNs int64) {
	now := time.Now()
	return now.UnixNano(), int64(now.Sub(s.began))
}

func (s system) SleptNs() int64 { return sleptNs() }

func (s system) Synchronized() bool { return synchronized() }
