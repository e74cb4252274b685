package index

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// part copies the rows [from, to) of a batch.
func part(b *record.Batch, from, to int) *record.Batch {
	out := new(record.Batch)
	for i := from; i < to; i++ {
		if b.Tomb(i) {
			out.AppendStampedTomb(b.Key(i))
			continue
		}
		out.AppendStamped(b.Key(i), b.Payload(i))
	}
	return out
}

// insert fills a head in pieces of random size.
func insert(rng *rand.Rand, h *Head, rows *record.Batch) {
	for from := 0; from < rows.Len(); {
		to := min(rows.Len(), from+1+rng.IntN(1+rows.Len()/5))
		h.Insert(part(rows, from, to))
		from = to
	}
}

func TestHeadScan(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		h := NewHead(NewWatermarks())
		insert(rng, h, rows)
		if h.Rows() != rows.Len() || h.Bytes() < int64(len(rows.Data)) {
			t.Fatalf("%d rows of %d bytes, want %d", h.Rows(), h.Bytes(), rows.Len())
		}
		for range 60 {
			x := box(t, rng, rows)
			below := rows.AcqNs[rng.IntN(rows.Len())] + rng.Int64N(3)
			if rng.IntN(3) == 0 {
				below = record.Acq.Max()
			}
			checkScan(t, h, rows, x, below, rng.IntN(2) == 0)
		}
	})
}

func checkScan(
	t *testing.T, h *Head, rows *record.Batch, x *record.Box, below int64, keysOnly bool,
) {
	t.Helper()
	got := map[int64]string{} // acq tells rows apart
	err := h.Scan(x, below, keysOnly, func(b *record.Batch, flags []uint64) error {
		if b.Len() == 0 || b.Len() > scanRows || len(flags) != (b.Len()+63)/64 {
			t.Fatalf("%d rows, %d words of flags", b.Len(), len(flags))
		}
		for i := range b.Len() {
			key := b.Key(i)
			at, ok := slices.BinarySearch(rows.AcqNs, key.AcqNs)
			if _, twice := got[key.AcqNs]; !ok || twice || rows.Key(at) != key {
				t.Fatalf("box %v: row %v comes twice or was never inserted", x, key)
			}
			got[key.AcqNs] = string(b.Payload(i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for i := range rows.Len() {
		key := rows.Key(i)
		if !x.Contains(key) || key.AcqNs >= below {
			continue
		}
		want++
		payload, ok := got[key.AcqNs]
		if !ok || !keysOnly && payload != string(rows.Payload(i)) || keysOnly && payload != "" {
			t.Fatalf("box %v below %d: %v: %v, payload %x, want %x", x, below, key, ok, payload,
				rows.Payload(i))
		}
	}
	if n := h.Count(x, below); n != want && below <= rows.AcqNs[rows.Len()-1]+1 {
		t.Fatalf("box %v below %d: %d rows counted, want %d", x, below, n, want)
	}
	if len(got) != want {
		t.Fatalf("box %v below %d: %d rows, want %d", x, below, len(got), want)
	}
}

// TestFlags: a row that has the key of an older one, in this head or before it, must be flagged.
func TestFlags(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		half := rows.Len() / 2
		older, seen := NewWatermarks(), map[record.Key]bool{}
		flagged := 0
		frozen := new(record.Batch)
		for _, piece := range []*record.Batch{part(rows, 0, half), part(rows, half, rows.Len())} {
			h := NewHead(older)
			insert(rng, h, piece)
			flags := h.ReadAll(frozen)
			for i := range frozen.Len() {
				if frozen.Key(i) != piece.Key(i) ||
					!slices.Equal(frozen.Payload(i), piece.Payload(i)) {
					t.Fatalf("row %d is frozen as %v, want %v", i, frozen.Key(i), piece.Key(i))
				}
				key := frozen.Key(i)
				key.AcqNs = 0
				flag := flags[i>>6]>>(i&63)&1 == 1
				if seen[key] && !flag {
					t.Fatalf("%v is there already and is not flagged", key)
				}
				if flag {
					flagged++
				}
				seen[key] = true
			}
			older = h.Watermarks()
			again, err := ParseWatermarks(AppendWatermarks(nil, older))
			if err != nil || *again != *older {
				t.Fatalf("watermarks read again differ, %v", err)
			}
		}
		t.Logf("%d of %d rows flagged, %d are there already", flagged, rows.Len(),
			rows.Len()-len(seen))
	})
}

// TestHeadConcurrently scans while rows come in: of rows below a moment that was reached before
// the scan, none is missing, and no row is torn.
func TestHeadConcurrently(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	rows := shapes()[1].rows(rng, 40_000)
	h := NewHead(NewWatermarks())
	var reached, done atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		defer done.Store(1)
		for from := 0; from < rows.Len(); from += 200 {
			to := min(rows.Len(), from+200)
			h.Insert(part(rows, from, to))
			reached.Store(int64(to))
		}
	})
	for g := range 3 {
		rng := rand.New(rand.NewPCG(seed, uint64(g)+1))
		wg.Go(func() {
			for last := false; !last; {
				last = done.Load() == 1
				n := int(reached.Load())
				if n == 0 {
					continue
				}
				x := box(t, rng, rows)
				checkScan(t, h, part(rows, 0, n), x, rows.AcqNs[n-1]+1, rng.IntN(2) == 0)
			}
		})
	}
	wg.Wait()
}

func TestHeadScanStops(t *testing.T) {
	h, rng := NewHead(NewWatermarks()), rand.New(rand.NewPCG(1, 1))
	insert(rng, h, shapes()[0].rows(rng, 20_000))
	enough, calls := errors.New("enough"), 0
	err := h.Scan(&record.Box{}, record.Acq.Max(), true, func(*record.Batch, []uint64) error {
		calls++
		return enough
	})
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
