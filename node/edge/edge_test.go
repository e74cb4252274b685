package edge

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestModel puts random batches at an edge whose link breaks, loses answers and is cut, and which
// loses power again and again: what arrives is what was put, each once, each device in order.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PENTAD_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	runs := rounds.Of(3, 1, 1)
	if text := os.Getenv("PENTAD_EDGE_RUNS"); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for run := range uint64(runs) {
		t.Run(strconv.FormatUint(seed+run, 10), func(t *testing.T) {
			t.Logf("again: PENTAD_SEED=%d go test -run TestModel ./node/edge", seed+run)
			model(t, rand.New(rand.NewPCG(seed+run, 0)))
		})
	}
}

func model(t *testing.T, rng *rand.Rand) {
	c, from := newCore(t), newSource(rng)
	d := newPowerDisk(rand.New(rand.NewPCG(rng.Uint64(), 2)))
	opt := Options{Node: node.Options{Dir: t.TempDir()}, Upstream: []string{c.addr},
		Retry: 2 * time.Millisecond, Batch: 1 + rng.IntN(300), folder: d}
	faults := rand.New(rand.NewPCG(rng.Uint64(), 1))
	e := openEdge(t, opt)
	for range 60 {
		switch rng.IntN(10) {
		case 0:
			c.set(always(cutOff))
		case 1, 2:
			c.set(func() what { return what(faults.IntN(4)) })
		case 3:
			c.set(always(pass))
		case 4, 5: // the power goes now or in the midst of one of the next batches
			d.back(rng.IntN(8))
			put(t, e, from.batch(500))
			_ = e.Close(t.Context()) // the outbox may be dark
			d.back(-1)
			opt.Batch = 1 + rng.IntN(300)
			e = openEdge(t, opt)
		default:
			put(t, e, from.batch(500))
		}
	}
	c.set(always(pass))
	idle(t, e)
	got, lost := seriesOf(t, rowsOf(t, c.node))
	from.check(t, got)
	if s := e.Shipping(); len(lost) > 0 || s.Dropped != 0 || s.Shipped < int64(from.total) {
		t.Errorf("gaps %v, %+v", lost, s)
	}
	here, _ := seriesOf(t, rowsOf(t, e.Node))
	from.check(t, here)
}

// TestBlock fills an edge that is cut off: puts are refused with why and until when, and taken
// again when upstream is back.
func TestBlock(t *testing.T) {
	c, from := newCore(t), newSource(rand.New(rand.NewPCG(1, 1)))
	c.set(always(cutOff))
	opt := Options{Node: node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"},
		Upstream: []string{c.addr}, Quota: minQuota, Retry: time.Millisecond}
	e := openEdge(t, opt)
	var err error
	for err == nil {
		before, total := series{}, from.total
		for at, numbers := range from.given {
			before[at] = numbers
		}
		b := from.batch(200)
		if _, err = e.Put(t.Context(), b, store.WriterSeq{}); err != nil {
			from.given, from.total = before, total
		}
		if from.total > 3*minQuota/keyBytes {
			t.Fatalf("%d records were taken", from.total)
		}
	}
	if !errors.Is(err, ErrFull) || e.Kind(err) != wire.KindOverloaded {
		t.Fatalf("a full outbox: %v", err)
	}
	until(t, "it says why", func() bool {
		_, err := e.Put(t.Context(), batchOf(500), store.WriterSeq{})
		return err != nil && strings.Contains(err.Error(), "has taken nothing since the start") &&
			strings.Contains(err.Error(), c.addr) && strings.Contains(err.Error(), "drop-oldest")
	})
	if got := codesOf(e); !slices.Equal(got, []string{"outbox_full", "shipping_failed"}) {
		t.Errorf("problems of a full outbox: %q", got)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	e = openEdge(t, opt)
	if _, err := e.Put(t.Context(), batchOf(500), store.WriterSeq{}); !errors.Is(err, ErrFull) {
		t.Fatalf("full, after a start: %v", err)
	}
	c.set(always(pass))
	idle(t, e)
	put(t, e, from.batch(100))
	idle(t, e)
	got, _ := seriesOf(t, rowsOf(t, c.node))
	from.check(t, got)
	until(t, "no problem is left", func() bool { return len(codesOf(e)) == 0 })
}

// codesOf returns what is wrong with an edge.
func codesOf(e *Edge) (codes []string) {
	for _, p := range e.Problems() {
		codes = append(codes, p.Code)
	}
	return codes
}

// batchOf returns records of a tenant of its own.
func batchOf(records int) *record.Batch {
	b := new(record.Batch)
	for i := range records {
		b.Append(record.Key{CID: 99, MID: int64(i)}, bytes.Repeat([]byte{1}, 100))
	}
	return b
}

// TestRefused: what would part an edge from what it ships is refused, and nothing happens.
func TestRefused(t *testing.T) {
	c := newCore(t)
	e := openEdge(t, Options{Node: node.Options{Dir: t.TempDir()}, Upstream: []string{c.addr}})
	put(t, e, batchOf(10))
	var box record.Box
	stamped := batchOf(1)
	stamped.AcqNs = []int64{1}
	name := new(record.Batch)
	name.Append(record.NameClaimKey(1, "t7"),
		record.AppendNameClaim(nil, record.FirstGivenID, "t7"))
	day := int64(24 * time.Hour)
	for what, do := range map[string]func() error{
		"erase": func() error { _, err := e.Erase(t.Context(), box); return err },
		"purge": func() error { _, err := e.Purge(t.Context(), box); return err },
		"retention": func() error {
			return e.SetRetention(t.Context(), retention.Rule{MaxCapAgeNs: day})
		},
		"stamped": func() error { _, err := e.PutStamped(t.Context(), stamped); return err },
		"below":   func() error { _, err := e.PutBackdated(t.Context(), stamped); return err },
		"name": func() error {
			_, err := e.Put(t.Context(), name, store.WriterSeq{})
			return err
		},
		"copy": func() error { _, err := e.PutRange(t.Context(), &mirror.Range{}); return err },
	} {
		if err := do(); e.Kind(err) != wire.KindForbidden {
			t.Errorf("%s: %v", what, err)
		}
	}
	idle(t, e)
	if n := rowsOf(t, c.node).Len(); n != 10 {
		t.Errorf("%d records arrived", n)
	}
	for _, opt := range []Options{{}, {Node: node.Options{Dir: "x"}},
		{Node: node.Options{Dir: "x"}, Upstream: []string{"x:1"}, Quota: 1},
		{Node: node.Options{Dir: "x"}, Upstream: []string{"ftp://x"}}} {
		if _, err := Open(t.Context(), opt); err == nil {
			t.Errorf("%+v is taken", opt)
		}
	}
}

// TestCopiedDirectory: two edges with one directory do not lose records of one of them: the second
// one stops and says so.
func TestCopiedDirectory(t *testing.T) {
	c := newCore(t)
	d := newPowerDisk(rand.New(rand.NewPCG(2, 2)))
	dir := t.TempDir()
	opt := Options{Node: node.Options{Dir: dir}, Upstream: []string{c.addr},
		Retry: time.Millisecond, folder: d}
	e := openEdge(t, opt)
	put(t, e, batchOf(10))
	idle(t, e)
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := d.Content(outboxName)
	e = openEdge(t, opt)
	for i := range 2 {
		put(t, e, batchOf(20+i))
		idle(t, e)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Put(outboxName, old)
	e = openEdge(t, opt)
	until(t, "it says that it is a copy", func() bool {
		return strings.Contains(e.Shipping().Error, "is a copy")
	})
	if n := rowsOf(t, c.node).Len(); n != 10+20+21 {
		t.Errorf("%d records are in the core", n)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	opt.Node.Dir = t.TempDir()
	if _, err := Open(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "restored") {
		t.Errorf("an outbox beside another store: %v", err)
	}
}

// TestForget: what was shipped goes after its time, what was not stays.
func TestForget(t *testing.T) {
	c := newCore(t)
	e := openEdge(t, Options{Node: node.Options{Dir: t.TempDir()}, Upstream: []string{c.addr},
		Retry: time.Millisecond, Keep: -1, forgetStep: 1})
	put(t, e, batchOf(100))
	idle(t, e)
	c.set(always(cutOff))
	put(t, e, batchOf(30))
	far := time.Now().Add(time.Hour).UnixNano()
	for range 2 {
		if err := e.forget(t.Context(), far); err != nil {
			t.Fatal(err)
		}
		if n := rowsOf(t, e.Node).Len(); n != 30 {
			t.Fatalf("%d records are left, 30 of them were not shipped", n)
		}
	}
	c.set(always(pass))
	idle(t, e)
	if err := e.forget(t.Context(), far); err != nil {
		t.Fatal(err)
	}
	if n := rowsOf(t, e.Node).Len(); n != 0 {
		t.Errorf("%d records are left", n)
	}
	if n := rowsOf(t, c.node).Len(); n != 130 {
		t.Errorf("%d records arrived", n)
	}
}

// TestRetentionFirst: what a node would remove by its retentions is not left unshipped in silence.
func TestRetentionFirst(t *testing.T) {
	opt := node.Options{Dir: t.TempDir()}
	n, err := node.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	one := retention.Rule{MaxAcqAgeNs: int64(time.Hour)}
	if err := n.SetRetention(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Node: opt, Upstream: []string{"127.0.0.1:1"}})
	if err == nil || !strings.Contains(err.Error(), "retention") {
		t.Errorf("%v", err)
	}
}
