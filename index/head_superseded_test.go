package index

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/record"
)

// headsModel is heads of which the last takes rows, and all of these rows.
type headsModel struct {
	heads   []*Head
	rows    record.Batch
	of      []int // the head of each row
	devices int64
}

// someRows makes stamped rows of few readings, in order of cap or not, with some tombstones.
func (m *headsModel) someRows(rng *rand.Rand, n int) *record.Batch {
	b := new(record.Batch)
	acqNs, late := int64(m.rows.Len()*2), rng.IntN(2) == 0
	for i := range n {
		k := record.Key{CID: rng.Int32N(2), MID: rng.Int64N(m.devices) * 100, CapNs: rng.Int64N(80),
			AcqNs: acqNs + int64(i*2)}
		if !late {
			k.CapNs = 80 + int64(m.rows.Len()+i)/50
		}
		if rng.IntN(30) == 0 {
			b.AppendStampedTomb(k)
			continue
		}
		b.AppendStamped(k, []byte{byte(i)})
	}
	return b
}

func (m *headsModel) insert(b *record.Batch) {
	m.heads[len(m.heads)-1].Insert(b)
	for i := range b.Len() {
		if b.Tomb(i) {
			m.rows.AppendStampedTomb(b.Key(i))
		} else {
			m.rows.AppendStamped(b.Key(i), b.Payload(i))
		}
		m.of = append(m.of, len(m.heads)-1)
	}
}

// latest returns the acqs of the rows of a head in a box that are shown below an acq.
func (m *headsModel) latest(head int, x *record.Box, belowNs int64) (acqs []int64) {
	seen := map[record.Key]bool{}
	for i := m.rows.Len() - 1; i >= 0; i-- {
		k := m.rows.Key(i)
		if r := readingOf(k); k.AcqNs < belowNs && !seen[r] {
			seen[r] = true
			if m.of[i] == head && x.Contains(k) && !m.rows.Tomb(i) {
				acqs = append(acqs, k.AcqNs)
			}
		}
	}
	slices.Sort(acqs)
	return acqs
}

// TestSuperseded counts and reads the latest rows of heads, at each moment that there was, while
// rows come.
func TestSuperseded(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	kept := 0
	for range 12 {
		m := &headsModel{heads: []*Head{NewHead(NewWatermarks())}, devices: 6 + 60*rng.Int64N(2)}
		for range 60 {
			m.insert(m.someRows(rng, 1+rng.IntN(100)))
			if rng.IntN(15) == 0 {
				m.heads = append(m.heads, NewHead(m.heads[len(m.heads)-1].Watermarks()))
			}
			if rng.IntN(3) == 0 {
				continue
			}
			x := new(record.Box)
			if rng.IntN(2) == 0 {
				x = box(t, rng, &m.rows)
				x[record.Acq] = nil
			}
			newest := m.rows.AcqNs[m.rows.Len()-1] + 1
			for i := range m.heads {
				findSuperseded(rng, x, m.heads[i:])
			}
			for range 3 {
				belowNs := newest
				if rng.IntN(2) == 0 {
					belowNs = rng.Int64N(newest + 1)
				}
				for i, h := range m.heads {
					checkLatest(t, h, x, belowNs, m.latest(i, x, belowNs))
				}
			}
		}
		for _, h := range m.heads {
			kept += keptRows(h)
		}
	}
	if kept == 0 {
		t.Error("no superseded row is kept")
	}
}

// TestSupersededInFullRowGroups looks at heads whose last row group is full.
func TestSupersededInFullRowGroups(t *testing.T) {
	m := &headsModel{heads: []*Head{NewHead(NewWatermarks())}}
	for range 4 {
		b := new(record.Batch)
		for i := range rowGroupRows {
			b.AppendStamped(record.Key{MID: int64(i % 7), CapNs: int64(i % 5000),
				AcqNs: int64(m.rows.Len() + i)}, nil)
		}
		m.insert(b)
		belowNs := int64(m.rows.Len())
		m.heads[0].FindSuperseded(&record.Box{}, nil)
		checkLatest(t, m.heads[0], &record.Box{}, belowNs, m.latest(0, &record.Box{}, belowNs))
	}
}

// findSuperseded is FindSuperseded, with few versions at once.
func findSuperseded(rng *rand.Rand, x *record.Box, heads []*Head) {
	if rng.IntN(2) == 0 {
		heads[0].FindSuperseded(x, heads[1:])
		return
	}
	for _, h := range heads {
		h.fillCells()
	}
	s := &headScan{head: heads[0], box: x}
	f := supersededFinder{most: 1 + rng.IntN(5)}
	for _, id := range s.cellIDs() {
		for f.find(s, id, heads[1:]) {
		}
	}
}

func checkLatest(t *testing.T, h *Head, x *record.Box, belowNs int64, want []int64) {
	t.Helper()
	if n := h.CountLatest(x, belowNs); n != len(want) {
		t.Fatalf("box %v below %d: %d rows counted, want %d", x, belowNs, n, len(want))
	}
	all := h.Count(x, belowNs)
	for _, keysOnly := range []bool{false, true} {
		var got []int64
		leftOut, err := h.ScanLatest(x, belowNs, keysOnly,
			func(b *record.Batch, _ []uint64) error {
				got = append(got, b.AcqNs...)
				return b.CheckShape()
			})
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) || leftOut != all-len(want) {
			t.Fatalf("box %v below %d: %d rows of %d, %d left out, want %d; %v", x, belowNs,
				len(got), all, leftOut, len(want), err)
		}
	}
}

// keptRows returns how many superseded rows a head keeps, each once.
func keptRows(h *Head) int {
	kept := map[rowID]bool{}
	for _, c := range h.list {
		if c.superseded == nil {
			continue
		}
		for _, r := range c.superseded.rows {
			if kept[r.at] {
				panic("BUG: a row is kept twice")
			}
			kept[r.at] = true
		}
	}
	return len(kept)
}

// TestSupersededWhileInserting asks for the latest rows below what had come, while more come and
// flags are cleared.
func TestSupersededWhileInserting(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	h := NewHead(NewWatermarks())
	all := &headsModel{heads: []*Head{NewHead(NewWatermarks())}, devices: 6}
	var batches []*record.Batch
	for range 80 {
		batches = append(batches, all.someRows(rng, 50))
		all.insert(batches[len(batches)-1])
	}
	var reached, done atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		defer done.Store(1)
		for _, b := range batches {
			h.Insert(b)
			reached.Add(int64(b.Len()))
		}
	})
	for g := range 3 {
		wg.Go(func() {
			for last := false; !last; {
				last = done.Load() == 1
				n := int(reached.Load())
				if n == 0 {
					continue
				}
				x, belowNs := &record.Box{}, all.rows.AcqNs[n-1]+1
				if g == 0 {
					h.ClearFalse(func([]SeriesCap) {})
				}
				h.FindSuperseded(x, nil)
				checkLatest(t, h, x, belowNs, all.latest(0, x, belowNs))
			}
		})
	}
	wg.Wait()
}

// TestScanSuperseding wants just the flagged rows of a box that a watermark reaches.
func TestScanSuperseding(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		half := rows.Len() / 2
		older := NewHead(NewWatermarks())
		insert(rng, older, part(rows, 0, half))
		before, piece := older.Watermarks(), part(rows, half, rows.Len())
		h := NewHead(before)
		insert(rng, h, piece)
		for range 30 {
			x, below := box(t, rng, piece), record.Acq.Max()
			if rng.IntN(2) == 0 {
				x[record.Acq] = nil
			}
			if rng.IntN(2) == 0 {
				below = piece.AcqNs[rng.IntN(piece.Len())]
			}
			var want, got []int64
			for i := range piece.Len() {
				k := piece.Key(i)
				reached := k.CapNs <= before[bucketOf(k.CID, k.MID, k.MOID)]
				if reached && x.Contains(k) && k.AcqNs < below {
					want = append(want, k.AcqNs)
				}
			}
			if err := h.ScanSuperseding(x, below, func(b *record.Batch) error {
				got = append(got, b.AcqNs...)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Fatalf("box %v below %d: rows %v, want %v", x, below, got, want)
			}
		}
	})
}

// TestClearFalseLeavesNewRows: a version that comes while ClearFalse compares rows stays flagged.
func TestClearFalseLeavesNewRows(t *testing.T) {
	h := NewHead(NewWatermarks())
	insertCap := func(capNs, acqNs int64) {
		b := new(record.Batch)
		b.AppendStamped(record.Key{CapNs: capNs, AcqNs: acqNs}, nil)
		h.Insert(b)
		h.fillCells()
	}
	insertCap(10, 1)
	insertCap(5, 2) // late, and no version
	s := &headScan{head: h, box: &record.Box{}, below: record.Acq.Max(), bound: 1 << 31}
	below := h.endOfCells()
	if !s.compare(0, 0) {
		t.Fatal("no row is flagged")
	}
	insertCap(5, 3)
	var set SeriesSet
	if chunks, _ := s.onlyOlder(0, 0, below, &set, nil, nil); len(chunks) > 0 {
		t.Error("the flag of a version would be cleared")
	}
	h.ClearFalse(func([]SeriesCap) {})
	if h.Flagged() != 2 {
		t.Errorf("%d rows are flagged, want 2", h.Flagged())
	}
}

// TestSizesOfCells: what is kept of superseded rows takes no space where there are none.
func TestSizesOfCells(t *testing.T) {
	if e, c := unsafe.Sizeof(entry{}), unsafe.Sizeof(cell{}); e != 16 || c != 128 {
		t.Errorf("an entry takes %d bytes and a cell %d, want 16 and 128", e, c)
	}
}
