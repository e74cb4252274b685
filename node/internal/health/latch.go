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
