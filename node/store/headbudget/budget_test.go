package headbudget

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A put waits while the heads are full: until some are sealed, until it has waited for long enough,
// until seals fail, or until the store is closed.
func TestWait(t *testing.T) {
	errFull, errClosed, errDisk := errors.New("full"), errors.New("closed"), errors.New("disk")
	f := func(what string, meanwhile func(*Budget, chan struct{}), want ...error) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			stop := make(chan struct{})
			b := New(Options{MaxBytes: 10, Wait: time.Minute, Stop: stop, Overloaded: errFull,
				Stopped: errClosed})
			b.Add(10)
			ended := make(chan error, 1)
			go func() { ended <- b.Wait(t.Context(), 0) }()
			synctest.Wait()
			meanwhile(b, stop)
			err := <-ended
			if len(want) == 0 && err != nil {
				t.Errorf("%s: %v", what, err)
			}
			for _, w := range want {
				if !errors.Is(err, w) {
					t.Errorf("%s: %v, want %v", what, err, w)
				}
			}
			if b.Delayed() != 1 {
				t.Errorf("%s: %d puts waited", what, b.Delayed())
			}
		})
	}
	f("sealed", func(b *Budget, _ chan struct{}) { b.Add(-1) })
	f("nothing comes", func(*Budget, chan struct{}) {}, errFull)
	f("seals fail", func(b *Budget, _ chan struct{}) { b.SetSealErr(errDisk) }, errFull, errDisk)
	f("closed", func(_ *Budget, stop chan struct{}) { close(stop) }, errClosed)
}

// TestLargePut: a put that does not fit waits for a seal, unless no seal will come.
func TestLargePut(t *testing.T) {
	full := errors.New("full")
	b := New(Options{MaxBytes: 10, Stop: make(chan struct{}), Overloaded: full})
	for _, c := range []struct{ taken, bytes int64 }{{0, 100}, {5, 100}, {6, 4}, {9, 1}} {
		b.bytes = c.taken
		if err := b.Wait(t.Context(), c.bytes); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []struct{ taken, bytes int64 }{{6, 5}, {9, 2}, {10, 0}} {
		b.bytes = c.taken
		if err := b.Wait(t.Context(), c.bytes); !errors.Is(err, full) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
