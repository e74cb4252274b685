package index

import (
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestFlagsExactly wants a row flagged when, and only when, its series has a row in the head with
// its cap or a greater one, or the watermarks of everything before reach its cap: a head that
// flags more is right and slow.
func TestFlagsExactly(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		before := NewWatermarks()
		for from := 0; from < rows.Len(); {
			to := min(rows.Len(), from+1+rng.IntN(rows.Len()))
			piece := part(rows, from, to)
			from = to
			h := NewHead(before)
			insert(rng, h, piece)
			flags := h.ReadAll(new(record.Batch))
			unconfirmed := h.UnconfirmedFlags()
			newest, after := map[Series]int64{}, *before
			rowsOf := map[record.Key]int{}
			for i := range piece.Len() {
				rowsOf[readingOf(piece.Key(i))]++
			}
			for i := range piece.Len() {
				k := piece.Key(i)
				id := Series{k.CID, k.MOID, k.MID}
				bucket := bucketOf(k.CID, k.MID, k.MOID)
				known, ok := newest[id]
				want := ok && k.CapNs <= known || k.CapNs <= before[bucket]
				if got := flags[i>>6]>>(i&63)&1 == 1; got != want {
					t.Fatalf("row %d, %v: flagged %v, want %v", i, k, got, want)
				}
				wantUnconfirmed := want && (!ok || k.CapNs > known || rowsOf[readingOf(k)] == 1)
				if got := slices.Contains(unconfirmed, uint32(i)); got != wantUnconfirmed {
					t.Fatalf("row %d, %v: unconfirmed %v, want %v", i, k, got, wantUnconfirmed)
				}
				if !ok || k.CapNs > known {
					newest[id] = k.CapNs
				}
				after[bucket] = max(after[bucket], k.CapNs)
			}
			if before = h.Watermarks(); *before != after {
				t.Fatal("watermarks are not the greatest caps")
			}
		}
	})
}

// readingOf returns a key without its acq.
func readingOf(k record.Key) record.Key {
	k.AcqNs = 0
	return k
}

// TestScanVersions wants just the flagged rows of a box that have another version in the head, or a
// watermark that reaches their cap.
func TestScanVersions(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		half := rows.Len() / 2
		older := NewHead(NewWatermarks())
		insert(rng, older, part(rows, 0, half))
		before, piece := older.Watermarks(), part(rows, half, rows.Len())
		for range piece.Len() / 5 { // more versions
			k := piece.Key(rng.IntN(piece.Len()))
			k.AcqNs = piece.AcqNs[piece.Len()-1] + 1
			piece.AppendStamped(k, nil)
		}
		h := NewHead(before)
		insert(rng, h, piece)
		flags := h.ReadAll(new(record.Batch))
		for range 30 {
			x, below := box(t, rng, piece), record.Acq.Max()
			if rng.IntN(2) == 0 {
				below = piece.AcqNs[rng.IntN(piece.Len())]
			}
			inBox := func(k record.Key) bool { return x.Contains(k) && k.AcqNs < below }
			rowsOf := map[record.Key]int{}
			for i := range piece.Len() {
				if k := piece.Key(i); k.AcqNs < below { // the older one may be outside of the box
					rowsOf[readingOf(k)]++
				}
			}
			may, must := map[record.Key]bool{}, map[record.Key]bool{}
			for i := range piece.Len() {
				k := piece.Key(i)
				if !inBox(k) || flags[i>>6]>>(i&63)&1 == 0 {
					continue
				}
				may[k] = true
				if rowsOf[readingOf(k)] > 1 || k.CapNs <= before[bucketOf(k.CID, k.MID, k.MOID)] {
					must[k] = true
				}
			}
			got := 0
			if err := h.ScanVersions(x, below, func(b *record.Batch) error {
				for i := range b.Len() {
					if !may[b.Key(i)] {
						t.Fatalf("%v is handed out twice, or is no flagged row of %v", b.Key(i), x)
					}
					delete(may, b.Key(i))
					delete(must, b.Key(i))
					got++
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if len(must) > 0 {
				t.Fatalf("%v: %d rows are handed out, and not %v", x, got, must)
			}
		}
	})
}

// TestScanVersionsLeavesOutLateRows: rows that only came late are no versions, in heads and when
// they are sealed.
func TestScanVersionsLeavesOutLateRows(t *testing.T) {
	var rows record.Batch
	const n = 5000
	for i := range n {
		rows.AppendStamped(record.Key{MID: int64(i % 7), CapNs: int64(n - i), AcqNs: int64(i)}, nil)
	}
	handed := func() (h *Head, handed int) {
		h = NewHead(NewWatermarks())
		h.Insert(&rows)
		if err := h.ScanVersions(&record.Box{}, record.Acq.Max(), func(b *record.Batch) error {
			handed += b.Len()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return h, handed
	}
	if h, got := handed(); h.Flagged() != n-7 || got != 0 || len(h.UnconfirmedFlags()) != n-7 {
		t.Errorf("%d of %d late rows are versions, %d are unconfirmed", got, h.Flagged(),
			len(h.UnconfirmedFlags()))
	}
	again := rows.Key(n / 2)
	again.AcqNs = n
	rows.AppendStamped(again, nil)
	if h, got := handed(); got != 2 || len(h.UnconfirmedFlags()) != n-7-1 {
		t.Errorf("%d rows are versions, %d are unconfirmed; there is one reading with two", got,
			len(h.UnconfirmedFlags()))
	}
}

// TestBuckets: neighbours in any part of a series fall into many buckets.
func TestBuckets(t *testing.T) {
	f := func(name string, of func(i int) int) {
		t.Helper()
		var used [buckets]bool
		count := 0
		for i := range buckets {
			if b := of(i); !used[b] {
				used[b] = true
				count++
			}
		}
		if count < buckets/2 { // at random it would be 1 - 1/e of them
			t.Errorf("%s: %d series fall into %d buckets", name, buckets, count)
		}
	}
	f("devices", func(i int) int { return bucketOf(1, int64(i), 1) })
	f("devices apart", func(i int) int { return bucketOf(1, int64(i)<<40, 1) })
	f("tenants", func(i int) int { return bucketOf(int32(i), 7, 1) })
	f("quantities", func(i int) int { return bucketOf(1, 7, int32(i)) })
	f("all", func(i int) int { return bucketOf(int32(i), int64(i), int32(i)) })
}

// TestHeadBytes holds the memory that a head reports against what the heap gains and what lies
// beside it. Seals and refusals are decided by it.
func TestHeadBytes(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	f := func(name string, rows *record.Batch, batch int) {
		t.Helper()
		var before, after runtime.MemStats
		emptySlabs(t)
		runtime.ReadMemStats(&before)
		h := NewHead(NewWatermarks())
		h.Pin()
		defer h.Unpin()
		for from := 0; from < rows.Len(); from += batch {
			h.Insert(part(rows, from, min(from+batch, rows.Len())))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		got := int(after.HeapAlloc) - int(before.HeapAlloc)
		if l := h.rows.memory.owner; l != nil {
			seen := map[*slab]bool{}
			for _, s := range l.slabs.shares {
				got += bits.OnesCount32(s.units) * unitBytes
				if !s.slab.mapped && !seen[s.slab] { // as with the race detector
					got -= slabBytes
				}
				seen[s.slab] = true
			}
			for _, s := range l.slabs.whole {
				got += touched(s)
				if !s.mapped {
					got -= len(s.bytes)
				}
			}
		}
		if ratio := float64(got) / float64(h.Bytes()); ratio < 0.6 || ratio > 1.6 {
			t.Errorf("%s: %d bytes a row, said to be %d", name,
				got/rows.Len(), h.Bytes()/int64(rows.Len()))
		}
		runtime.KeepAlive(rows)
	}
	for _, s := range []shape{shapes()[0],
		{name: "random ids", cids: 1, mids: 1 << 40, moids: 1, batch: 100},
		{name: "few rows a cell", cids: 1 << 13, mids: 1, moids: 1, batch: 100},
		{name: "small tables", cids: 1 << 11, mids: 9, moids: 1, batch: 100}} {
		f(s.name, s.rows(rand.New(rand.NewPCG(1, 1)), 1<<17), 1<<13)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	f("1 KiB", withPayloads(40_000, func() int { return 1 << 10 }), 100)
	f("up to 1 KiB", withPayloads(80_000, func() int { return rng.IntN(1 << 10) }), 100)
	f("up to 100 bytes", withPayloads(200_000, func() int { return rng.IntN(100) }), 100)
	for _, rows := range []int{4_200, 5_000, 17_000} { // just past where space is made for more
		f(fmt.Sprint(rows, " of 100 bytes"), withPayloads(rows, func() int { return 100 }), 250)
		f(fmt.Sprint(rows, " of 16 bytes"), withPayloads(rows, func() int { return 16 }), 250)
	}
	f("10 KiB", withPayloads(7_000, func() int { return 10 << 10 }), 7)
	f("few rows", withPayloads(70, func() int { return 300<<10 + rng.IntN(2) }), 1)
}

// emptySlabs waits until heads that are gone have given back their memory, and no one keeps it.
func emptySlabs(t *testing.T) {
	t.Helper()
	for range 1000 {
		for range 3 { // a pool forgets what it has with the second
			runtime.GC()
		}
		slabs.mu.Lock()
		left := len(slabs.partly)
		slabs.mu.Unlock()
		if left == 0 {
			return
		}
	}
	t.Fatal("some head keeps its memory")
}

// withPayloads returns rows of one device with payloads of this many bytes.
func withPayloads(rows int, size func() int) *record.Batch {
	b, payload := new(record.Batch), bytes.Repeat([]byte{0xff}, 1<<20)
	for i := range rows {
		at := int64(i)
		b.AppendStamped(record.Key{CapNs: at, AcqNs: at}, payload[:size()])
	}
	return b
}

// touched returns how much memory a slab takes that no head had before: the pages that something
// was written to.
func touched(s *slab) (n int) {
	nothing := make([]byte, slabBytes)
	for page := range slices.Chunk(s.bytes, slabBytes) {
		if !bytes.Equal(page, nothing) {
			n += slabBytes
		}
	}
	return n
}

// TestScanFlags: the flags that a scan hands out are those of the frozen head, however many
// rows between them the box leaves out.
func TestScanFlags(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		h := NewHead(NewWatermarks())
		insert(rng, h, rows)
		flags := h.ReadAll(new(record.Batch))
		for range 30 {
			x := box(t, rng, rows)
			err := h.Scan(x, record.Acq.Max(), true, func(b *record.Batch, got []uint64) error {
				for i := range b.Len() {
					rank, _ := slices.BinarySearch(rows.AcqNs, b.AcqNs[i])
					want := flags[rank>>6] >> (rank & 63) & 1
					if got[i>>6]>>(i&63)&1 != want {
						t.Fatalf("box %v: row %v: flagged %d, want %d", x, b.Key(i), 1-want, want)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
