package tstorage

import (
	"errors"
	"io"
	"math"
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/pentad-db/pentad/sdk/wire"
)

// TestWrongBatches: a batch that is wrong is refused whole; those before it are stored, those
// behind it are not, and the connection goes on unless no one knows where the next batch begins.
func TestWrongBatches(t *testing.T) {
	db := &fake{}
	s := serve(t, Options{Database: db, WholeBytes: 1 << 20})
	good := ttBatch(1, false, at(1, 1, "a"), at(1, 2, "b"))
	f := func(what string, want int32, goesOn bool, wrong []byte) {
		t.Helper()
		c := ttDial(t, s)
		before := db.count()
		request := append(le64(le32(nil, 5), 0), good...)
		request = append(request, wrong...)
		request = le32(append(request, good...), -1)
		if _, _, st, err := c.send(request); err != nil || st != want {
			t.Errorf("%s: status %d, want %d, %v", what, st, want, err)
		}
		if n := db.count() - before; n != 2 {
			t.Errorf("%s: %d records stored, want the two before it", what, n)
		}
		if goesOn {
			mustPut(t, c, at(1, 3, "c"))
		} else {
			wantHungUp(t, what, c)
		}
	}
	// A batch of two records, the second of which is bent.
	bent := func(size int32, cut int) []byte {
		b := ttBatch(1, false, at(1, 1, "a"), at(1, 2, "bbbbbbbb"))
		copy(b[8+4+20+1:], le32(nil, size))
		b = b[:len(b)-cut]
		copy(b[4:], le32(nil, int32(len(b)-8)))
		return b
	}
	f("a record longer than its batch", stInvalid, true, bent(29, 0))
	f("a record far longer than its batch", stInvalid, true, bent(math.MaxInt32, 0))
	f("a negative record", stInvalid, true, bent(-1, 0))
	f("a record shorter than its key", stInvalid, true, bent(19, 0))
	f("a record of no byte", stInvalid, true, bent(0, 0))
	f("a record shorter than it says", stInvalid, true, bent(28, 3))
	f("half a size after the last record", stInvalid, true, bent(23, 3))
	f("a size alone", stInvalid, true, bent(24, 28))
	f("a negative cid", stInvalid, true, ttBatch(-2, false, at(1, 1, "a")))
	f("the least cid", stInvalid, true, ttBatch(math.MinInt32, false))
	f("a batch of negative size", stInvalid, false, le32(le32(nil, 1), -5))
	f("a batch of the least size", stInvalid, false, le32(le32(nil, 1), math.MinInt32))
	if st := s.Stats(); st.Errors != 12 {
		t.Errorf("%d errors counted", st.Errors)
	}
}

// wantHungUp wants the server to have closed the connection.
func wantHungUp(t *testing.T, what string, c *ttClient) {
	t.Helper()
	if n, err := c.in.Read(make([]byte, 1)); n != 0 || !hungUp(err) {
		t.Errorf("%s: %d bytes follow, %v", what, n, err)
	}
}

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// TestWrongHeaders refuses commands and sizes that no client sends, and hangs up.
func TestWrongHeaders(t *testing.T) {
	s := serve(t, Options{Database: &fake{}})
	f := func(cmd int32, size int64, want int32) {
		t.Helper()
		c := ttDial(t, s)
		if _, err := c.Write(le64(le32(nil, cmd), size)); err != nil {
			t.Fatal(err)
		}
		if st, err := c.header(0); err != nil || st != want {
			t.Errorf("command %d of %d bytes: status %d, %v", cmd, size, st, err)
		}
		wantHungUp(t, "a wrong header", c)
	}
	f(0, 0, stNoImpl)
	f(2, 64, stNoImpl)
	f(8, 64, stNoImpl)
	f(-1, -1, stNoImpl)
	f(math.MaxInt32, math.MaxInt64, stNoImpl)
	f(1, 0, stInvalid)
	f(1, 63, stInvalid)
	f(7, 65, stInvalid)
	f(7, -1, stInvalid)
	f(5, 1, stInvalid)
	f(5, -1, stInvalid)
}

// TestHalfSent cuts a PUT of two batches off at every byte: a batch that did not come whole is
// not stored, and no part of it.
func TestHalfSent(t *testing.T) {
	db := &fake{}
	s := serve(t, Options{Database: db})
	request := ttPut(false, at(1, 1, "a"), at(1, 2, "b"), at(2, 1, "c"), at(2, 2, "d"))
	for cut := range len(request) {
		c := ttDial(t, s)
		if _, err := c.Write(request[:cut]); err != nil {
			t.Fatal(err)
		}
		if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		wantHungUp(t, "half a request", c)
		if n := db.count(); n%2 != 0 {
			t.Fatalf("cut after %d of %d bytes: %d records stored", cut, len(request), n)
		}
	}
	if n := db.count(); n != 0 {
		t.Errorf("%d records stored of requests without an end, all of them small", n)
	}
}

// TestNothingOnTheWordOfALength says that much is to come, sends little, and looks at the memory
// of the server.
func TestNothingOnTheWordOfALength(t *testing.T) {
	s := serve(t, Options{Database: &fake{}})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const clients = 50
	for range clients {
		c := ttDial(t, s)
		request := le32(le32(le64(le32(nil, 5), 0), 1), 200<<20)
		request = append(le32(request, 20+32<<20), make([]byte, 20+1000)...)
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
	}
	for s.Stats().BytesIn < clients*(20+4+20+1000) {
		runtime.Gosched()
	}
	runtime.ReadMemStats(&after)
	// A connection has its read buffer and one step of the payload, for which the race detector
	// takes two, and the client here has a buffer of its own.
	most := uint64(clients * (4*readBytes + 3*payloadStep))
	if got := after.TotalAlloc - before.TotalAlloc; got > most {
		t.Errorf("%d bytes allocated for %d clients that claim 32 MiB each, more than %d", got,
			clients, most)
	}
}

// TestStatuses: an error of the database before the first record has a status, and one in the
// midst of the stream ends the connection without an end of the answer.
func TestStatuses(t *testing.T) {
	db := &fake{}
	s := serve(t, Options{Database: db, Wait: 1})
	c := ttDial(t, s)
	mustPut(t, c, at(1, 1, "a"), at(1, 2, "b"))
	for kind, want := range map[wire.Kind]int32{
		wire.KindOverloaded: -3, wire.KindTimeout: -4, wire.KindTooLarge: -5, wire.KindDamaged: -6,
		wire.KindForbidden: -7, wire.KindUnavailable: -12, wire.KindInvalid: -2,
		wire.KindInternal: -1,
	} {
		db.fail(func() error { return kinded(kind) }, func(int) error { return kinded(kind) })
		if _, _, st, err := c.put(false, at(1, 3, "c")); err != nil || st != want {
			t.Errorf("PUT, %s: status %d, want %d, %v", kind, st, want, err)
		}
		if _, _, st, err := c.get(ttMin(), ttMax()); err != nil || st != want {
			t.Errorf("GET, %s: status %d, want %d, %v", kind, st, want, err)
		}
	}
	db.fail(nil, func(records int) error {
		if records == 2 {
			return kinded(wire.KindDamaged)
		}
		return nil
	})
	got, _, _, err := c.get(ttMin(), ttMax())
	if !hungUp(err) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an error inside the stream: %v, %v", got, err)
	}
	db.fail(nil, nil)
	if n := len(mustGet(t, ttDial(t, s))); n != 2 {
		t.Errorf("%d records", n)
	}
}

// TestOverloadPasses: a database that is overloaded for a while is asked again.
func TestOverloadPasses(t *testing.T) {
	db := &fake{}
	c := ttDial(t, serve(t, Options{Database: db}))
	fails := 3
	db.fail(func() error {
		if fails--; fails >= 0 {
			return kinded(wire.KindOverloaded)
		}
		return nil
	}, nil)
	mustPut(t, c, at(1, 1, "a"))
	if n := db.count(); n != 1 {
		t.Errorf("%d records", n)
	}
}

// TestPutANeedsPermission: without it the request is read to its end and refused.
func TestPutANeedsPermission(t *testing.T) {
	db := &fake{}
	c := ttDial(t, serve(t, Options{Database: db}))
	r := at(1, 1, "a")
	r.acq = 7
	if _, _, st, err := c.put(true, r, r); err != nil || st != stNoPerm {
		t.Errorf("status %d, %v", st, err)
	}
	if db.count() != 0 {
		t.Error("it is stored")
	}
	mustPut(t, c, at(1, 2, "b"))
}
