package health

import "sync/atomic"

// Latch holds the first error after which something has failed for good: until the process is
// started again. The zero value is one that has not failed. All methods may be called from many
// goroutines.
type Latch struct{ first atomic.Pointer[error] }

// Set notes an error, unless there is one, and returns the first.
func (l *Latch) Set(err error) error {
	l.first.CompareAndSwap(nil, &err)
	return *l.first.Load()
}

// Err returns the first error, nil for none.
func (l *Latch) Err() error {
	if err := l.first.Load(); err != nil {
		return *err
	}
	return nil
}

// Latest holds the error with which the last try of something ended, which is tried again: nil
// while it works. The zero value has none. All methods may be called from many goroutines.
type Latest struct{ err atomic.Pointer[error] }

// Set notes how a try ended.
func (l *Latest) Set(err error) { l.err.Store(&err) }

// Err returns how the last try ended.
func (l *Latest) Err() error {
	if err := l.err.Load(); err != nil {
		return *err
	}
	return nil
}
