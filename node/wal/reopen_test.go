package wal

import (
	"fmt"
	"testing"
)

// A process ends at some operation, killed or because it failed; the next one reads what the kernel
// still holds, hands it out, and then power is lost: what was handed out is there.
func TestReopenedIsDurable(t *testing.T) {
	rng := randomSource(t)
	for failAt := 1; failAt < 60; failAt++ {
		d := newMemoryFolder()
		d.failAt = failAt
		l, _, err := openFolder(d, "log", Options{FileBytes: 400}, replayed(new([]Entry)))
		for i := 0; err == nil && i < 30; i++ {
			_, err = l.Append(randomEntries(rng, uint64(i)*10))
		}
		d.failAt = 0
		for _, f := range d.names {
			f.lost = f.lost && rng.IntN(2) == 0 // killed, not failed: pages are still to be written
		}
		var seen []Entry
		l, _, err = openFolder(d, "log", Options{FileBytes: 400}, replayed(&seen))
		if err != nil {
			t.Fatalf("operation %d: %v", failAt, err)
		}
		what := fmt.Sprintf("ended at operation %d", failAt)
		afterCrash(t, rng, d, [][]Entry{seen}, nil, what)
		more := []Entry{{LSN: 1, Data: []byte("more")}}
		if _, err := l.Append(more); err != nil {
			t.Fatal(err)
		}
		afterCrash(t, rng, d, [][]Entry{seen, more}, nil, what+", appended")
	}
}
