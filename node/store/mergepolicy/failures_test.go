package mergepolicy

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A failure is kept until its run is tried again, went well or is not due any more.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFailures(RetryAfter)
		want := func(err error, may bool) {
			t.Helper()
			if got := f.Newest(); !errors.Is(got, err) || f.MayRetry(1, false) != may {
				t.Fatalf("%v, want %v; %v", got, err, !may)
			}
		}
		first, second := errors.New("first"), errors.New("second")
		want(nil, true)
		f.Note([]uint64{1, 2}, first)
		want(first, false)
		time.Sleep(time.Second)
		f.Note([]uint64{5, 6}, second)
		want(second, false)
		f.Note([]uint64{4, 5}, nil) // with what failed before
		want(first, false)
		began := time.Now()
		f.Forget(began)
		want(first, false)
		time.Sleep(RetryAfter)
		want(first, true)
		f.Forget(began) // it was not looked at
		want(first, true)
		f.Forget(time.Now())
		want(nil, true)
	})
}
