package tstorage

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
)

// exactly compares records with their acqs, in any order.
func exactly(t *testing.T, got, want []ttRecord) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.SortFunc(got, compareRecords)
	slices.SortFunc(want, compareRecords)
	if !slices.Equal(got, want) {
		t.Fatalf("%d records, want %d; or others", len(got), len(want))
	}
}

// TestCopy copies what another instance has, by tenant as clients send it, in requests that follow
// the order of acq: every record has its acq again, and the one that was sent twice is there once.
func TestCopy(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	n := openNode(t, node.Options{})
	s := serve(t, Options{Database: n, PutA: PutAAbove})
	c := ttDial(t, s)
	var all, last []ttRecord
	acq := int64(700_000_000_000_000_000)
	for request := range 6 {
		var records []ttRecord
		for range 1 + rng.IntN(2000) {
			acq += 1 + rng.Int64N(2)*rng.Int64N(1_000_000)
			k := ttKey{rng.Int32N(4), rng.Int64N(50), 1, rng.Int64N(99), acq}
			records = append(records, ttRecord{k, strings.Repeat("x", rng.IntN(9))})
		}
		all = append(all, records...)
		if request == 5 { // begins with what is there already, and has a record twice
			records = append(slices.Clone(last), append(records, records[0])...)
		}
		last = slices.Clone(records)
		slices.SortStableFunc(records, func(a, b ttRecord) int { return int(a.cid - b.cid) })
		least, most, st, err := c.put(true, records...)
		if err != nil || st != 0 || least != last[0].acq || most != acq {
			t.Fatalf("request %d: %d to %d, status %d, %v", request, least, most, st, err)
		}
	}
	exactly(t, mustGet(t, c), all)
	if st := s.Stats(); st.RecordsIn != int64(len(all)) || st.Duplicates == 0 {
		t.Errorf("%d stored of %d, %d duplicates", st.RecordsIn, len(all), st.Duplicates)
	}
	// All of it again, below the horizon: it is there.
	if _, _, st, err := c.put(true, all...); err != nil || st != 0 {
		t.Errorf("again: status %d, %v", st, err)
	}
	exactly(t, mustGet(t, c), all)
	_, most := mustPut(t, c, at(1, 1, "x"))
	if got := mustGet(t, c); len(got) != len(all)+1 || most <= acq {
		t.Errorf("%d records, acq %d after %d", len(got), most, acq)
	}
}

// TestPutARefuses what would change the past, or cannot be.
func TestPutARefuses(t *testing.T) {
	n := openNode(t, node.Options{})
	s := serve(t, Options{Database: n, PutA: PutAAbove, BufferBytes: 100_000})
	c := ttDial(t, s)
	stamped := func(acq int64, payload string) ttRecord {
		r := at(1, 1, payload)
		r.acq = acq
		return r
	}
	f := func(what string, want int32, records ...ttRecord) {
		t.Helper()
		if _, _, st, err := c.put(true, records...); err != nil || st != want {
			t.Errorf("%s: status %d, want %d, %v", what, st, want, err)
		}
	}
	f("nothing", 0)
	first := stamped(700, "a")
	f("the first", 0, first)
	f("the same again", 0, first, first)
	f("the reserved maximum", 0, stamped(math.MaxInt64, "a"))
	f("the future", stInvalid, stamped(math.MaxInt64-1-epochNs, "a"))
	f("beyond the end of the shift", stInvalid, stamped(math.MaxInt64-1, "a"))
	f("two with one acq", stInvalid, stamped(800, "a"), stamped(800, "b"))
	f("two with one acq, among much", stInvalid, stamped(801, strings.Repeat("x", 40_000)),
		stamped(802, strings.Repeat("x", 40_000)), stamped(802, strings.Repeat("x", 40_001)))
	f("the future, behind much", stInvalid, stamped(803, strings.Repeat("x", 60_000)),
		stamped(math.MaxInt64-1, "a"))
	exactly(t, mustGet(t, c), []ttRecord{first})
	f("below the horizon", stInvalid, stamped(900, "a"))
	f("before all clocks", stInvalid, stamped(math.MinInt64, "a"))
	f("another payload", stInvalid, stamped(700, "b"))
	other := first
	other.cap++
	f("another reading with its acq", stInvalid, other)
	f("what is there beside what is not", stInvalid, first, stamped(701, "b"))
	now := fromUnix(time.Now().UnixNano())
	f("what is not there beside what may be", stInvalid, stamped(701, "b"), stamped(now, "c"))
	f("what is there", 0, first)
	exactly(t, mustGet(t, c), []ttRecord{first})
}
