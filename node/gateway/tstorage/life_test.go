package tstorage

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestTLS speaks over TLS, and not with a client that does not.
func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	s := serve(t, Options{Database: &fake{}, TLS: &tls.Config{
		Certificates: []tls.Certificate{cert}}})
	roots := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(leaf)
	plain := ttDial(t, s)
	secure := tls.Client(plain.Conn, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
	c := ttWrap(secure)
	large := at(1, 2, strings.Repeat("x", 1<<20))
	mustPut(t, c, at(1, 1, "a"), large)
	sameRecords(t, mustGet(t, c), []ttRecord{at(1, 1, "a"), large})

	stranger := ttDial(t, s)
	if _, st, err := stranger.getAcq(ttMin(), ttMax()); err == nil && st == 0 {
		t.Error("a client without TLS was answered")
	}
}

// TestTimeouts hangs up on clients that are silent: between requests after Idle, inside one after
// Stall.
func TestTimeouts(t *testing.T) {
	db := &fake{}
	idle := serve(t, Options{Database: db, Idle: 20 * time.Millisecond, Stall: time.Hour})
	c := ttDial(t, idle)
	wantHungUp(t, "idle", c)
	stall := serve(t, Options{Database: db, Stall: 20 * time.Millisecond})
	request := ttPut(false, at(1, 1, "a"), at(1, 2, "b"))
	for _, cut := range []int{1, 11, 12, 15, 30, len(request) - 1} {
		c := ttDial(t, stall)
		if _, err := c.Write(request[:cut]); err != nil {
			t.Fatal(err)
		}
		wantHungUp(t, "stalled", c)
	}
	c = ttDial(t, stall)
	if _, err := c.Write(ttBox(1, ttMin(), ttMax())[:40]); err != nil {
		t.Fatal(err)
	}
	wantHungUp(t, "stalled in a box", c)
	if n := db.count(); n != 0 {
		t.Errorf("%d records are stored", n)
	}
}

// TestReaderThatStalls asks for much and reads nothing: the server gives it up, and others are
// answered meanwhile.
func TestReaderThatStalls(t *testing.T) {
	db := &fake{}
	var b record.Batch
	for i := range int64(16) {
		b.Append(record.Key{CID: 1, CapNs: i}, make([]byte, 2<<20))
	}
	if _, err := db.Put(t.Context(), &b, store.WriterSeq{}); err != nil {
		t.Fatal(err)
	}
	s := serve(t, Options{Database: db, Stall: time.Second, Gets: 2})
	stalled, c := ttDial(t, s), ttDial(t, s)
	if _, err := stalled.Write(ttBox(1, ttMin(), ttMax())); err != nil {
		t.Fatal(err)
	}
	from := ttMin()
	from.cid = 2
	for s.Stats().Errors == 0 {
		if got, _, st, err := c.get(from, ttMax()); err != nil || st != 0 || len(got) != 0 {
			t.Fatalf("beside it: %v, status %d, %v", got, st, err)
		}
	}
	if _, _, _, err := drain(stalled); err == nil {
		t.Error("an answer that was given up has an end")
	}
}

// drain reads the answer to a GET.
func drain(c *ttClient) (records int, acq int64, st int32, err error) {
	if st, err = c.header(0); err != nil || st != 0 {
		return 0, 0, st, err
	}
	if err = c.records(func(ttRecord) { records++ }); err == nil {
		acq, st, err = c.acq()
	}
	return records, acq, st, err
}

// TestTooManyConnections hangs up on those over the limit, and takes new ones when old ones go.
func TestTooManyConnections(t *testing.T) {
	s := serve(t, Options{Database: &fake{}, Connections: 2})
	a, b := ttDial(t, s), ttDial(t, s)
	mustPut(t, a, at(1, 1, "a"))
	mustPut(t, b, at(1, 2, "b"))
	wantHungUp(t, "the third", ttDial(t, s))
	if st := s.Stats(); st.Refused != 1 || st.Open != 2 {
		t.Errorf("%d open, %d refused", st.Open, st.Refused)
	}
	_ = a.Close()
	for s.Stats().Open == 2 {
		runtime.Gosched()
	}
	mustPut(t, ttDial(t, s), at(1, 3, "c"))
}

// TestClose hangs up on idle clients at once and waits for the others: a PUT that ends in time is
// answered, one that does not is given up, and nothing is stored of half a batch.
func TestClose(t *testing.T) {
	db := &fake{}
	s := serve(t, Options{Database: db})
	idle, busy := ttDial(t, s), ttDial(t, s)
	mustPut(t, idle, at(1, 1, "a"))
	request := ttPut(false, at(1, 2, "b"))
	if _, err := busy.Write(request[:20]); err != nil {
		t.Fatal(err)
	}
	for s.Stats().Puts < 2 {
		runtime.Gosched()
	}
	var wg sync.WaitGroup
	var closed error
	wg.Go(func() { closed = s.Close(context.Background()) })
	wantHungUp(t, "idle", idle)
	if _, _, st, err := busy.send(request[20:]); err != nil || st != 0 {
		t.Errorf("in progress: status %d, %v", st, err)
	}
	wantHungUp(t, "answered", busy)
	if wg.Wait(); closed != nil {
		t.Errorf("close: %v", closed)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("it still listens")
	}
	if db.count() != 2 {
		t.Errorf("%d records", db.count())
	}
}

// TestCloseGivesUp ends with its context, although a client neither goes on nor goes away.
func TestCloseGivesUp(t *testing.T) {
	db := &fake{block: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	s := serve(t, Options{Database: db})
	half, asking, putting := ttDial(t, s), ttDial(t, s), ttDial(t, s)
	for c, request := range map[*ttClient][]byte{half: ttPut(false, at(1, 2, "b"))[:20],
		asking: ttBox(1, ttMin(), ttMax()), putting: ttPut(false, at(1, 3, "c"))} {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
	}
	for st := s.Stats(); st.Puts < 2 || st.Gets < 1; st = s.Stats() {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); err == nil {
		t.Error("it did not say that clients were given up")
	}
	for _, c := range []*ttClient{half, asking, putting} {
		if _, _, st, err := c.putAnswer(); err == nil && st == 0 {
			t.Error("a request that was given up was answered with OK")
		}
	}
	if db.count() != 0 {
		t.Errorf("%d records", db.count())
	}
}

// TestCloseWithHalfARequest closes a server while a client has sent a part of a request, which it
// may take an hour for.
func TestCloseWithHalfARequest(t *testing.T) {
	t.Parallel() // it waits most of the time
	db := &fake{}
	s := serve(t, Options{Database: db, Stall: time.Hour})
	request := ttPut(false, at(1, 1, "a"), at(1, 2, "b"))
	half := request[:len(request)-1]
	c := ttDial(t, s)
	if _, err := c.Write(half); err != nil {
		t.Fatal(err)
	}
	tick, late := time.NewTicker(5*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for s.counters.bytesIn.Load() < int64(len(half)) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the server does not read")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil || db.count() != 0 {
		t.Errorf("%v, %d records are stored", err, db.count())
	}
}

// TestIdleConnections holds 2,000 and looks at what they take.
func TestIdleConnections(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	connections := min(2000, int(limit.Cur/2)-100) // both ends are here
	if connections < 200 {
		t.Fatalf("%d files may be open, fewer than 600; ulimit -n raises it", limit.Cur)
	}
	s := serve(t, Options{Database: &fake{}})
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := memory()
	all := make([]net.Conn, connections)
	for i := range all {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		all[i] = c
		if _, err := c.Write(ttPut(false, at(1, int64(i), "x"))); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 28) // no buffers of the client's among the memory
		if _, err := c.Read(answer); err != nil || !bytes.Equal(answer[:4], make([]byte, 4)) {
			t.Fatalf("answer % x, %v", answer, err)
		}
	}
	each := int64(memory()-before) / int64(connections)
	t.Logf("%d connections that had stored a record take %d bytes each, both ends", connections,
		each)
	if each > 16<<10 {
		t.Errorf("a connection takes %d bytes, more than 16 KiB", each)
	}
	if st := s.Stats(); st.Open != connections {
		t.Errorf("%d are open", st.Open)
	}
}

// TestBehindANode closes gateway and node in the order that serve does.
func TestBehindANode(t *testing.T) {
	n := openNode(t, node.Options{})
	s := serve(t, Options{Database: n})
	c := ttDial(t, s)
	mustPut(t, c, at(1, 1, "a"))
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, st, err := c.put(false, at(1, 2, "b")); err != nil || st != -12 {
		t.Errorf("PUT into a closed node: status %d, %v", st, err)
	}
	if _, _, st, err := c.get(ttMin(), ttMax()); err != nil || st != -12 {
		t.Errorf("GET from a closed node: status %d, %v", st, err)
	}
}
