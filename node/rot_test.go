package node

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// rotting is a node whose only segment is changed while it is open.
type rotting struct {
	*testing.T
	rng   *rand.Rand
	node  *Node
	c     *client.Client
	file  *os.File
	whole []byte
	acqs  [2]int64 // least and greatest
}

const (
	rottingRows = 20_000
	sumAt       = 8 // of the result of stats
)

func openRotting(t *testing.T) *rotting {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	n := openTest(t, Options{})
	r := &rotting{T: t, rng: rand.New(rand.NewPCG(seed, 1)), node: n, c: dial(t, n)}
	res, err := n.Put(t.Context(), readings(0, rottingRows), store.WriterSeq{})
	if err == nil {
		err = n.store.Seal(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	r.acqs = [2]int64{res.FirstAcqNs, res.LastAcqNs}
	files, err := filepath.Glob(filepath.Join(n.opt.Dir, "store", "*.seg"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if r.whole, err = os.ReadFile(files[0]); err != nil {
		t.Fatal(err)
	}
	if r.file, err = os.OpenFile(files[0], os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.file.Close() })
	r.scan() // verifies all blocks
	return r
}

func (r *rotting) scan() {
	r.Helper()
	rows := 0
	_, err := r.c.Scan(r.Context(), &record.Query{}, func(b *record.Batch) error {
		rows += b.Len()
		return nil
	})
	if err != nil || rows != rottingRows {
		r.Fatalf("%d rows, %v", rows, err)
	}
}

// flip changes a bit of the file from an offset to another.
func (r *rotting) flip(from, to int) (at int) {
	r.Helper()
	at = from + r.rng.IntN(to-from)
	r.write(at, r.whole[at]^1<<r.rng.IntN(8))
	return at
}

func (r *rotting) write(at int, b byte) {
	r.Helper()
	if _, err := r.file.WriteAt([]byte{b}, int64(at)); err != nil {
		r.Fatal(err)
	}
}

func (r *rotting) sum() (float64, error) {
	groups, _, err := r.c.Aggregate(r.Context(), &record.Query{
		Aggregate: record.PluginCall{Name: "stats"}})
	if err != nil || len(groups) != 1 {
		return 0, err
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(groups[0].Result[sumAt:])), nil
}

// What a plugin made of a block whose bits flipped after it was verified is not kept, not even
// within the time in which the block may be answered.
func TestStatesOfDamageAreNotCached(t *testing.T) {
	r := openRotting(t)
	for range 5 {
		at := r.flip(60, 5000)
		_, err := r.sum()
		if e := new(wire.Error); !errors.As(err, &e) || e.Kind != wire.KindDamaged {
			t.Fatalf("byte %d flipped: %v", at, err)
		}
		r.write(at, r.whole[at])
	}
	for range 2 {
		got, err := r.sum()
		if want := float64(rottingRows) * (rottingRows - 1) / 2; err != nil || got != want {
			t.Fatalf("%g, %v, want %g", got, err, want)
		}
	}
	if r.node.StoreStats().Rows != rottingRows {
		t.Fatal("rows were lost")
	}
}

// No query of a segment whose bits flip panics, and each error says that it is damaged.
func TestRotIsNoInternalError(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bits")
	r := openRotting(t)
	ctx := t.Context()
	for range rounds.Of(25, 15, 4) {
		r.scan()
		at := []int{r.flip(16, len(r.whole)), r.flip(16, len(r.whole)), r.flip(16, 400)}
		check := func(what string, err error) {
			t.Helper()
			e := new(wire.Error)
			if err != nil && (!errors.As(err, &e) || e.Kind != wire.KindDamaged) {
				t.Fatalf("bytes %d flipped, %s: %v", at, what, err)
			}
		}
		none := func(*record.Batch) error { return nil }
		for view := range record.View(3) {
			q := &record.Query{View: view}
			if view == record.ViewAsOf {
				q.AsOfAcqNs = r.acqs[1]
			}
			_, err := r.c.Scan(ctx, q, none)
			check("rows", err)
			q.Order, q.Limit = record.OrderKey, 100
			_, err = r.c.Scan(ctx, q, none)
			check("ordered rows", err)
		}
		_, err := r.c.Scan(ctx, &record.Query{View: record.ViewLatest, Last: 2}, none)
		check("last", err)
		q := &record.Query{Aggregate: record.PluginCall{Name: "stats"}}
		_, _, err = r.c.Aggregate(ctx, q)
		check("sum", err)
		q.GroupBy.MID, q.GroupBy.CapBucketNs = true, 1000
		_, _, err = r.c.Aggregate(ctx, q)
		check("groups", err)
		q = &record.Query{}
		q.Box[record.MID] = record.RangeSet{{From: 256 * 10, To: 256 * 5000}}
		_, _, err = r.c.Count(ctx, q)
		check("count", err)
		_, err = r.c.Scan(ctx, q, none)
		check("devices", err)
		for _, a := range at {
			r.write(a, r.whole[a])
		}
	}
}
