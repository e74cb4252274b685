package ordered

import (
	"bytes"
	"slices"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// nearby is how many keys are stepped over before a seek is cheaper.
const nearby = 8

// scan walks the keys of a copy that lie in a box, seeking over those that do not.
type scan struct {
	cursor   Cursor
	order    Order
	copied   int
	box      *record.Box
	versions bool  // only the newest of each reading counts
	asOfNs   int64 // among those below this acq
	count    bool
	take     func(b *record.Batch)

	batch  record.Batch
	rows   uint64
	held   record.Record // the newest version so far
	holds  bool
	target []byte
}

func (s *scan) run() {
	var first [record.NumDims]int64
	for d := range first {
		first[d] = s.lowest(record.Dim(d))
	}
	ok := s.cursor.SeekGE(s.order.append(nil, s.copied, first))
	for ok {
		key := s.cursor.Key()
		if int(key[0]) != s.copied {
			break
		}
		k := s.order.parse(key)
		next, in, done := s.next(k)
		if in {
			s.found(keyOf(k), s.cursor.Value())
			ok = s.cursor.Next()
			continue
		}
		if done {
			break
		}
		s.target = s.order.append(s.target[:0], s.copied, next)
		ok = s.skip()
	}
	s.release()
	if s.batch.Len() > 0 {
		s.take(&s.batch)
	}
}

// skip goes to the first key from the target on: by steps when it is near.
func (s *scan) skip() bool {
	for range nearby {
		if !s.cursor.Next() {
			return false
		}
		if bytes.Compare(s.cursor.Key(), s.target) >= 0 {
			return true
		}
	}
	return s.cursor.SeekGE(s.target)
}

func (s *scan) lowest(d record.Dim) int64 {
	if set := s.box[d]; len(set) > 0 {
		return set[0].From
	}
	return d.Min()
}

// after returns the smallest value of the set from v on.
func (s *scan) after(d record.Dim, v int64) (int64, bool) {
	set := s.box[d]
	if len(set) == 0 {
		return v, true
	}
	i, _ := slices.BinarySearchFunc(set, v, func(r record.Range, v int64) int {
		if r.To <= v {
			return -1
		}
		return 1
	})
	if i == len(set) {
		return 0, false
	}
	return max(v, set[i].From), true
}

// next reports whether a key lies in the box, and else the first that may.
func (s *scan) next(k [record.NumDims]int64) (to [record.NumDims]int64, in, done bool) {
	for at, d := range s.order {
		if s.box[d].Contains(k[d]) {
			continue
		}
		for place, bump := at, false; place >= 0; place, bump = place-1, true {
			dim := s.order[place]
			v := k[dim]
			if bump {
				v++
			}
			if v, ok := s.after(dim, v); ok {
				k[dim] = v
				for _, later := range s.order[place+1:] {
					k[later] = s.lowest(later)
				}
				return k, false, false
			}
		}
		return k, false, true
	}
	return k, true, false
}

// found takes a row; with versions it waits until the next key shows that it was the newest.
func (s *scan) found(k record.Key, payload []byte) {
	if !s.versions {
		s.emit(k, payload)
		return
	}
	if k.AcqNs >= s.asOfNs {
		return
	}
	same := s.held.Key
	same.AcqNs = k.AcqNs
	if s.holds && same != k {
		s.release()
	}
	s.held = record.Record{Key: k, Payload: append(s.held.Payload[:0], payload...)}
	s.holds = true
}

func (s *scan) release() {
	if s.holds {
		s.emit(s.held.Key, s.held.Payload)
		s.holds = false
	}
}

func (s *scan) emit(k record.Key, payload []byte) {
	s.rows++
	if s.count {
		return
	}
	s.batch.AppendStamped(k, payload)
	if s.batch.Len() >= system.TakeRows {
		s.take(&s.batch)
		s.batch.Reset()
	}
}
