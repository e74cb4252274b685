package edge

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// seeded returns numbers of a seed that is logged; PENTAD_SEED repeats one.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PENTAD_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("again: PENTAD_SEED=%d go test -run %s$ ./node/edge", seed, t.Name())
	return rand.New(rand.NewPCG(seed, 0))
}

// lockedBuffer is what an edge logs.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

// whole wants each record that was put to be in the core once, each device's in order.
func (c *core) whole(from *source) {
	c.Helper()
	got, lost := seriesOf(c.T, rowsOf(c.T, c.node))
	from.check(c.T, got)
	if len(lost) > 0 {
		c.Errorf("gaps %v", lost)
	}
}

// TestPutBack puts a core back to what it had before, once between batches, and undoes that: the
// edge says so, and sends what is missing and nothing else. A core that was only started again has
// lost nothing.
func TestPutBack(t *testing.T) {
	c, from := newCore(t), newSource(seeded(t))
	said := &lockedBuffer{}
	opt := Options{Node: node.Options{Dir: t.TempDir(),
		Logger: slog.New(slog.NewTextHandler(said, nil))}, Upstream: []string{c.addr},
		Retry: time.Millisecond, Batch: 50, askEvery: time.Millisecond}
	e := openEdge(t, opt)
	more := func() {
		for range 3 {
			put(t, e, from.batch(200))
		}
		idle(t, e)
	}
	more()
	image := c.image()
	before := from.total
	more()
	newest := c.image()
	again := from.total - before
	more()
	if s := e.Shipping(); s.Losses != 0 || s.LostNs != 0 || said.count("has lost") != 0 {
		t.Fatalf("the core was started again: %+v", s)
	}
	beyond := from.total - before - again
	c.putBack(image)
	put(t, e, from.batch(1))
	idle(t, e)
	c.whole(from)
	s := e.Shipping()
	if s.Losses != 1 || s.AgainRecords != int64(again+beyond) || s.GoneRecords != 0 ||
		said.count("has lost records") != 1 {
		t.Fatalf("%d records were lost: %+v", again+beyond, s)
	}
	until(t, "nothing is sent again", func() bool { return len(codesOf(e)) == 0 })
	c.putBack(newest)
	more()
	c.whole(from)
	if s := e.Shipping(); s.Losses != 2 {
		t.Errorf("the core has less again: %+v", s)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.putBack(image)
	e = openEdge(t, opt) // which is asked at the start, though nothing is put
	until(t, "all is there", func() bool { return rowsOf(t, c.node).Len() == from.total })
	c.whole(from)
	if s := e.Shipping(); s.Losses != 3 || s.Dropped != 0 {
		t.Errorf("losses are kept: %+v", s)
	}
}

// TestPutBackModel puts random batches at an edge that loses power again and again, whose link
// breaks and whose core is started again or put back to anything that it was before, older or
// newer: in the end it has what was put, each once, each device in order.
func TestPutBackModel(t *testing.T) {
	rng := seeded(t)
	c, from := newCore(t), newSource(rng)
	d := newPowerDisk(rand.New(rand.NewPCG(rng.Uint64(), 2)))
	opt := Options{Node: node.Options{Dir: t.TempDir()}, Upstream: []string{c.addr},
		Retry: 2 * time.Millisecond, Batch: 1 + rng.IntN(100), folder: d,
		askEvery: time.Millisecond}
	faults := rand.New(rand.NewPCG(rng.Uint64(), 1))
	e := openEdge(t, opt)
	images := []string{c.image()}
	losses := uint64(0)
	for range rounds.Of(50, 25, 15) {
		switch rng.IntN(12) {
		case 0:
			c.set(always(cutOff))
		case 1, 2:
			c.set(func() what { return what(faults.IntN(4)) })
		case 3:
			c.set(always(pass))
		case 4, 5:
			d.back(rng.IntN(8))
			put(t, e, from.batch(300))
			_ = e.Close(t.Context()) // the outbox may be dark
			d.back(-1)
			opt.Batch = 1 + rng.IntN(100)
			e = openEdge(t, opt)
		case 6:
			images = append(images, c.image())
		case 7, 8:
			images = append(images, c.image()) // so that what comes may be undone
			c.putBack(images[rng.IntN(len(images))])
		default:
			put(t, e, from.batch(300))
			if rng.IntN(3) == 0 {
				c.set(always(pass))
				idle(t, e)
			}
		}
		losses = max(losses, e.outbox.now().Lacks)
	}
	c.set(always(pass))
	idle(t, e)
	c.putBack(images[0])
	put(t, e, from.batch(1))
	idle(t, e)
	c.whole(from)
	if now := e.outbox.now().Lacks; now <= losses {
		t.Errorf("upstream lost something %d times, and then all: %d", losses, now)
	}
	here, _ := seriesOf(t, rowsOf(t, e.Node))
	from.check(t, here)
}

// filling is an edge that drops the oldest and loses power meanwhile.
type filling struct {
	*testing.T
	*Edge
	opt  Options
	disk *powerDisk
	rng  *rand.Rand
	from *source
}

// fill puts batches, and closes and opens the edge in the end.
func (f *filling) fill(batches int) {
	f.Helper()
	for i := range batches {
		b := f.from.batch(400)
		if i%5 == 4 {
			f.disk.back(f.rng.IntN(10))
		}
		if _, err := f.Put(f.Context(), b, store.WriterSeq{}); err != nil {
			if !errors.Is(err, errDark) {
				f.Fatal(err)
			}
			f.again()
			put(f.T, f.Edge, b)
		}
		if used := f.meter.waiting(); used > minQuota {
			f.Fatalf("%d bytes wait, the quota is %d", used, minQuota)
		}
	}
	f.again()
}

func (f *filling) again() {
	f.Helper()
	_ = f.Close(f.Context()) // the outbox may be dark
	f.disk.back(-1)
	f.Edge = openEdge(f.T, f.opt)
}

// TestPutBackWhileFull puts a core back whose edge drops the oldest when its quota is full: what
// is sent again does not count, is not dropped, and what was dropped has its gap records again.
func TestPutBackWhileFull(t *testing.T) {
	rng := seeded(t)
	c, from := newCore(t), newSource(rng)
	d := newPowerDisk(rand.New(rand.NewPCG(rng.Uint64(), 2)))
	opt := Options{Node: node.Options{Dir: t.TempDir()}, Upstream: []string{c.addr},
		Quota: minQuota, Full: DropOldest, Retry: time.Millisecond, Batch: 50, folder: d}
	f := &filling{t, openEdge(t, opt), opt, d, rng, from}
	image := c.image()
	for range 6 {
		put(t, f.Edge, from.batch(400))
		idle(t, f.Edge)
	}
	shipped := from.total
	c.set(always(cutOff))
	f.fill(20) // so there are gap records
	c.set(always(pass))
	idle(t, f.Edge)
	c.putBack(image)
	refusals := 0
	c.set(func() what { // it goes back, sends some again, and is cut off while puts go on
		if refusals++; refusals > 5 {
			return cutOff
		}
		return pass
	})
	put(t, f.Edge, from.batch(100))
	until(t, "it goes back", func() bool { return f.outbox.now().Lacks == 1 })
	f.fill(20)
	if s := f.outbox.now(); s.NextNs >= s.SentNs || s.Drops == 0 {
		t.Fatalf("nothing is sent again: %+v", s)
	}
	if got := codesOf(f.Edge); !slices.Contains(got, "upstream_lost") {
		t.Errorf("problems while records are sent again: %q", got)
	}
	c.set(always(pass))
	idle(t, f.Edge)
	until(t, "nothing is sent again", func() bool {
		s := f.outbox.now()
		return s.NextNs >= s.SentNs && s.InFlight == nil
	})
	got, lost := seriesOf(t, rowsOf(t, c.node))
	arrived, missing := 0, int64(0)
	for at, want := range from.given {
		inOrder(t, at, got[at], want)
		if gone := int64(len(want) - len(got[at])); gone != lost[at].Records {
			t.Errorf("device %v: %d of %d records arrived, gap records say that %d are lost", at,
				len(got[at]), len(want), lost[at].Records)
		}
		arrived, missing = arrived+len(got[at]), missing+lost[at].Records
	}
	if s := f.Shipping(); missing == 0 || s.Dropped != missing || arrived < shipped {
		t.Errorf("%d records are missing, %d arrived, %d must: %+v", missing, arrived, shipped, s)
	}
}

// inOrder wants numbers to be some of those that were given, each once, in their order.
func inOrder(t *testing.T, at device, got, want []uint64) {
	t.Helper()
	next := 0
	for _, number := range got {
		for next < len(want) && want[next] != number {
			next++
		}
		if next++; next > len(want) {
			t.Fatalf("device %v: %d came twice or out of order", at, number)
		}
	}
}

// TestPutBackAfterForgetting: what is here no more is named, and the rest is sent again, also to a
// core that never knew the edge.
func TestPutBackAfterForgetting(t *testing.T) {
	c := newCore(t)
	empty := c.image()
	opt := Options{Node: node.Options{Dir: t.TempDir()}, Upstream: []string{c.addr},
		Retry: time.Millisecond, Keep: -1, forgetStep: 1}
	e := openEdge(t, opt)
	for i := range 2 * maxSteps {
		put(t, e, batchOf(10+i))
		idle(t, e)
		if err := e.forget(t.Context(), math.MaxInt64); err != nil {
			t.Fatal(err)
		}
	}
	put(t, e, batchOf(30))
	idle(t, e)
	forgotten := int64(0)
	for i := range 2 * maxSteps {
		forgotten += int64(10 + i)
	}
	c.putBack(empty)
	put(t, e, batchOf(7))
	idle(t, e)
	s := e.Shipping()
	if n := rowsOf(t, c.node).Len(); n != 37 || s.AgainRecords != 30 ||
		s.GoneRecords != forgotten || s.GoneToNs == 0 || s.Losses != 1 {
		t.Errorf("%d records are in the core, %d were forgotten: %+v", n, forgotten, s)
	}
	message := ""
	for _, p := range e.Problems() {
		message += p.Code + ": " + p.Message
	}
	if !strings.Contains(message, "upstream_lost: ") ||
		!strings.Contains(message, "up to "+strconv.FormatInt(forgotten, 10)) {
		t.Errorf("problems: %s", message)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	e = openEdge(t, opt)
	if got := codesOf(e); len(got) > 0 || e.Shipping().GoneRecords != forgotten {
		t.Errorf("after a start: %q, %+v", got, e.Shipping())
	}
}

// TestKilledAndPutBack kills an edge again and again while its core is put back: all that it took
// arrives once, each device's in order.
func TestKilledAndPutBack(t *testing.T) {
	rounds.NotUnderRace(t, "processes: others open again what a loss of power left")
	rng := seeded(t)
	c := newCore(t)
	dir := t.TempDir()
	images := []string{c.image()}
	next := int64(0)
	for life := range 4 {
		v := startVictim(t, next, dir, c.addr)
		next = v.killAt(next + 4000 + rng.Int64N(4000))
		if life%2 == 0 {
			images = append(images, c.image())
		} else {
			c.putBack(images[rng.IntN(len(images))])
		}
	}
	e := openEdge(t, Options{Node: node.Options{Dir: dir}, Upstream: []string{c.addr},
		Retry: 20 * time.Millisecond})
	idle(t, e)
	c.putBack(images[1])
	put(t, e, batchOf(1)) // of another tenant
	idle(t, e)
	rows := rowsOf(t, c.node)
	here := rowsOf(t, e.Node)
	if rows.Len() != here.Len() || int64(rows.Len()) < next+1 {
		t.Errorf("%d records arrived, %d are here, %d were taken", rows.Len(), here.Len(), next+1)
	}
	count := map[int64]int64{}
	for i := range rows.Len() {
		if r := rows.Record(i); r.CID == 1 {
			if r.CapNs != count[r.MID] {
				t.Fatalf("device %d: number %d came in place %d", r.MID, r.CapNs, count[r.MID])
			}
			count[r.MID]++
		}
	}
	if e.outbox.now().Lacks == 0 {
		t.Error("nothing was lost")
	}
}

// TestPutBackWhileShipping puts a core back while an edge ships what has waited, again and again.
func TestPutBackWhileShipping(t *testing.T) {
	rng := seeded(t)
	c, from := newCore(t), newSource(rng)
	c.set(always(cutOff))
	e := openEdge(t, Options{Node: node.Options{Dir: t.TempDir()}, Upstream: []string{c.addr},
		Retry: time.Millisecond, Batch: 20})
	images := []string{c.image()}
	for range rounds.Of(12, 8, 4) {
		put(t, e, from.batch(400))
	}
	c.set(always(pass))
	for range 5 {
		many := e.outbox.now().Shipped.Records + int64(from.total)/20
		until(t, "some are shipped", func() bool {
			return e.outbox.now().Shipped.Records >= many || e.meter.waiting() == 0
		})
		images = append(images, c.image())
		c.putBack(images[rng.IntN(len(images))])
	}
	put(t, e, from.batch(1))
	idle(t, e)
	c.whole(from)
	if err := e.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestFollows asks a core for the newest batch of an edge, and asks wrongly.
func TestFollows(t *testing.T) {
	c := newCore(t)
	db, err := client.New(c.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	w := record.Writer{ID: [16]byte{1}, Persistent: true}
	newest := func(err error) uint64 {
		t.Helper()
		var remote *wire.Error
		if errors.As(err, &remote) {
			if seq, ok := remote.Newest(); ok {
				return seq
			}
		}
		t.Fatalf("it says no number: %v", err)
		return 0
	}
	if got := newest(db.Follows(t.Context(), w, 7)); got != 0 {
		t.Errorf("the newest batch of an unknown edge is %d", got)
	}
	if _, err := db.PutAfter(t.Context(), batchOf(3), w, math.MaxInt64, 0); err != nil {
		t.Fatal(err)
	}
	if err := db.Follows(t.Context(), w, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	other := record.Writer{ID: w.ID}
	if got := newest(db.Follows(t.Context(), other, math.MaxInt64)); got != 0 {
		t.Errorf("the newest batch of another writer with the id is %d", got)
	}
	_, err = db.PutAfter(t.Context(), batchOf(3), w, math.MaxInt64-1, 0)
	if got := newest(err); got != math.MaxInt64 {
		t.Errorf("the newest batch is %d", got)
	}
	hex := strings.Repeat("65", 16)
	for _, params := range []string{"writer=" + hex, "previous=x&writer=" + hex,
		"previous=1&writer=", "previous=1&writer=6564", "previous=1&writer=" + hex + "00",
		"previous=1&writer=" + strings.Repeat("0", 32),
		"previous=1&persistent=yes&writer=" + hex} {
		answer, err := http.Post(c.addr+"/v1/put?"+params, wire.ContentType, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", params, answer.StatusCode)
		}
	}
	if n := rowsOf(t, c.node).Len(); n != 3 {
		t.Errorf("%d records are stored", n)
	}
}
