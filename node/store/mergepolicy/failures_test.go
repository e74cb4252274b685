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
		f.Forget(began, noDamage)
		want(first, false)
		time.Sleep(RetryAfter)
		want(first, true)
		f.Forget(began, noDamage) // it was not looked at
		want(first, true)
		f.Forget(time.Now(), noDamage)
		want(nil, true)
	})
}

func noDamage(uint64) bool { return false }

// The rewrite of one segment whose damage is known is left alone for an hour, however often the
// merger looks meanwhile, and tried again sooner if the damage is gone. A run of several segments
// is not due while one is damaged, so its failure is not remembered for as long.
func TestFailuresOfDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFailures(RetryAfter)
		failed := errors.New("damaged")
		damaged := map[uint64]bool{1: true, 2: true, 3: true}
		isDamaged := func(first uint64) bool { return damaged[first] }
		look := func(want error, may ...bool) {
			t.Helper()
			for i, may := range may {
				first := uint64(i + 1)
				if got := f.MayRetry(first, damaged[first]); got != may {
					t.Errorf("segment %d may be tried: %v", first, got)
				}
			}
			if got := f.Newest(); !errors.Is(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			f.Forget(time.Now(), isDamaged)
		}
		f.Note([]uint64{1}, failed)
		f.Note([]uint64{2}, failed)
		f.Note([]uint64{3, 4}, failed)
		look(failed, false, false, false)
		time.Sleep(RetryAfter + 1)
		look(failed, false, false, true)
		if len(f.runs) != 2 {
			t.Errorf("a run that is not due is remembered: %v", f.runs)
		}
		damaged[2] = false // it was read, and all of it is right
		look(failed, false, true)
		time.Sleep(damagedRetry - RetryAfter - 2)
		look(failed, false, true)
		time.Sleep(time.Nanosecond)
		look(failed, false, true) // an hour, and not more
		time.Sleep(time.Nanosecond)
		look(failed, true, true)
		look(nil, true, true)
	})
}
