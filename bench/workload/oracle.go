package workload

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// Answer is what a set of rows comes to: two answers are equal when the sets are, whatever their
// order.
type Answer struct {
	Rows  uint64
	Sum   uint64 // of the hashes of the rows
	NoAcq uint64 // the same, of hashes without acq
}

// Equals reports whether a is the answer that is wanted, with its acqs or without.
func (a Answer) Equals(want Answer, noAcq bool) bool {
	if noAcq {
		a.Sum = want.Sum
	}
	return a == want
}

// Add adds the rows of a batch that answers a query of that kind; stamps are the first stamps of
// all batches that were stored.
func (a *Answer) Add(b *record.Batch, want system.Want, stamps []int64) {
	for i := range b.Len() {
		hash := hashRow(b.Key(i), b.Payload(i))
		a.Rows++
		a.NoAcq += hash
		stamp := b.AcqNs[i]
		if want != system.WantGroups {
			at, same := slices.BinarySearch(stamps, stamp)
			if !same {
				at--
			}
			if at < 0 || stamp >= stamps[at]+BatchRows {
				continue // a stamp that was never given makes the answer differ
			}
			stamp = stamps[at]
		}
		a.Sum += withAcq(hash, stamp)
	}
}

func withAcq(hash uint64, acqNs int64) uint64 { return Mix(hash ^ Mix(uint64(acqNs))) }

// hashRow leaves acq out.
func hashRow(k record.Key, p []byte) uint64 {
	h := Mix(uint64(k.MID))
	h = Mix(h ^ uint64(uint32(k.CID))<<32 ^ uint64(uint32(k.MOID)))
	h = Mix(h ^ uint64(k.CapNs))
	for len(p) >= 8 {
		h = Mix(h ^ binary.LittleEndian.Uint64(p))
		p = p[8:]
	}
	return h
}

// Mix is a hash of one number: the finaliser of splitmix64.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Oracle answers queries by looking at every row.
type Oracle struct{ asked []*asked }

// asked is one box of one query on its way through the rows.
type asked struct {
	query    int
	ask      system.Query
	versions map[record.Key]seen // per key the newest version, unless the view is all
	last     map[record.Key]seen // per series the newest record, with WantLast
	groups   map[record.Key]*tally
	answer   Answer
}

// seen is a row: its stamp, its number and its hash.
type seen struct {
	capNs, acqNs int64
	number       float64
	hash         uint64 // without acq
}

// tally is a group so far.
type tally struct{ rows, sum, max float64 }

// NewOracle returns an oracle for queries.
func NewOracle(queries []Query) (*Oracle, error) {
	o := &Oracle{}
	for i, q := range queries {
		for _, box := range q.Boxes {
			if err := box.Normalize(); err != nil {
				return nil, fmt.Errorf("%s: %w", q.Name, err)
			}
			if box.View != record.ViewAll && len(box.Box[record.Acq]) > 0 {
				return nil, fmt.Errorf("%s: the oracle knows no view with a range of acq", q.Name)
			}
			o.asked = append(o.asked, &asked{query: i, ask: box,
				versions: map[record.Key]seen{}, last: map[record.Key]seen{},
				groups: map[record.Key]*tally{}})
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
		if a.ask.Box[record.Acq].Intersects(b.AcqNs[0], b.AcqNs[b.Len()-1]) &&
			a.ask.Box[record.Cap].Intersects(lo, hi) {
			a.add(b)
		}
	}
}

func (a *asked) add(b *record.Batch) {
	if a.ask.View == record.ViewAsOf && b.AcqNs[0] >= a.ask.AsOfAcqNs {
		return
	}
	box := &a.ask.Box
	for i, capNs := range b.CapNs {
		if !box[record.Cap].Contains(capNs) || !box[record.MID].Contains(b.MID[i]) ||
			!box[record.MOID].Contains(int64(b.MOID[i])) ||
			!box[record.CID].Contains(int64(b.CID[i])) ||
			!box[record.Acq].Contains(b.AcqNs[i]) {
			continue
		}
		if a.ask.View == record.ViewAll && a.ask.Want == system.WantCount {
			a.answer.Rows++
			continue
		}
		k, payload := b.Key(i), b.Payload(i)
		row := seen{capNs, k.AcqNs, system.Number(payload), hashRow(k, payload)}
		if a.ask.View == record.ViewAll {
			a.count(k, row)
			continue
		}
		k.AcqNs = 0
		if had, ok := a.versions[k]; !ok || had.acqNs <= row.acqNs {
			a.versions[k] = row
		}
	}
}

// count takes a row of the view.
func (a *asked) count(k record.Key, row seen) {
	switch a.ask.Want {
	case system.WantRows, system.WantCount:
		a.row(row.hash, row.acqNs)
	case system.WantAbove:
		if row.number > a.ask.Above {
			a.row(row.hash, row.acqNs)
		}
	case system.WantLast:
		series := record.Key{CID: k.CID, MID: k.MID, MOID: k.MOID}
		had, ok := a.last[series]
		if !ok || cmp.Or(cmp.Compare(had.capNs, row.capNs),
			cmp.Compare(had.acqNs, row.acqNs)) <= 0 {
			a.last[series] = row
		}
	case system.WantGroups:
		g := a.ask.GroupKey(k)
		if a.groups[g] == nil {
			a.groups[g] = &tally{max: row.number}
		}
		t := a.groups[g]
		t.rows, t.sum, t.max = t.rows+1, t.sum+row.number, max(t.max, row.number)
	}
}

func (a *asked) row(hash uint64, acqNs int64) {
	a.answer.Rows++
	if a.ask.Want != system.WantCount {
		a.answer.Sum += withAcq(hash, acqNs)
		a.answer.NoAcq += hash
	}
}

func (a *asked) finish() Answer {
	for k, row := range a.versions {
		a.count(k, row)
	}
	a.versions = nil
	for _, row := range a.last {
		a.row(row.hash, row.acqNs)
	}
	a.last = nil
	for k, g := range a.groups {
		a.row(hashRow(k, system.AppendNumber(nil, g.value(a.ask.Func))), 0)
	}
	a.groups = nil
	return a.answer
}

func (t *tally) value(f system.Func) float64 {
	switch {
	case f == system.FuncMax:
		return t.max
	case math.Abs(t.sum) > 1<<53 || t.sum != math.Trunc(t.sum):
		return math.NaN() // the order of the additions would show: no workload may ask that
	case f == system.FuncMean:
		return t.sum / t.rows
	default:
		return t.sum
	}
}

// Answers returns the answers by query and box. The oracle is spent.
func (o *Oracle) Answers() [][]Answer {
	var out [][]Answer
	for _, a := range o.asked {
		for a.query >= len(out) {
			out = append(out, nil)
		}
		out[a.query] = append(out[a.query], a.finish())
	}
	return out
}
