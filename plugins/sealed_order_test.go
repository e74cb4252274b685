package plugins_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
	"github.com/pentad-db/pentad/wasmhost"
)

// sealedFleet are readings of devices in the order of their capture times, device by device or
// interleaved, in blocks as a segment has them; they were sealed newest first, each file of them in
// chains of its own.
func sealedFleet(
	t *testing.T, s *seal.Schema, sample []byte, devices, times, files int, interleaved bool,
) (blocks []*record.Batch) {
	t.Helper()
	b := &record.Batch{}
	for i := range devices * times {
		mid, at := i/times, i%times
		if interleaved {
			mid, at = i%devices, i/devices
		}
		per := times / files
		file := at / per
		seq := per - at%per
		p := bytes.Clone(sample)
		p[8], p[9], p[10], p[11] = byte(mid), byte(mid>>8), byte(file), 7
		p[16], p[17], p[18], p[19] = byte(seq), byte(seq>>8), byte(seq>>16), 0
		b.AppendStamped(record.Key{CID: 1, MID: int64(mid), MOID: 9, CapNs: int64(at)}, p)
		if b.Len() == 8192 || i == devices*times-1 {
			blocks, b = append(blocks, b), &record.Batch{}
		}
	}
	return blocks
}

// TestSealedNewestFirst: readings that were sealed newest first make short lists of records, and
// leave fuel, whether a state has all of them or there is one of each block.
func TestSealedNewestFirst(t *testing.T) {
	m, doc := standard(t, "sealed-stats")
	s, all := sealedRows(t, seeded(t), 1, 1)
	params := encode(t, doc, map[string]string{"layout": s.Layout()})
	for _, c := range []struct {
		devices, times, files int
		interleaved           bool
	}{{300, 31 * 96, 1, false}, {300, 31 * 96, 1, true}, {6000, 96, 2, true}} {
		name := fmt.Sprintf("%d devices, %d times, %d files, interleaved %t", c.devices, c.times,
			c.files, c.interleaved)
		blocks := sealedFleet(t, s, all.batch.Payload(0), c.devices, c.times, c.files,
			c.interleaved)
		one, each := newAggregate(t, m, params), newAggregate(t, m, params)
		var saved []byte
		for _, b := range blocks {
			if err := one.Add(t.Context(), b, nil, 1); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if each.MemoryBytes() > each.MostBytes()/2 { // as a node does
				if err := each.Add(t.Context(), b, nil, 1); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				continue
			}
			if err := each.AddToPartial(t.Context(), b); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			state, err := each.SavePartial(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			saved = append(saved, state...)
		}
		union, err := each.Join(t.Context(), saved)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := each.Merge(t.Context(), union, []uint32{0}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var sizes []int
		for _, a := range []*wasmhost.Aggregate{one, each} {
			results, err := a.Finish(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			p, err := seal.ParsePartial(s, results[0])
			if err != nil || p.Count() != uint64(c.devices*c.times) {
				t.Fatalf("%s: %d readings, %v", name, p.Count(), err)
			}
			sizes = append(sizes, len(results[0]))
			if used := use(a.Usage()); used > 0.9 {
				t.Errorf("%s: a call used %.0f %% of its fuel", name, 100*used)
			}
		}
		t.Logf("%s: results of %v bytes, a call used %.0f %% and %.0f %% of its fuel", name, sizes,
			100*use(one.Usage()), 100*use(each.Usage()))
		if most := 64*c.devices*c.files + 1000; slices.Max(sizes) > most {
			t.Errorf("%s: results of %v bytes, want at most %d", name, sizes, most)
		}
	}
}
