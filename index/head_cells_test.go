package index

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestFillCells wants all that look at a head to see the same, whether rows still wait for their
// cells when he comes or someone has looked after each insert.
func TestFillCells(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	rows := new(record.Batch)
	for i := range 9000 {
		rows.AppendStamped(record.Key{CID: rng.Int32N(2), MID: rng.Int64N(4000),
			MOID: rng.Int32N(3), CapNs: rng.Int64N(10_000), AcqNs: int64(i)}, make([]byte, 8))
	}
	before := NewWatermarks()
	for i := range before {
		before[i] = rng.Int64N(3000)
	}
	box := &record.Box{record.Cap: {{From: 0, To: 5000}}}
	for name, look := range map[string]func(h *Head) any{
		"scan":        func(h *Head) any { return scanned(t, h, box) },
		"arrival":     func(h *Head) any { return scanned(t, h, &record.Box{}) },
		"count":       func(h *Head) any { return h.Count(box, record.Acq.Max()) },
		"flagged":     func(h *Head) any { return h.Flagged() },
		"readAll":     func(h *Head) any { return h.ReadAll(new(record.Batch)) },
		"unconfirmed": func(h *Head) any { return h.UnconfirmedFlags() },
		"marks":       func(h *Head) any { return *h.Watermarks() },
		"zones": func(h *Head) any {
			flagged := 0
			h.FlaggedZones(box, func(z FlaggedZone) { flagged += z.Flagged })
			return flagged
		},
		"newest": func(h *Head) any {
			found := 0
			for _, id := range h.Cells(box) {
				var c HeadCell
				h.Cell(id, box, &c)
				for i := range c.Chunks {
					found += len(h.ChunkRows(id, i, box, record.Acq.Max(), nil))
				}
			}
			return found
		},
	} {
		t.Run(name, func(t *testing.T) {
			lazy, eager := NewHead(before), NewHead(before)
			most := int64(0)
			for from := 0; from < rows.Len(); {
				to := min(rows.Len(), from+1+rng.IntN(100))
				b := part(rows, from, to)
				lazy.Insert(b)
				eager.Insert(b)
				eager.fillCells()
				most = max(most, lazy.outsideCells.Load())
				if got, want := lazy.Rows(), eager.Rows(); got != want {
					t.Fatalf("%d rows, want %d", got, want)
				}
				if from = to; rng.IntN(30) > 0 && from < rows.Len() {
					continue
				}
				outside := lazy.outsideCells.Load()
				if got, want := look(lazy), look(eager); !reflect.DeepEqual(got, want) {
					t.Fatalf("%d of %d rows wait: %v, want %v", outside, to, got, want)
				}
			}
			if most < 500 || lazy.Bytes() != eager.Bytes() {
				t.Errorf("%d rows waited at most; %d bytes, want %d", most, lazy.Bytes(),
					eager.Bytes())
			}
		})
	}
}

// found is a row that a scan has handed out, by its acq.
type found struct {
	capNs   int64
	flagged bool
}

func scanned(t *testing.T, h *Head, box *record.Box) map[int64]found {
	t.Helper()
	rows := map[int64]found{}
	err := h.Scan(box, record.Acq.Max(), false, func(b *record.Batch, flags []uint64) error {
		for i := range b.Len() {
			rows[b.AcqNs[i]] = found{b.CapNs[i], hasBit(flags, i)}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
