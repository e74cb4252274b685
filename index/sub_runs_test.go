package index

import (
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestSubRunsOfInstants clusters devices that have some readings at the same instants: each sub-run
// has one.
func TestSubRunsOfInstants(t *testing.T) {
	f := func(instants, devices, readings, wantSubs int) {
		t.Helper()
		b := new(record.Batch)
		for i := range instants * devices {
			if device, at := i%devices, i/devices; (device+at)%instants < readings {
				b.AppendStamped(record.Key{MID: int64(device), CapNs: int64(at * 100),
					AcqNs: int64(i)}, nil)
			}
		}
		s := Build(b, clusterRows(b, Options{}), make([]uint64, b.Len()/64+1), []uint64{0},
			[]uint32{0})
		start, ends := uint32(0), []uint32{}
		for _, sub := range s.Block(0).Subs {
			if sub.End == start {
				continue
			}
			if one := sub.CapLo == sub.CapHi; one != (wantSubs == instants) {
				t.Errorf("%d instants of %d devices: caps %d to %d in a sub-run", instants, devices,
					sub.CapLo, sub.CapHi)
			}
			start = sub.End
			ends = append(ends, sub.End)
		}
		if len(ends) != wantSubs || ends[len(ends)-1] != uint32(b.Len()) || !slices.IsSorted(ends) {
			t.Errorf("%d instants of %d devices: sub-runs end at %d, want %d of them", instants,
				devices, ends, wantSubs)
		}
	}
	f(1, 1000, 1, 1)
	f(3, 1001, 3, 3)
	f(5, 700, 3, 5)
	f(7, 999, 2, 7)
	f(3, 1, 3, 3)
	f(4, 1, 4, 1) // as runs
	f(5, 700, 4, 1)
	f(16, 10, 16, 1)
}

// TestSubRunsOfManyCaps finds sub-runs of as many rows where each row has a cap of its own.
func TestSubRunsOfManyCaps(t *testing.T) {
	b := new(record.Batch)
	const rows = 800
	for i := range rows {
		b.AppendStamped(record.Key{MID: int64(i), CapNs: int64(i * 7 % rows), AcqNs: int64(i)}, nil)
	}
	l := clusterRows(b, Options{})
	for k, end := range l.SubEnds[0] {
		if want := uint32(rows * (k + 1) / subRuns &^ 7); end != want {
			t.Errorf("sub-run %d ends at %d, want %d", k, end, want)
		}
	}
}
