package meters

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// Answer is what a set of rows comes to: two answers are equal when the sets are, whatever their
// order.
type Answer struct {
	Rows uint64
	Sum  uint64 // of the hashes of the rows
}

// Add adds the rows of a batch; keys, payloads, and the batch of acqs, the first stamps of all
// batches, in which they were acquired.
func (a *Answer) Add(b *record.Batch, acqs []int64) {
	for i := range b.Len() {
		at, same := slices.BinarySearch(acqs, b.AcqNs[i])
		if !same {
			at--
		}
		if at < 0 || b.AcqNs[i] >= acqs[at]+BatchRows {
			a.Rows++ // a stamp that was never given makes the answer differ
			continue
		}
		a.Rows++
		a.Sum += hashRow(b, i, acqs[at])
	}
}

func hashRow(b *record.Batch, i int, acqNs int64) uint64 {
	h := mix(uint64(b.MID[i]))
	h = mix(h ^ uint64(uint32(b.CID[i]))<<32 ^ uint64(uint32(b.MOID[i])))
	h = mix(h ^ uint64(b.CapNs[i]))
	h = mix(h ^ uint64(acqNs))
	p := b.Payload(i)
	for len(p) >= 8 {
		h = mix(h ^ binary.LittleEndian.Uint64(p))
		p = p[8:]
	}
	return h
}

// Oracle answers queries by looking at every row.
type Oracle struct{ asked []*asked }

// asked is one box of one query on its way through the rows.
type asked struct {
	query  int
	count  bool
	ranges [record.NumDims]record.RangeSet
	latest map[record.Key]version
	answer Answer
}

// version is the newest row of a key so far.
type version struct {
	acqNs int64
	hash  uint64
}

// NewOracle returns an oracle for queries. Views "as of" are not known to it.
func NewOracle(queries []Query) (*Oracle, error) {
	o := &Oracle{}
	for i, q := range queries {
		for _, box := range q.Boxes {
			if box.View == record.ViewAsOf {
				return nil, fmt.Errorf("oracle: %s asks for a past state", q.Name)
			}
			if err := box.Normalize(); err != nil {
				return nil, fmt.Errorf("%s: %w", q.Name, err)
			}
			a := &asked{query: i, count: q.Count, ranges: box.Box}
			if box.View == record.ViewLatest {
				a.latest = map[record.Key]version{}
			}
			o.asked = append(o.asked, a)
		}
	}
	return o, nil
}

// Add looks at the rows of a batch.
func (o *Oracle) Add(b *record.Batch) {
	if b.Len() == 0 {
		return
	}
	lo, hi := slices.Min(b.CapNs), slices.Max(b.CapNs)
	for _, a := range o.asked {
		if a.ranges[record.Acq].Meets(b.AcqNs[0], b.AcqNs[b.Len()-1]) &&
			a.ranges[record.Cap].Meets(lo, hi) {
			a.add(b)
		}
	}
}

func (a *asked) add(b *record.Batch) {
	for i, capNs := range b.CapNs {
		if !a.ranges[record.Cap].Contains(capNs) || !a.ranges[record.MID].Contains(b.MID[i]) ||
			!a.ranges[record.MOID].Contains(int64(b.MOID[i])) ||
			!a.ranges[record.CID].Contains(int64(b.CID[i])) ||
			!a.ranges[record.Acq].Contains(b.AcqNs[i]) {
			continue
		}
		switch {
		case a.count:
			a.answer.Rows++
		case a.latest != nil:
			key := b.Key(i)
			key.AcqNs = 0
			if had, ok := a.latest[key]; !ok || had.acqNs <= b.AcqNs[i] {
				a.latest[key] = version{b.AcqNs[i], hashRow(b, i, b.AcqNs[i])}
			}
		default:
			a.answer.Rows++
			a.answer.Sum += hashRow(b, i, b.AcqNs[i])
		}
	}
}

// Answers returns the answers by query and box.
func (o *Oracle) Answers() [][]Answer {
	var out [][]Answer
	for _, a := range o.asked {
		for _, v := range a.latest {
			a.answer.Rows++
			a.answer.Sum += v.hash
		}
		for a.query >= len(out) {
			out = append(out, nil)
		}
		out[a.query] = append(out[a.query], a.answer)
	}
	return out
}
