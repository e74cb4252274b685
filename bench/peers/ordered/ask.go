package ordered

import (
	"math"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// Cursor walks the keys of a store. Seeks and steps report whether there is a key.
type Cursor interface {
	SeekGE(key []byte) bool // to the first key that is not less
	SeekLT(key []byte) bool // to the last key that is less
	Next() bool
	Key() []byte   // valid until the cursor moves
	Value() []byte // valid until the cursor moves
}

// Choose returns the copy that serves a query best.
func Choose(orders []Order, shape system.Shape, q *system.Query) int {
	if q.View != record.ViewAll || q.Want == system.WantLast {
		return 0 // versions of a reading are neighbours there, and so are those of a series
	}
	best, smallest := 0, math.Inf(1)
	for c, o := range orders {
		if part := o.part(shape, &q.Box); part < smallest {
			best, smallest = c, part
		}
	}
	return best
}

// part is the share of the keys that must be looked at.
func (o Order) part(shape system.Shape, box *record.Box) float64 {
	part := 1.0
	for _, dim := range o {
		set := box[dim]
		if len(set) == 0 && (dim == record.CID || dim == record.MOID) {
			continue // of few values: each is sought in turn
		}
		if len(set) == 0 {
			break
		}
		extent := shape.Extent[dim]
		width, point := 0.0, true
		for _, r := range set {
			width += max(0, float64(min(r.To, extent.To))-float64(max(r.From, extent.From)))
			point = point && r.To-r.From == 1
		}
		part *= width / max(1, float64(extent.To-extent.From))
		if !point {
			break
		}
	}
	return part
}

// Ask answers a query from the copy that [Choose] returned, of which the cursor sees all keys. It
// returns the number of rows; the cursor's errors are the caller's.
func Ask(c Cursor, o Order, copied int, q *system.Query, take func(b *record.Batch)) uint64 {
	if q.Want == system.WantLast && q.View == record.ViewAll && len(q.Box[record.Cap]) == 0 &&
		len(q.Box[record.Acq]) == 0 {
		return lasts(c, o, copied, q, take)
	}
	s := &scan{cursor: c, order: o, copied: copied, box: &q.Box, asOfNs: math.MaxInt64,
		versions: q.View != record.ViewAll, count: q.Want == system.WantCount, take: take}
	if q.View == record.ViewAsOf {
		s.asOfNs = q.AsOfAcqNs
	}
	if q.Want == system.WantRows || q.Want == system.WantCount {
		s.run()
		return s.rows
	}
	r := system.NewReducer(q, take)
	s.take = r.Add
	s.run()
	return r.Finish()
}

// lasts finds the last record of each series, from the last series to the first, a seek for each.
func lasts(c Cursor, o Order, copied int, q *system.Query, take func(b *record.Batch)) uint64 {
	e := emitter{take: take}
	end := [record.NumDims]int64{}
	for d := range end {
		end[d] = record.Dim(d).Max()
	}
	for d, set := range q.Box[:record.Cap] {
		if len(set) == 0 {
			continue
		}
		last := set[len(set)-1]
		end[d] = last.To - 1
		if last.To-last.From > 1 {
			break // what follows in the key may be anything
		}
	}
	target := o.append(nil, copied, end)
	for c.SeekLT(target) {
		key := c.Key()
		if int(key[0]) != copied {
			break
		}
		k := o.parse(key)
		if q.Box.Contains(keyOf(k)) {
			e.add(keyOf(k), c.Value())
		} else if below(&q.Box, k) {
			break
		}
		k[record.Cap], k[record.Acq] = math.MinInt64, math.MinInt64
		target = o.append(target[:0], copied, k)
	}
	e.flush()
	return e.rows
}

// below reports whether a key, and with it all lesser ones, comes before the box.
func below(box *record.Box, k [record.NumDims]int64) bool {
	for d, set := range box[:record.Cap] {
		if len(set) == 0 || k[d] > set[0].From {
			return false
		}
		if k[d] < set[0].From {
			return true
		}
	}
	return false
}

// emitter gathers rows into batches.
type emitter struct {
	take  func(b *record.Batch)
	batch record.Batch
	rows  uint64
}

func (e *emitter) add(k record.Key, payload []byte) {
	e.rows++
	e.batch.AppendStamped(k, payload)
	if e.batch.Len() >= system.TakeRows {
		e.flush()
	}
}

func (e *emitter) flush() {
	if e.batch.Len() > 0 {
		e.take(&e.batch)
		e.batch.Reset()
	}
}
