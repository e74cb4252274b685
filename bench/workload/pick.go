package workload

import (
	"math/rand/v2"
	"time"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// Instances is how many boxes a query is asked with.
const Instances = 11

// Boxes calls f for every box of a query.
func Boxes(name, about string, f func() system.Query) Query {
	q := Query{Name: name, About: about}
	for range Instances {
		q.Boxes = append(q.Boxes, f())
	}
	return q
}

// Once is a query without anything to choose: one box.
func Once(name, about string, q system.Query) Query {
	return Query{Name: name, About: about, Boxes: []system.Query{q}}
}

// Window returns a random window of that width in [from, to), beginning at a whole step from from;
// all of it when it is not wider.
func Window(rng *rand.Rand, from, to, widthNs, stepNs int64) record.RangeSet {
	if to-from <= widthNs {
		return record.RangeSet{{From: from, To: to}}
	}
	at := from + rng.Int64N((to-from-widthNs)/stepNs+1)*stepNs
	return record.RangeSet{{From: at, To: at + widthNs}}
}

// Step returns a step, from about that one on, which visits all of n places before it comes back.
func Step(about, n int) int {
	step := about | 1
	for a, b := step, n; ; a, b = step, n {
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return step
		}
		step += 2
	}
}

// Point returns the set of one value.
func Point(v int64) record.RangeSet { return record.RangeSet{record.At(v)} }

// Between returns the first stamp of a batch at ns or later: which row of a batch has which stamp
// is the node's business, so windows of acq begin and end between batches.
func (s *Survey) Between(ns int64) int64 {
	for _, stamp := range s.Stamps {
		if stamp >= ns {
			return stamp
		}
	}
	return record.Acq.Max()
}

// Batcher fills batches for streams that make one row after another.
type Batcher struct {
	last int64
}

// Seal gives all rows of a batch one moment of arrival, not before arrivalNs, and after that of the
// last batch.
func (m *Batcher) Seal(b *record.Batch, arrivalNs int64) bool {
	if b.Len() == 0 {
		return false
	}
	m.last = max(arrivalNs, m.last+int64(time.Millisecond))
	b.AcqNs = b.AcqNs[:0]
	for range b.Len() {
		b.AcqNs = append(b.AcqNs, m.last)
	}
	return true
}

// AppendRow appends a row whose payload is a number.
func AppendRow(b *record.Batch, cid int32, mid int64, moid int32, capNs int64, value float64) {
	b.CID = append(b.CID, cid)
	b.MID = append(b.MID, mid)
	b.MOID = append(b.MOID, moid)
	b.CapNs = append(b.CapNs, capNs)
	b.Stride = system.NumberBytes
	b.Data = system.AppendNumber(b.Data, value)
}

// Begin empties a batch for the next rows.
func Begin(b *record.Batch) {
	b.Reset()
	b.AcqNs = b.AcqNs[:0]
}
