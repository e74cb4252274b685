package tstorage

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

func TestEpoch(t *testing.T) {
	if got := toUnix(0); got != time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() {
		t.Errorf("the epoch is %s", record.FormatNs(got))
	}
	f := func(ns, unix int64) {
		t.Helper()
		if got := toUnix(ns); got != unix {
			t.Errorf("%d becomes %d, want %d", ns, got, unix)
		}
		if got := fromUnix(unix); got != ns {
			t.Errorf("%d comes back as %d, want %d", unix, got, ns)
		}
	}
	const offset = 978_307_200_000_000_000
	f(1, offset+1)
	f(-offset, 0)
	f(math.MinInt64, math.MinInt64+offset)
	f(math.MaxInt64-offset-1, math.MaxInt64-1)
	f(math.MaxInt64-offset+1, math.MinInt64) // around the end
	f(math.MaxInt64-1, math.MinInt64+offset-2)
	f(math.MaxInt64-offset, math.MinInt64+offset-1) // what would be the reserved maximum
}

// extremes are where the shift of the epoch turns, and what lies about them.
func extremes() []int64 {
	var out []int64
	for _, at := range []int64{math.MinInt64, math.MinInt64 + epochNs, -epochNs, 0, epochNs,
		math.MaxInt64 - epochNs, math.MaxInt64} {
		for d := int64(-3); d <= 3; d++ {
			if v := at + d; (d < 0) == (v < at) || d == 0 {
				out = append(out, v)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestUnixRanges holds mapped ranges against the comparison of every time of note: it lies in the
// range that a client gave when its shifted self lies in what that became.
func TestUnixRanges(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	ends := extremes()
	for range 50 {
		ends = append(ends, int64(rng.Uint64()))
	}
	for _, from := range ends {
		for _, to := range ends {
			if from >= to {
				continue
			}
			var q record.Query
			q.Box[record.Cap] = unixRanges(from, to)
			if n := len(q.Box[record.Cap]); n < 1 || n > 3 {
				t.Fatalf("[%d, %d) became %d ranges", from, to, n)
			}
			if err := q.Normalize(); err != nil {
				t.Fatalf("[%d, %d): %v", from, to, err)
			}
			for _, v := range ends {
				if v == math.MaxInt64 {
					continue // cannot be stored
				}
				u := toUnix(v)
				if u == math.MaxInt64 || fromUnix(u) != v {
					t.Fatalf("%d is stored as %d and comes back as %d", v, u, fromUnix(u))
				}
				if got, want := q.Box[record.Cap].Contains(u), from <= v && v < to; got != want {
					t.Fatalf("[%d, %d) became %v: %d is in it: %v", from, to, q.Box[record.Cap],
						v, got)
				}
			}
		}
	}
	if all := unixRanges(math.MinInt64, math.MaxInt64); len(all) != 2 && len(all) != 3 {
		t.Errorf("everything became %v", all)
	}
	var q record.Query
	q.Box[record.Cap] = unixRanges(math.MinInt64, math.MaxInt64)
	if err := q.Normalize(); err != nil || q.Box[record.Cap] != nil {
		t.Errorf("everything is no longer everything: %v, %v", q.Box[record.Cap], err)
	}
}
