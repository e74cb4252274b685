package edge

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// GapMOID is the quantity of gap records, a reserved moid: queries see them where they name it. One
// takes the place of the records of a device that were dropped before they were shipped; its
// payload is a [Gap] as JSON, its cap that of the first.
const GapMOID = math.MinInt32

// Gap is what was dropped of a device.
type Gap struct {
	Edge      string `json:"edge"` // id of the edge that dropped it
	Records   int64  `json:"records"`
	Bytes     int64  `json:"bytes"`
	CapFromNs int64  `json:"cap_from_ns"` // of the records
	CapToNs   int64  `json:"cap_to_ns"`   // of the last one
}

// ParseGap reads a record as one, or says that it is none.
func ParseGap(r record.Record) (g Gap, ok bool) {
	if r.MOID != GapMOID || r.Tomb || json.Unmarshal(r.Payload, &g) != nil {
		return Gap{}, false
	}
	return g, g.Edge != "" && g.Records > 0 && g.Bytes >= 0 && g.CapFromNs <= g.CapToNs
}

type device struct {
	cid int32
	mid int64
}

// gaps gathers what is dropped, by device. A gap record that is dropped itself adds what it says.
type gaps map[device]*Gap

// add adds rows of a batch, and returns how many records beside gap records they are.
func (g gaps) add(b *record.Batch, rows int) (lost tally) {
	for i := range rows {
		r := b.Record(i)
		one, old := ParseGap(r)
		if !old {
			size := sizeOfRow(b, i)
			one = Gap{Records: 1, Bytes: size, CapFromNs: r.CapNs, CapToNs: r.CapNs}
			lost.add(1, size)
		}
		at := device{r.CID, r.MID}
		if sum := g[at]; sum != nil {
			sum.Records += one.Records
			sum.Bytes += one.Bytes
			sum.CapFromNs = min(sum.CapFromNs, one.CapFromNs)
			sum.CapToNs = max(sum.CapToNs, one.CapToNs)
		} else {
			g[at] = &one
		}
	}
	return lost
}

// batches returns the gap records, always in the same order.
func (g gaps) batches(edge string) (out []*record.Batch) {
	devices := make([]device, 0, len(g))
	for d := range g {
		devices = append(devices, d)
	}
	slices.SortFunc(devices, func(a, b device) int {
		return cmp.Or(cmp.Compare(a.cid, b.cid), cmp.Compare(a.mid, b.mid))
	})
	for part := range slices.Chunk(devices, record.MaxBatchRecords) {
		b := new(record.Batch)
		for _, d := range part {
			one := *g[d]
			one.Edge = edge
			text, err := json.Marshal(one)
			if err != nil {
				panic("BUG: a gap does not marshal: " + err.Error())
			}
			b.Append(record.Key{CID: d.cid, MID: d.mid, MOID: GapMOID, CapNs: one.CapFromNs}, text)
		}
		out = append(out, b)
	}
	return out
}
