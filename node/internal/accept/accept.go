// Package accept accepts connections as long as a listener is open, also while the process has no
// file descriptors left.
//
// Servers usually fail at the first error of a listener, or retry in a loop of their own; those of
// a node share this one. It knows nothing of what is served, and starts no goroutines. Its main
// type is [Listener].
package accept

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pentad-db/pentad/node/internal/health"
)

const (
	// minPause and maxPause are how long accepting rests after an error, twice as long each time.
	minPause = 5 * time.Millisecond
	maxPause = 500 * time.Millisecond
	// failingFor is how long after its last error a listener counts as failing, so that a check
	// once a second sees every error.
	failingFor = 5 * time.Second
)

// Listener is a listener whose Accept returns an error only when it is closed.
type Listener struct {
	net.Listener
	// spare closes connections that can be done without; nil: there are none.
	spare   func()
	closing chan struct{}
	closed  atomic.Bool
	failure atomic.Pointer[failure]
}

type failure struct {
	err error
	at  time.Time
}

// New returns a listener that tries again after errors. When no descriptors are left it calls
// spare, unless that is nil, to close connections that can be done without.
func New(l net.Listener, spare func()) *Listener {
	return &Listener{Listener: l, spare: spare, closing: make(chan struct{})}
}

// Accept waits for the next connection. The error is net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		conn, err := l.Listener.Accept()
		switch {
		case err == nil:
			return conn, nil
		case l.closed.Load() || errors.Is(err, net.ErrClosed):
			return nil, net.ErrClosed
		case errors.Is(err, syscall.ECONNABORTED): // of that client alone
			continue
		}
		l.failure.Store(&failure{err, time.Now()})
		if l.spare != nil && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) {
			l.spare()
		}
		rest := time.NewTimer(pause)
		select {
		case <-rest.C:
		case <-l.closing:
			rest.Stop()
			return nil, net.ErrClosed
		}
	}
}

// Close ends Accept. It may be called more than once.
func (l *Listener) Close() error {
	if l.closed.Swap(true) {
		return net.ErrClosed
	}
	close(l.closing)
	return l.Listener.Close()
}

// Problems says what keeps a listener from taking connections; whose says whose they are.
func (l *Listener) Problems(whose string) []health.Problem {
	err := l.failing()
	if err == nil {
		return nil
	}
	return []health.Problem{{Code: "not_accepting", Subject: "connections of " + whose,
		Message: "connections cannot be taken: " + err.Error(),
		Advice: "raise the limit of open files of the process (ulimit -n, LimitNOFILE= of " +
			"systemd) or have fewer clients; the node tries again by itself"}}
}

// AtMost returns how many of most connections one listener may have: a quarter of the descriptors
// that the process may have, so that files and other nodes have the rest.
func AtMost(most int) int {
	descriptors, ok := maxDescriptors()
	if !ok {
		return most
	}
	return int(min(uint64(most), max(1, descriptors/4)))
}

// failing returns why connections cannot be taken, or could not some seconds ago, nil when they
// can.
func (l *Listener) failing() error {
	if f := l.failure.Load(); f != nil && time.Since(f.at) < failingFor {
		return f.err
	}
	return nil
}
