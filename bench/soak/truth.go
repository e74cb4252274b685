package soak

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	modelDevices    = 10
	modelQuantities = 3
	modelCaps       = 50
	modelBatch      = 300
	modelRounds     = 200 // after which everything is purged
)

// truth is what the model's tenant has.
type truth struct {
	versions map[record.Key]int     // how many there are
	latest   map[record.Key]float64 // of readings that are there
	// moments are views of the past.
	moments []moment
}

type moment struct {
	acqNs  int64
	latest map[record.Key]float64
}

func (t *truth) clear() {
	t.versions, t.latest = map[record.Key]int{}, map[record.Key]float64{}
	t.moments = nil
}

// purge forgets a device.
func (t *truth) purge(mid int64) {
	of := func(k record.Key, _ float64) bool { return k.MID == mid }
	maps.DeleteFunc(t.versions, func(k record.Key, _ int) bool { return k.MID == mid })
	maps.DeleteFunc(t.latest, of)
	for i := range t.moments {
		maps.DeleteFunc(t.moments[i].latest, of)
	}
}

// model is a client that alone writes to a tenant and knows all that it must find.
func (s *Soak) model(w *worker) (step, end act) {
	var t truth
	t.clear()
	var id [16]byte
	binary.LittleEndian.PutUint64(id[:], w.random.Uint64())
	var seq uint64
	var b record.Batch
	sent := true
	put := func(ctx context.Context) error {
		if sent {
			t.draw(&b, w)
			seq, sent = seq+1, false
		}
		reply, err := w.db.Put(ctx, &b, id, seq)
		if err != nil {
			return err
		}
		sent = true
		t.apply(&b, reply.LastAcqNs+1, seq)
		return nil
	}
	checks := []func(context.Context) error{
		func(ctx context.Context) error { return t.checkLatest(ctx, w) },
		func(ctx context.Context) error { return t.checkCount(ctx, w) },
		func(ctx context.Context) error { return t.checkPast(ctx, w) },
		func(ctx context.Context) error { return t.checkStats(ctx, w) },
	}
	return func(ctx context.Context) error {
		if err := put(ctx); err != nil {
			return err
		}
		if err := t.hide(ctx, w, seq); err != nil {
			return err
		}
		err := checks[w.random.IntN(len(checks))](ctx)
		if err == nil {
			s.checked.Add(1)
		}
		return err
	}, nil
}

func (t *truth) draw(b *record.Batch, w *worker) {
	b.Reset()
	for range modelBatch {
		k := record.Key{CID: modelTenant, MID: w.random.Int64N(modelDevices),
			MOID: w.random.Int32N(modelQuantities), CapNs: w.random.Int64N(modelCaps) * minute}
		if w.random.IntN(10) == 0 {
			b.AppendTomb(k)
			continue
		}
		b.Append(k, number(nil, float64(w.random.IntN(800))/8))
	}
}

// apply does what a put did; untilNs is the acq after it.
func (t *truth) apply(b *record.Batch, untilNs int64, seq uint64) {
	for i := range b.Len() {
		k := b.Key(i)
		k.AcqNs = 0
		t.versions[k]++
		if b.Tomb(i) {
			delete(t.latest, k)
			continue
		}
		t.latest[k] = parseNumber(b.Payload(i))
	}
	if seq%5 == 0 {
		t.moments = append(t.moments, moment{untilNs, maps.Clone(t.latest)})
		t.moments = t.moments[max(0, len(t.moments)-4):]
	}
}

// hide erases or purges from time to time. Without an answer it is done again, which must be the
// same, as only this client writes.
func (t *truth) hide(ctx context.Context, w *worker, seq uint64) error {
	if seq%modelRounds == 0 {
		return t.purgeAll(ctx, w)
	}
	mid := w.random.Int64N(modelDevices)
	box := boxOf(modelTenant)
	box[record.MID] = record.RangeSet{record.At(mid)}
	switch luck := w.random.IntN(20); {
	case luck < 2:
		if err := insist(ctx, w, func() error {
			_, err := w.db.Erase(ctx, &wire.Box{Box: box})
			return err
		}); err != nil {
			return err
		}
		maps.DeleteFunc(t.latest, func(k record.Key, _ float64) bool { return k.MID == mid })
	case luck < 3:
		if err := insist(ctx, w, func() error {
			_, err := w.db.Purge(ctx, &wire.Box{Box: box})
			return err
		}); err != nil {
			return err
		}
		t.purge(mid)
	}
	return nil
}

func (t *truth) purgeAll(ctx context.Context, w *worker) error {
	err := insist(ctx, w, func() error {
		_, err := w.db.Purge(ctx, &wire.Box{Box: boxOf(modelTenant)})
		return err
	})
	if err == nil {
		t.clear()
	}
	return err
}

// insist repeats what is refused.
func insist(ctx context.Context, w *worker, do func() error) error {
	for {
		later, err := advice(do())
		if err == nil || later == 0 {
			return err
		}
		w.refused.Add(1)
		if wait(ctx.Done(), later); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (t *truth) checkLatest(ctx context.Context, w *worker) error {
	return compare(ctx, w, "the latest view", t.latest, &record.Query{Box: boxOf(modelTenant),
		View: record.ViewLatest})
}

func (t *truth) checkPast(ctx context.Context, w *worker) error {
	if len(t.moments) == 0 {
		return nil
	}
	m := t.moments[w.random.IntN(len(t.moments))]
	return compare(ctx, w, fmt.Sprintf("the view as of %d", m.acqNs), m.latest, &record.Query{
		Box: boxOf(modelTenant), View: record.ViewAsOf, AsOfAcqNs: m.acqNs})
}

// compare wants a question to find exactly these readings.
func compare(
	ctx context.Context, w *worker, what string, want map[record.Key]float64, q *record.Query,
) error {
	found := make(map[record.Key]float64, len(want))
	rows := 0
	_, err := w.db.Scan(ctx, q, func(b *record.Batch) error {
		for i := range b.Len() {
			k := b.Key(i)
			k.AcqNs = 0
			found[k] = parseNumber(b.Payload(i))
		}
		rows += b.Len()
		return nil
	})
	if err != nil {
		return err
	}
	if rows != len(want) {
		return fmt.Errorf("%s has %d rows, want %d", what, rows, len(want))
	}
	for k, v := range want {
		if got, ok := found[k]; !ok || got != v {
			return fmt.Errorf("%s has %v (%t) of %+v, want %v", what, got, ok, k, v)
		}
	}
	return nil
}

func (t *truth) checkCount(ctx context.Context, w *worker) error {
	mid := w.random.Int64N(modelDevices)
	want := 0
	for k, n := range t.versions {
		if k.MID == mid {
			want += n
		}
	}
	box := boxOf(modelTenant)
	box[record.MID] = record.RangeSet{record.At(mid)}
	found, _, err := w.db.Count(ctx, &record.Query{Box: box})
	if err == nil && int(found) != want {
		err = fmt.Errorf("device %d has %d versions, want %d", mid, found, want)
	}
	return err
}

// checkStats compares count and sum of each device. The numbers are eighths, whose sums are exact.
func (t *truth) checkStats(ctx context.Context, w *worker) error {
	type sum struct {
		n   uint64
		sum float64
	}
	want := map[int64]sum{}
	for k, v := range t.latest {
		s := want[k.MID]
		want[k.MID] = sum{s.n + 1, s.sum + v}
	}
	groups, _, err := w.db.Aggregate(ctx, &record.Query{Box: boxOf(modelTenant),
		View: record.ViewLatest, Aggregate: record.PluginCall{Name: "stats"},
		GroupBy: record.GroupBy{MID: true}})
	if err != nil {
		return err
	}
	if len(groups) != len(want) {
		return fmt.Errorf("stats has %d devices, want %d", len(groups), len(want))
	}
	for _, g := range groups {
		s := want[g.MID]
		if len(g.Result) < 16 || g.Records != s.n ||
			math.Abs(parseNumber(g.Result[8:])-s.sum) > 1e-6 {
			return fmt.Errorf("stats of device %d: %d records, %x, want %+v", g.MID, g.Records,
				g.Result, s)
		}
	}
	return nil
}
