package nodesync_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// differing are a source and a copy that differs from it.
type differing struct {
	t        *testing.T
	from, to *served
	rows     *record.Batch // of the copy
	want     map[nodesync.Difference]bool
	purged   uint64 // rows that only the copy has any more
}

// newDiffering makes a copy of everything, but for a row that is left out, one that was in neither,
// one that is changed, and an erase of its own.
func newDiffering(t *testing.T, rng *rand.Rand) *differing {
	d := &differing{t: t, from: serve(t, store.Options{}), to: serve(t, store.Options{}),
		rows: &record.Batch{}, want: map[nodesync.Difference]bool{}}
	for range 10 {
		d.from.fill(rng, 2000)
	}
	source, err := d.from.SyncState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := &record.Batch{}
	all := &record.Query{Order: record.OrderAcq, Box: record.Everything()}
	_, err = d.from.Scan(t.Context(), all,
		func(b *record.Batch) error { rows.AppendRows(b, 0, b.Len()); return nil })
	if err != nil {
		t.Fatal(err)
	}
	missing, extra, changed := 100+rng.IntN(5000), 6000+rng.IntN(5000), 12000+rng.IntN(5000)
	for i := range rows.Len() {
		r := rows.Record(i)
		switch i {
		case missing:
			d.want[nodesync.Difference{What: nodesync.Missing, Key: r.Key}] = true
			continue
		case changed:
			d.want[nodesync.Difference{What: nodesync.Changed, Key: r.Key}] = true
			d.rows.AppendStamped(r.Key, append([]byte("y"), r.Payload...))
			continue
		}
		d.rows.AppendRows(rows, i, i+1)
		last := i+1 == rows.Len() || rows.AcqNs[i+1] > r.Key.AcqNs+1
		if i >= extra && last && len(d.want) < 3 {
			extra = rows.Len()
			r.Key.AcqNs++
			d.want[nodesync.Difference{What: nodesync.Extra, Key: r.Key}] = true
			d.rows.AppendStamped(r.Key, []byte("z"))
		}
	}
	_, err = d.to.PutRange(t.Context(), &wire.Range{Of: source.Store, ToNs: source.HorizonNs,
		Whole: true, Rows: d.rows, History: wire.History{Hiding: []wire.Hiding{{AcqNs: 5}}}})
	if err != nil {
		t.Fatal(err)
	}
	d.want[nodesync.Difference{What: nodesync.NoEvent, Key: record.Key{AcqNs: 5}}] = true
	return d
}

// check wants what differs to be named, and what the source removed since to be counted.
func (d *differing) check() {
	d.t.Helper()
	got, err := nodesync.Verify(d.t.Context(), d.from, d.to, nodesync.Options{})
	if !errors.Is(err, nodesync.ErrDiffers) || len(got.Named) != len(d.want) ||
		got.Purged != d.purged {
		d.t.Fatalf("%+v, %v; want %v, %d purged", got, err, d.want, d.purged)
	}
	for _, one := range got.Named {
		if !d.want[one] {
			d.t.Errorf("%+v is named, not one of %v", one, d.want)
		}
	}
}

// removed notes which rows the source has removed.
func (d *differing) removed(gone func(k record.Key) bool) {
	d.t.Helper()
	before := d.purged
	named := gone
	gone = func(k record.Key) bool { return !record.IsReservedMOID(k.MOID) && named(k) }
	for i := range d.rows.Len() {
		if gone(d.rows.Key(i)) {
			d.purged++
		}
	}
	for one := range d.want {
		if one.What != nodesync.NoEvent && gone(one.Key) {
			delete(d.want, one) // a row of the copy alone, or of none
		}
	}
	if d.purged == before {
		d.t.Fatal("the source removed nothing")
	}
}

// TestVerifyNames lets a copy differ from its source and wants each difference to be named, but not
// what the source purged, or let expire, after the moment at which the copy ends.
func TestVerifyNames(t *testing.T) {
	d := newDiffering(t, seeded(t))
	d.check()

	third := d.rows.AcqNs[d.rows.Len()/3]
	box := &wire.Box{}
	box.Box[record.Acq] = record.RangeSet{{From: 0, To: third}}
	if _, err := d.from.Purge(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	d.removed(func(k record.Key) bool { return k.AcqNs < third })
	d.check()

	// Of a tenant what is older than an hour, half of it.
	one := int32(1)
	err := d.from.SetRetention(t.Context(),
		client.Retention{CID: &one, MaxCapAgeNs: int64(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	source, err := d.from.SyncState(t.Context())
	if err != nil || len(source.History.Policies) != 1 {
		t.Fatalf("%+v, %v", source.History.Policies, err)
	}
	floor := source.History.Policies[0].Cap.Hidden.FloorNs
	d.removed(func(k record.Key) bool {
		return k.AcqNs >= third && k.CID == one && k.CapNs < floor
	})
	d.check()
}

// TestVerifyNamesWhatWasHidden undoes a retention after a copy was made: what it hid then is not in
// the copy, which sdk/docs/health.md says, and each record is named.
func TestVerifyNamesWhatWasHidden(t *testing.T) {
	from, to := serve(t, store.Options{}), serve(t, store.Options{})
	b := &record.Batch{}
	const old = 3
	for mid := range int64(2 * old) {
		age := time.Duration(0)
		if mid < old {
			age = 2 * time.Hour
		}
		b.Append(record.Key{MID: mid, CapNs: time.Now().Add(-age).UnixNano()}, []byte("x"))
	}
	if _, err := from.Put(t.Context(), b, [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
	for _, age := range []time.Duration{time.Hour, 0} {
		if err := from.changeRetention(0, int64(age)); err != nil {
			t.Fatal(err)
		}
		if _, err := nodesync.Copy(t.Context(), from, to, nodesync.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := nodesync.Verify(t.Context(), from, to, nodesync.Options{})
	if !errors.Is(err, nodesync.ErrDiffers) || len(got.Named) != old {
		t.Fatalf("%+v, %v; want %d records to be named", got, err, old)
	}
	for _, one := range got.Named {
		if one.What != nodesync.Missing || one.Key.MID >= old {
			t.Errorf("%+v is named, and was not hidden", one)
		}
	}
}
