package tstorage

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// long is one batch that is larger than what the gateway may have in memory: its records are made
// while it is sent, and known by their keys alone.
type long struct {
	cid              int32
	records, payload int
	withAcq          bool
	acq              int64
}

func (l *long) size() int {
	if l.withAcq {
		return l.records * (4 + 28 + l.payload)
	}
	return l.records * (4 + 20 + l.payload)
}

func (l *long) record(i int) ttRecord {
	key := ttKey{l.cid, int64(i) * 7919 % 100_003, int32(i % 3), int64(i), l.acq}
	return ttRecord{key, strings.Repeat(string(rune('a'+i%26)), l.payload)}
}

// writeTo sends the first records of the batch, in pieces of many records.
func (l *long) writeTo(c *ttClient, records int) error {
	buf := le32(le32(nil, l.cid), int32(l.size()))
	for i := range records {
		buf = append(buf, ttBatch(l.cid, l.withAcq, l.record(i))[8:]...)
		if len(buf) > 1<<20 || i == records-1 {
			if _, err := c.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return nil
}

// send sends requests of one batch each and wants them stored.
func (l *long) send(t *testing.T, c *ttClient) {
	t.Helper()
	cmd := int32(5)
	if l.withAcq {
		cmd = 6
	}
	if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil { // of a slow machine
		t.Fatal(err)
	}
	if _, err := c.Write(le64(le32(nil, cmd), 0)); err != nil {
		t.Fatal(err)
	}
	if err := l.writeTo(c, l.records); err != nil {
		t.Fatal(err)
	}
	least, most, st, err := c.send(le32(nil, -1))
	if err != nil || st != 0 || l.withAcq && (least != l.acq || most != l.acq) ||
		!l.withAcq && most-least < int64(l.records-1) {
		t.Fatalf("acq %d to %d, status %d, %v", least, most, st, err)
	}
}

// check reads the batch back and compares each record.
func (l *long) check(t *testing.T, c *ttClient, times int) {
	t.Helper()
	from, to := ttMin(), ttMax()
	from.cid, to.cid = l.cid, l.cid+1
	if _, err := c.Write(ttBox(1, from, to)); err != nil {
		t.Fatal(err)
	}
	if st, err := c.header(0); err != nil || st != 0 {
		t.Fatalf("status %d, %v", st, err)
	}
	met := make([]int, l.records)
	err := c.records(func(r ttRecord) {
		want := l.record(int(r.cap))
		if !l.withAcq {
			r = r.withoutAcq()
		}
		if r != want {
			t.Errorf("record %d has other parts or another payload", r.cap)
		}
		met[r.cap]++
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, st, err := c.acq(); err != nil || st != 0 {
		t.Fatalf("status %d, %v", st, err)
	}
	if slices.Min(met) != times || slices.Max(met) != times {
		t.Errorf("records came %d to %d times, want %d", slices.Min(met), slices.Max(met), times)
	}
}

// heapWhile returns by how much the heap grew at most while f ran, with little garbage.
func heapWhile(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	done := make(chan struct{})
	var wg sync.WaitGroup
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most := before.HeapInuse
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapInuse)
			case <-done:
				return
			}
		}
	})
	f()
	close(done)
	wg.Wait()
	return int64(most - before.HeapInuse)
}

// longBytes is the size of the batches of the tests below: 64 MiB, or 500 where there is time.
func longBytes() int {
	if os.Getenv(modelTimeVariable) != "" {
		return 500 << 20
	}
	return 64 << 20
}

// draining is a database that keeps nothing.
type draining struct {
	fake
	records, largest int // guarded by mu of the fake
}

// Put implements Database.
func (d *draining) Put(
	_ context.Context, b *record.Batch, _ store.WriterSeq,
) (store.PutResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := d.acq + 1
	d.acq += int64(b.Len())
	d.records += b.Len()
	d.largest = max(d.largest, len(b.Data))
	return store.PutResult{FirstAcqNs: first, LastAcqNs: d.acq, Records: b.Len()}, nil
}

// TestLongBatchInLittleMemory stores a batch of which a part fits into the memory for batches, and
// looks at how much was taken.
func TestLongBatchInLittleMemory(t *testing.T) {
	const buffer = 8 << 20
	db := &draining{}
	s := serve(t, Options{Database: db, BufferBytes: buffer})
	l := &long{cid: 1, payload: 8000}
	l.records = longBytes() / (l.payload + 24)
	c := ttDial(t, s)
	grown := heapWhile(func() { l.send(t, c) })
	t.Logf("%d MiB in one batch: %d KiB of the budget, %d KiB of the heap, puts of %d KiB",
		l.size()>>20, s.budget.Most()>>10, grown>>10, db.largest>>10)
	if db.records != l.records || db.largest > pieceBytes+l.payload {
		t.Errorf("%d records, want %d; a put of %d bytes", db.records, l.records, db.largest)
	}
	if most := s.budget.Most(); most > buffer+pieceBytes {
		t.Errorf("%d bytes of the budget were taken, and it has %d", most, buffer)
	}
	if grown > 6*buffer { // what came in, garbage of it, and the client's buffers
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// TestLongBatches stores batches in pieces that follow each other, and reads them back.
func TestLongBatches(t *testing.T) {
	n := openNode(t, node.Options{})
	s := serve(t, Options{Database: n, BufferBytes: 2 << 20})
	c := ttDial(t, s)
	few, many := &long{cid: 1, records: 8, payload: 1 << 20}, &long{cid: 2, records: 60_000,
		payload: 30}
	for _, l := range []*long{few, many} {
		l.send(t, c)
		l.check(t, c, 1)
	}
	few.send(t, c) // there is nothing by which the second one could be known
	few.check(t, c, 2)
}

// TestManyLongBatches has clients with batches that together are far larger than the memory for
// them, each of which is larger than it, too.
func TestManyLongBatches(t *testing.T) {
	const buffer, clients = 1 << 20, 16
	db := &draining{}
	s := serve(t, Options{Database: db, BufferBytes: buffer})
	var wg sync.WaitGroup
	for i := range int32(clients) {
		c := ttDial(t, s)
		wg.Go(func() {
			l := &long{cid: i, records: 100, payload: 20_000 * int(1+i%3)}
			l.send(t, c)
		})
	}
	wg.Wait()
	if db.records != clients*100 {
		t.Errorf("%d records", db.records)
	}
	// Each of the buffer's shares may end with a large payload, and one request may go beyond.
	if most := s.budget.Most(); most > 2*buffer {
		t.Errorf("%d bytes of the budget were taken, and it has %d", most, buffer)
	}
}

// TestLongBatchBreaks ends a connection within a batch: what was stored are its first records, the
// log says how many, and the batch may be sent again.
func TestLongBatchBreaks(t *testing.T) {
	db := &fake{}
	var text syncBuffer
	s := serve(t, Options{Database: db, WholeBytes: 64 << 10,
		Logger: slog.New(slog.NewTextHandler(&text, nil))})
	l := &long{cid: 1, records: 400, payload: 1000}
	c := ttDial(t, s)
	if _, err := c.Write(le64(le32(nil, 5), 0)); err != nil {
		t.Fatal(err)
	}
	if err := l.writeTo(c, 350); err != nil {
		t.Fatal(err)
	}
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	wantHungUp(t, "half a batch", c)
	stored := db.count()
	if stored == 0 || stored > 350 {
		t.Fatalf("%d records of 350 are stored", stored)
	}
	for i, r := range db.records {
		if r.CapNs != toUnix(int64(i)) {
			t.Fatalf("record %d is stored in place of record %d", r.CapNs, i)
		}
	}
	if want := fmt.Sprintf("the first %d records of the PUT are stored", stored); !strings.Contains(
		text.String(), want) {
		t.Errorf("the log does not say that %s: %s", want, text.String())
	}
	l.send(t, ttDial(t, s))
	if n := db.count(); n != stored+l.records {
		t.Errorf("%d records after the batch was sent again, %d before", n, stored)
	}
}

// TestLongBatchFails bends a record within a batch, and then lets the database fail: the status is
// that of the error, the rest is read, and the connection goes on.
func TestLongBatchFails(t *testing.T) {
	db := &fake{}
	var text syncBuffer
	s := serve(t, Options{Database: db, WholeBytes: 64 << 10, Wait: 1,
		Logger: slog.New(slog.NewTextHandler(&text, nil))})
	l := &long{cid: 1, records: 400, payload: 1000}
	var all []ttRecord
	for i := range l.records {
		all = append(all, l.record(i))
	}
	request := ttPut(false, all...)
	bent := bytes.Clone(request)
	copy(bent[12+8+300*(24+1000):], le32(nil, math.MaxInt32))
	c := ttDial(t, s)
	refused := func(request []byte, want int32) {
		t.Helper()
		before := db.count()
		if _, _, st, err := c.send(request); err != nil || st != want {
			t.Fatalf("status %d, want %d, %v", st, want, err)
		}
		want2 := fmt.Sprintf("the first %d records of the PUT are stored", db.count()-before)
		if !strings.Contains(text.String(), want2) {
			t.Errorf("the log does not say that %s: %s", want2, text.String())
		}
	}
	refused(bent, stInvalid)
	if n := db.count(); n == 0 || n > 300 {
		t.Errorf("%d records are stored of 300 before one that is wrong", n)
	}
	puts := 0
	db.fail(func() error {
		if puts++; puts > 2 {
			return kinded(wire.KindDamaged)
		}
		return nil
	}, nil)
	refused(request, -6)
	db.fail(nil, nil)
	mustPut(t, c, at(1, 3, "c"))
}

// TestLyingBatches say that 2 GiB follow, or that a record has 32 MiB, and send next to nothing:
// nothing is stored of them, and they hold no memory.
func TestLyingBatches(t *testing.T) {
	db := &fake{}
	s := serve(t, Options{Database: db, PutA: PutAAny})
	for _, cmd := range []int32{5, 6} {
		claim := le32(le32(le64(le32(nil, cmd), 0), 1), math.MaxInt32)
		whole := ttBatch(1, cmd == 6, at(1, 1, "a"), at(1, 2, "b"))[8:]
		for _, more := range [][]byte{nil, whole, le32(bytes.Clone(whole), 28+32<<20),
			le32(bytes.Clone(whole), math.MaxInt32)} {
			c := ttDial(t, s)
			if _, err := c.Write(append(bytes.Clone(claim), more...)); err != nil {
				t.Fatal(err)
			}
			if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			wantHungUp(t, "a batch that ends early", c)
		}
	}
	if n, most := db.count(), s.budget.Most(); n != 0 || most > 4*firstShare {
		t.Errorf("%d records are stored, %d bytes were taken", n, most)
	}
}

// TestLongBatchesRandom sends random batches, of which some are streamed, in random pieces.
func TestLongBatchesRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	db := &fake{}
	s := serve(t, Options{Database: db, WholeBytes: 2000, BufferBytes: 8000})
	c := ttDial(t, s)
	var all []ttRecord
	for range 30 {
		var records []ttRecord
		for cid := range rng.Int32N(4) {
			for range rng.IntN(40) {
				records = append(records, at(cid, rng.Int64N(99), strings.Repeat("p",
					rng.IntN(1+rng.IntN(3000)))))
			}
		}
		all = append(all, records...)
		for request := ttPut(false, records...); len(request) > 0; {
			n := min(1+rng.IntN(1+rng.IntN(20_000)), len(request))
			if _, err := c.Write(request[:n]); err != nil {
				t.Fatal(err)
			}
			request = request[n:]
		}
		if _, _, st, err := c.putAnswer(); err != nil || st != 0 {
			t.Fatalf("status %d, %v", st, err)
		}
	}
	sameRecords(t, mustGet(t, c), all)
}
