package wasmhost

import (
	"sync/atomic"
	"time"
)

// NativeWork counts the work of a process that needs processors but no guests, e.g. puts. The
// process counts it, and a [Host] reads it: while there is some, and shortly after,
// owners whose calls are slow leave it one of the permits. Its methods may be called from many
// goroutines.
type NativeWork struct {
	running atomic.Int32
	ended   atomic.Int64 // when the last one ended, in ns after began
	began   time.Time
}

// NewNativeWork returns a counter for [Options.NativeWork].
func NewNativeWork() *NativeWork {
	w := &NativeWork{began: time.Now()}
	w.ended.Store(-int64(recent))
	return w
}

// Begin begins work, which End ends.
func (w *NativeWork) Begin() { w.running.Add(1) }

// End ends what Begin began.
func (w *NativeWork) End() {
	w.ended.Store(int64(time.Since(w.began)))
	w.running.Add(-1)
}

// isRunning reports whether there is work now.
func (w *NativeWork) isRunning() bool { return w.running.Load() > 0 }

// isExpected reports whether there is work, or was a moment ago.
func (w *NativeWork) isExpected(now time.Time) bool {
	return w.isRunning() || now.Sub(w.began)-time.Duration(w.ended.Load()) < recent
}
