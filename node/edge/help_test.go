package edge

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/warmcode"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/internal/durable/memdir"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// core is a core node behind a link that a test cuts.
type core struct {
	*testing.T
	node *node.Node // the test's
	dir  string     // of the node
	addr string     // of the link

	mu   sync.Mutex
	at   string      // where the node is
	do   func() what // what happens to the next put
	puts int         // that reached the node
}

type what int

const (
	pass what = iota
	cutOff
	lose // the answer
	busy
)

func newCore(t *testing.T) *core {
	t.Helper()
	c := &core{T: t, do: always(pass)}
	c.start(t.TempDir())
	server := httptest.NewServer(http.HandlerFunc(c.serve))
	c.addr = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := c.node.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// start starts a node on a directory.
func (c *core) start(dir string) {
	c.Helper()
	warmcode.Fill(c, dir, false)
	n, err := node.Open(context.Background(), node.Options{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		c.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node, c.dir, c.at = n, dir, n.Addr().String()
}

// image stops the node, copies its directory and starts it again.
func (c *core) image() (dir string) {
	c.Helper()
	dir = filepath.Join(c.TempDir(), "image")
	if err := c.node.Close(context.Background()); err != nil {
		c.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(c.dir)); err != nil {
		c.Fatal(err)
	}
	c.start(c.dir)
	return dir
}

// putBack stops the node and starts it on a copy of an image.
func (c *core) putBack(image string) {
	c.Helper()
	dir := filepath.Join(c.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(image)); err != nil {
		c.Fatal(err)
	}
	if err := c.node.Close(context.Background()); err != nil {
		c.Fatal(err)
	}
	c.start(dir)
}

func always(w what) func() what { return func() what { return w } }

// set says what happens to puts from now on.
func (c *core) set(do func() what) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.do = do
}

func (c *core) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c.mu.Lock()
	do, at := c.do(), c.at
	c.mu.Unlock()
	if do == cutOff {
		panic(http.ErrAbortHandler)
	}
	if do == busy {
		w.Header().Set("Content-Type", wire.ContentType)
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write(wire.AppendError(nil, &wire.Error{Kind: wire.KindOverloaded}))
		return
	}
	answer, err := http.Post("http://"+at+r.URL.String(),
		r.Header.Get("Content-Type"), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = answer.Body.Close() }()
	c.mu.Lock()
	c.puts++
	c.mu.Unlock()
	if do == lose {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

// reached returns how many puts the node was given.
func (c *core) reached() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.puts
}

// rowsOf returns all versions that a node holds, in the order of acq.
func rowsOf(t *testing.T, n *node.Node) *record.Batch {
	t.Helper()
	all := new(record.Batch)
	_, err := n.Changes(t.Context(), everything(), math.MinInt64, false,
		func(s *store.Slice) error {
			all.AppendRows(&s.Rows, 0, s.Rows.Len())
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// series are the numbers of the records of each device, in the order of acq; gap records are
// apart.
type series map[device][]uint64

func seriesOf(t *testing.T, b *record.Batch) (series, map[device]Gap) {
	t.Helper()
	out, lost := series{}, map[device]Gap{}
	for i := range b.Len() {
		r := b.Record(i)
		at := device{r.CID, r.MID}
		if g, ok := ParseGap(r); ok {
			sum := lost[at]
			sum.Records += g.Records
			lost[at] = sum
			continue
		}
		number := uint64(r.CapNs)
		if !r.Tomb && binary.LittleEndian.Uint64(r.Payload) != number {
			t.Fatalf("record %+v has the payload %x", r.Key, r.Payload)
		}
		out[at] = append(out[at], number)
	}
	return out, lost
}

// source makes records: numbered for each device, some of them tombstones.
type source struct {
	rng   *rand.Rand
	given series
	total int
}

func newSource(rng *rand.Rand) *source { return &source{rng: rng, given: series{}} }

// batch returns some records that were never given before.
func (s *source) batch(most int) *record.Batch {
	b := new(record.Batch)
	for range 1 + s.rng.IntN(most) {
		at := device{int32(s.rng.IntN(3)), s.rng.Int64N(40) * 17}
		number := uint64(len(s.given[at]))
		s.given[at] = append(s.given[at], number)
		r := record.Record{Key: record.Key{CID: at.cid, MID: at.mid, MOID: int32(number % 2),
			CapNs: int64(number)}, Tomb: s.rng.IntN(20) == 0}
		if s.rng.IntN(10) == 0 {
			r.MOID = GapMOID // reserved, and of any form
		}
		if !r.Tomb {
			r.Payload = binary.LittleEndian.AppendUint64(nil, number)
			r.Payload = append(r.Payload, make([]byte, s.rng.IntN(30))...)
		}
		b.AppendRecord(r)
		s.total++
	}
	return b
}

// check wants each record of each device once and in order.
func (s *source) check(t *testing.T, got series) {
	t.Helper()
	for at, want := range s.given {
		if !slices.Equal(got[at], want) {
			t.Fatalf("device %v: %d records arrived, %d were put, or in another order: %v", at,
				len(got[at]), len(want), firstOdd(got[at], want))
		}
	}
	if len(got) > len(s.given) {
		t.Fatalf("%d devices arrived, %d were put", len(got), len(s.given))
	}
}

func firstOdd(got, want []uint64) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("at %d is number %d", i, got[i])
		}
	}
	return "one ends early"
}

// powerDisk is the directory of an outbox on a disk that loses power: what was being written is
// there in part.
type powerDisk struct {
	memdir.Dir
	mu   sync.Mutex // guards all below
	rng  *rand.Rand
	left int // operations until the power goes
	dark bool
}

var errDark = errors.New("the power is gone")

func newPowerDisk(rng *rand.Rand) *powerDisk {
	d := &powerDisk{rng: rng, left: math.MaxInt}
	d.Fail = d.burn
	return d
}

// burn reports whether the power is gone, or goes with this operation.
func (d *powerDisk) burn(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left--
	if d.dark = d.dark || d.left == -1; d.dark {
		return errDark
	}
	return nil
}

// back turns the power on, for a number of operations; below 0: for good.
func (d *powerDisk) back(left int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dark {
		d.LosePower(d.rng)
	}
	d.dark, d.left = false, left
	if left < 0 {
		d.left = math.MaxInt
	}
}

// until waits for something.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Minute); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: still not", what)
		}
	}
}

func openEdge(t *testing.T, opt Options) *Edge {
	t.Helper()
	e, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// put puts a batch, which must be taken.
func put(t *testing.T, e *Edge, b *record.Batch) {
	t.Helper()
	if _, err := e.Put(t.Context(), b, store.WriterSeq{}); err != nil {
		t.Fatal(err)
	}
}

// idle waits until all is shipped.
func idle(t *testing.T, e *Edge) {
	t.Helper()
	until(t, "all is shipped", func() bool {
		s := e.outbox.now()
		return e.meter.waiting() == 0 && s.InFlight == nil && s.NextNs >= s.SentNs
	})
}
