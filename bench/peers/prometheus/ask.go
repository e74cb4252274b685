package prometheus

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// maxNames is how many values of a label are asked for by name. Labels are text, which knows no
// ranges: of wider ones all series are looked at.
const maxNames = 1000

func (d *db) Ask(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	switch {
	case q.Want != system.WantCount && q.Want != system.WantGroups:
		return 0, system.UnsupportedError("a row has an acq, which a sample has not")
	case len(q.Box[record.Acq]) > 0 || q.View == record.ViewAsOf:
		return 0, system.UnsupportedError("a sample does not say when it was acquired")
	}
	s := &scan{box: &q.Box}
	if q.Want == system.WantCount {
		err := d.scan(ctx, s)
		return s.rows, err
	}
	r := system.NewReducer(q, take)
	s.take = r.Add
	if err := d.scan(ctx, s); err != nil {
		return 0, err
	}
	s.flush()
	return r.Finish(), nil
}

// scan walks the samples of a box.
type scan struct {
	box  *record.Box
	take func(b *record.Batch) // nil when only the number of rows is wanted

	rows    uint64
	batch   record.Batch
	payload []byte
	samples chunkenc.Iterator
}

func (d *db) scan(ctx context.Context, s *scan) (err error) {
	fromMs, lastMs := window(s.box[record.Cap])
	if fromMs > lastMs {
		return nil
	}
	matchers, err := matchersOf(s.box)
	if err != nil {
		return err
	}
	querier, err := d.Querier(fromMs, lastMs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, querier.Close()) }()
	set := querier.Select(ctx, false, nil, matchers...)
	for set.Next() {
		found := set.At()
		k, err := keyOf(found.Labels())
		if err != nil {
			return err
		}
		if !s.box[record.CID].Contains(int64(k.CID)) || !s.box[record.MID].Contains(k.MID) ||
			!s.box[record.MOID].Contains(int64(k.MOID)) {
			continue
		}
		s.samples = found.Iterator(s.samples)
		if err := s.series(k); err != nil {
			return err
		}
	}
	return set.Err()
}

// series takes the samples of one series.
func (s *scan) series(k record.Key) error {
	caps := s.box[record.Cap]
	for s.samples.Next() == chunkenc.ValFloat {
		ms, v := s.samples.At()
		k.CapNs = ms * msNs
		if len(caps) > 1 && !caps.Contains(k.CapNs) {
			continue // between two ranges; a single one is the window
		}
		s.rows++
		if s.take == nil {
			continue
		}
		s.payload = system.AppendNumber(s.payload[:0], v)
		s.batch.AppendStamped(k, s.payload)
		if s.batch.Len() >= system.TakeRows {
			s.flush()
		}
	}
	return s.samples.Err()
}

func (s *scan) flush() {
	if s.batch.Len() > 0 {
		s.take(&s.batch)
		s.batch.Reset()
	}
}

// window returns the first and the last millisecond of a set of caps.
func window(caps record.RangeSet) (fromMs, lastMs int64) {
	all := record.All(record.Cap)
	if len(caps) > 0 {
		all = record.Range{From: caps[0].From, To: caps[len(caps)-1].To}
	}
	return ceilMs(all.From), ceilMs(all.To) - 1
}

// ceilMs rounds up, also before 1970.
func ceilMs(ns int64) int64 {
	ms := ns / msNs
	if ns%msNs > 0 {
		ms++
	}
	return ms
}

// matchersOf returns what of a box can be asked by labels; series found may lie outside.
func matchersOf(box *record.Box) ([]*labels.Matcher, error) {
	out := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, nameLabel, metric)}
	for _, dim := range []record.Dim{record.CID, record.MID, record.MOID} {
		names := namesOf(box[dim])
		if len(names) == 0 {
			continue
		}
		kind := labels.MatchRegexp // of plain names: Prometheus looks each of them up
		if len(names) == 1 {
			kind = labels.MatchEqual
		}
		m, err := labels.NewMatcher(kind, dim.String(), strings.Join(names, "|"))
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// namesOf returns the values of a set as labels, none when it is not limited or has too many.
func namesOf(set record.RangeSet) []string {
	var names []string
	for _, r := range set {
		if uint64(r.To)-uint64(r.From) > uint64(maxNames-len(names)) {
			return nil
		}
		for v := r.From; v < r.To; v++ {
			names = append(names, strconv.FormatInt(v, 10))
		}
	}
	return names
}

func keyOf(l labels.Labels) (record.Key, error) {
	cid, err1 := strconv.ParseInt(l.Get(record.CID.String()), 10, 32)
	mid, err2 := strconv.ParseInt(l.Get(record.MID.String()), 10, 64)
	moid, err3 := strconv.ParseInt(l.Get(record.MOID.String()), 10, 32)
	return record.Key{CID: int32(cid), MID: mid, MOID: int32(moid)}, errors.Join(err1, err2, err3)
}
