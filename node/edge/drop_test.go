package edge

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestDropOldest cuts an edge off for much longer than its quota lasts, with power cuts also while
// it drops: what arrives, and what gap records say is missing, is all that was put.
func TestDropOldest(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c, from := newCore(t), newSource(rng)
	d := newPowerDisk(rand.New(rand.NewPCG(rng.Uint64(), 2)))
	opt := Options{Node: node.Options{Dir: t.TempDir()}, Upstream: []string{c.addr},
		Quota: minQuota, Full: DropOldest, Retry: time.Millisecond, Batch: 200, folder: d}
	e := openEdge(t, opt)
	put(t, e, from.batch(400))
	idle(t, e)
	// What is sent now and not answered may be there: it is not dropped.
	c.set(always(lose))
	put(t, e, from.batch(400))
	until(t, "a batch is in flight", func() bool { return e.outbox.now().InFlight != nil })
	c.set(always(cutOff))
	for i := range 40 {
		b := from.batch(400)
		if i%5 == 4 {
			d.back(rng.IntN(10))
		}
		if _, err := e.Put(t.Context(), b, store.WriterSeq{}); err != nil {
			if !errors.Is(err, errDark) {
				t.Fatal(err)
			}
			// Nothing of it was put: space was to be made before.
			_ = e.Close(t.Context())
			d.back(-1)
			e = openEdge(t, opt)
			put(t, e, b)
		}
		if used := e.meter.waiting(); used > minQuota {
			t.Fatalf("%d bytes wait, the quota is %d", used, minQuota)
		}
	}
	_ = e.Close(t.Context())
	d.back(-1)
	e = openEdge(t, opt)
	c.set(always(pass))
	idle(t, e)
	got, lost := seriesOf(t, rowsOf(t, c.node))
	missing := int64(0)
	for at, want := range from.given {
		next := 0
		for _, number := range got[at] {
			for next < len(want) && want[next] != number {
				next++
			}
			if next++; next > len(want) {
				t.Fatalf("device %v: %d came twice or out of order", at, number)
			}
		}
		if gone := int64(len(want) - len(got[at])); gone != lost[at].Records {
			t.Errorf("device %v: %d of %d records arrived, gap records say that %d are lost", at,
				len(got[at]), len(want), lost[at].Records)
		}
		missing += lost[at].Records
	}
	if s := e.Shipping(); missing == 0 || s.Dropped != missing || s.DroppedNs == 0 {
		t.Errorf("%d records are missing, %+v", missing, s)
	}
}

// TestGaps: what was lost of a gap record is in the one that follows it.
func TestGaps(t *testing.T) {
	b := new(record.Batch)
	for i := range int64(6) {
		b.Append(record.Key{CID: 1, MID: i % 2, CapNs: 100 + i}, []byte{1, 2, 3})
	}
	first := gaps{}
	if lost := first.add(b, 5); lost != (tally{5, 5 * (keyBytes + 3)}) {
		t.Errorf("lost %+v", lost)
	}
	of := first.batches("me")
	if len(of) != 1 || of[0].Len() != 2 {
		t.Fatalf("%d batches", len(of))
	}
	second := gaps{}
	if lost := second.add(of[0], 2); lost != (tally{}) {
		t.Errorf("gap records count as lost: %+v", lost)
	}
	second.add(b, 6)
	g, ok := ParseGap(second.batches("me")[0].Record(0))
	want := Gap{Edge: "me", Records: 6, Bytes: 6 * (keyBytes + 3), CapFromNs: 100, CapToNs: 104}
	if !ok || g != want {
		t.Errorf("%+v, want %+v", g, want)
	}
	for _, text := range []string{"", "{}", `{"edge":"x"}`, `{"edge":"x","records":-1}`,
		`{"edge":"x","records":1,"cap_from_ns":2}`} {
		r := record.Record{Key: record.Key{MOID: GapMOID}, Payload: []byte(text)}
		if _, ok := ParseGap(r); ok {
			t.Errorf("%q is a gap record", text)
		}
	}
}

// TestGapsAgain: a drop of more devices than one batch holds is carried out again after a crash,
// and puts nothing twice.
func TestGapsAgain(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes gap records")
	c := newCore(t)
	c.set(always(cutOff))
	e := openEdge(t, Options{Node: node.Options{Dir: t.TempDir()}, Upstream: []string{c.addr},
		Retry: time.Hour})
	found := gaps{}
	for i := range int64(record.MaxBatchRecords + 2) {
		found[device{1, i}] = &Gap{Records: 1, Bytes: 1}
	}
	first, err := e.putGaps(t.Context(), found, 3)
	if err != nil || len(first) != 2 {
		t.Fatalf("%v, %v", first, err)
	}
	again, err := e.putGaps(t.Context(), found, 3)
	if err != nil || !slices.Equal(again, first) {
		t.Fatalf("again: %v, want %v, %v", again, first, err)
	}
	if _, err := e.putGaps(t.Context(), found, 4); err != nil {
		t.Fatal(err)
	}
}

// TestDropOfGaps: gap records are not written again for a put that they leave no space for.
func TestDropOfGaps(t *testing.T) {
	c := newCore(t)
	c.set(always(cutOff))
	e := openEdge(t, Options{Node: node.Options{Dir: t.TempDir()}, Upstream: []string{c.addr},
		Retry: time.Hour, Quota: minQuota, Full: DropOldest})
	put(t, e, batchOf(1))
	until(t, "a batch is in flight", func() bool { return e.outbox.now().InFlight != nil })
	if _, err := e.putGaps(t.Context(), gaps{{1, 2}: {Records: 1, Bytes: 1}}, 1); err != nil {
		t.Fatal(err)
	}
	b := new(record.Batch)
	b.Append(record.Key{CID: 1}, make([]byte, minQuota-keyBytes))
	for range 3 {
		if _, err := e.Put(t.Context(), b, store.WriterSeq{}); !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	events, err := e.Events(t.Context())
	if s := e.outbox.now(); err != nil || s.Drops != 0 || len(events) != 0 {
		t.Errorf("%+v, events %v, %v", s, events, err)
	}
}
