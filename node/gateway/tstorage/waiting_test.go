package tstorage

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestPayloadsCount: what has come of a large payload is counted as memory before it is whole.
func TestPayloadsCount(t *testing.T) {
	s := serve(t, Options{Database: &fake{}})
	const came = 3 << 20
	claim := le32(le32(le64(le32(nil, 5), 0), 1), 16<<20)
	claim = append(le32(claim, 20+8<<20), make([]byte, 20+came)...)
	if _, err := ttDial(t, s).Write(claim); err != nil {
		t.Fatal(err)
	}
	tick, late := time.NewTicker(5*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for s.Stats().BufferBytes < came {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d bytes are counted for %d that have come", s.Stats().BufferBytes, came)
		}
	}
}

// TestSlowLosesItsMemory: a client that has sent a part of a batch and pauses keeps its memory
// while no other needs it, and is given up when one does.
func TestSlowLosesItsMemory(t *testing.T) {
	db := &fake{}
	s := serve(t, Options{Database: db, BufferBytes: 64 << 10, WholeBytes: 1 << 20,
		Stall: slowParts * time.Second, Wait: time.Minute})
	half := func(cid int32) *ttClient {
		l := &long{cid: cid, records: 200, payload: 1000}
		c := ttDial(t, s)
		if _, err := c.Write(le64(le32(nil, 5), 0)); err != nil {
			t.Fatal(err)
		}
		if err := l.writeTo(c, 100); err != nil {
			t.Fatal(err)
		}
		return c
	}
	slow := half(1)
	for s.Stats().BufferBytes < 100_000 {
		runtime.Gosched()
	}
	other := &long{cid: 2, records: 200, payload: 1000}
	other.send(t, ttDial(t, s))
	if st, err := slow.header(0); err != nil || st != stNoMemory {
		t.Errorf("the slow one: status %d, want %d, %v", st, stNoMemory, err)
	}
	wantHungUp(t, "the slow one", slow)
	if n := db.count(); n != other.records {
		t.Errorf("%d records are stored, want %d", n, other.records)
	}
}

// TestSigns lets the database take long: zero bytes go out before the answer is known, which they
// are the beginning of, whatever it is.
func TestSigns(t *testing.T) {
	begun, release := make(chan struct{}), make(chan error)
	db := &fake{block: func(ctx context.Context) error {
		begun <- struct{}{}
		select {
		case err := <-release:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	s := serve(t, Options{Database: db})
	answer := func(signs int, result error) (st int32, err error) {
		t.Helper()
		c := ttDial(t, s)
		if _, err := c.Write(ttPut(false, at(1, 1, "a"))); err != nil {
			t.Fatal(err)
		}
		<-begun
		if b, err := c.in.Peek(signs); err != nil || !bytes.Equal(b, make([]byte, signs)) {
			t.Fatalf("the first bytes are % x, %v", b, err)
		}
		release <- result
		return c.header(16)
	}
	if st, err := answer(1, nil); st != 0 || err != nil {
		t.Errorf("status %d, %v", st, err)
	}
	if st, err := answer(2, kinded(wire.KindDamaged)); st != -6<<16 || err != nil {
		t.Errorf("status %d, want %d, %v", st, -6<<16, err)
	}
}

// partly is an error of a put of which a part is stored.
type partly struct{ error }

// Unwrap returns the cause.
func (p partly) Unwrap() error { return p.error }

// Writer implements resumable.
func (partly) Writer() store.WriterSeq { return store.WriterSeq{ID: [16]byte{7}, Seq: 8} }

// storesPart is a database whose puts fail with a part of the records stored.
type storesPart struct {
	fake
	fails   int
	writers []store.WriterSeq
}

// Put implements Database.
func (d *storesPart) Put(
	ctx context.Context, b *record.Batch, w store.WriterSeq,
) (store.PutResult, error) {
	d.writers = append(d.writers, w)
	if d.fails--; d.fails >= 0 {
		return store.PutResult{}, partly{kinded(wire.KindUnavailable)}
	}
	return d.fake.Put(ctx, b, w)
}

// TestPartlyStoredIsResumed: a put that failed with a part of its records stored is put again under
// the writer that the error names, so that none is stored twice.
func TestPartlyStoredIsResumed(t *testing.T) {
	db := &storesPart{fails: 2}
	c := ttDial(t, serve(t, Options{Database: db}))
	mustPut(t, c, at(1, 1, "a"))
	w := partly{}.Writer()
	if want := []store.WriterSeq{{}, w, w}; !slices.Equal(db.writers, want) {
		t.Errorf("writers %v, want %v", db.writers, want)
	}
	if errors.As(error(kinded(0)), new(resumable)) {
		t.Error("any error is taken for one that may be resumed")
	}
}
