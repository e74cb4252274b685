package system

import (
	"encoding/binary"
	"math"

	"github.com/pentad-db/pentad/sdk/record"
)

// Number returns the number in a payload.
func Number(payload []byte) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(payload))
}

// AppendNumber appends a number as payloads hold it.
func AppendNumber(dst []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

// Reducer answers a query from all rows of its box, for systems that can only hand rows out: what a
// program beside an embedded store would do. Rows are of the query's view already.
type Reducer struct {
	q    *Query
	take func(b *record.Batch)

	rows   uint64
	out    record.Batch
	last   map[record.Key]record.Record
	groups map[record.Key]*group
}

type group struct {
	count    uint64
	sum, max float64
}

// NewReducer returns a reducer that hands its rows to take.
func NewReducer(q *Query, take func(b *record.Batch)) *Reducer {
	return &Reducer{q: q, take: take, last: map[record.Key]record.Record{},
		groups: map[record.Key]*group{}}
}

// Add takes rows of the box. It keeps nothing of b.
func (r *Reducer) Add(b *record.Batch) {
	switch r.q.Want {
	case WantRows:
		r.rows += uint64(b.Len())
		r.take(b)
	case WantCount:
		r.rows += uint64(b.Len())
	case WantLast:
		for i := range b.Len() {
			r.addLast(b.Record(i))
		}
	case WantAbove:
		for i := range b.Len() {
			if p := b.Payload(i); Number(p) > r.q.Above {
				r.emit(b.Key(i), p)
			}
		}
	case WantGroups:
		for i := range b.Len() {
			r.addGroup(b.Key(i), Number(b.Payload(i)))
		}
	}
}

func (r *Reducer) addLast(x record.Record) {
	series := record.Key{CID: x.CID, MID: x.MID, MOID: x.MOID}
	had, ok := r.last[series]
	if ok && (had.CapNs > x.CapNs || had.CapNs == x.CapNs && had.AcqNs > x.AcqNs) {
		return
	}
	r.last[series] = record.Record{Key: x.Key, Payload: append(had.Payload[:0], x.Payload...)}
}

func (r *Reducer) addGroup(k record.Key, v float64) {
	k = r.q.GroupKey(k)
	g := r.groups[k]
	if g == nil {
		g = &group{max: math.Inf(-1)}
		r.groups[k] = g
	}
	g.count++
	g.sum += v
	g.max = max(g.max, v)
}

// GroupKey returns the key of the row of the group that a record belongs to.
func (q *Query) GroupKey(k record.Key) record.Key {
	var g record.Key
	if q.By.CID {
		g.CID = k.CID
	}
	if q.By.MID {
		g.MID = k.MID
	}
	if q.By.MOID {
		g.MOID = k.MOID
	}
	if width := q.By.CapBucketNs; width > 0 {
		g.CapNs = k.CapNs - ((k.CapNs%width)+width)%width
	}
	return g
}

func (r *Reducer) emit(k record.Key, payload []byte) {
	r.rows++
	r.out.AppendStamped(k, payload)
	if r.out.Len() >= TakeRows {
		r.flush()
	}
}

func (r *Reducer) flush() {
	if r.out.Len() > 0 {
		r.take(&r.out)
		r.out.Reset()
	}
}

// Finish hands out what is left and returns the number of rows.
func (r *Reducer) Finish() uint64 {
	for _, x := range r.last {
		r.emit(x.Key, x.Payload)
	}
	var payload []byte
	for k, g := range r.groups {
		v := g.max
		switch r.q.Func {
		case FuncMean:
			v = g.sum / float64(g.count)
		case FuncSum:
			v = g.sum
		}
		payload = AppendNumber(payload[:0], v)
		r.emit(k, payload)
	}
	r.flush()
	return r.rows
}
