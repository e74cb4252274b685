package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// frozenRowsVariable says how many rows TestFrozen writes: 1,000,000 in make test-long.
const frozenRowsVariable = "PENTAD_FROZEN_ROWS"

// fingerprint is of a set of rows: a count, and the sum of their hashes, as they come in any order.
type fingerprint struct {
	rows uint64
	sum  [4]uint64
}

func (d *fingerprint) add(b *record.Batch, i int, prefix byte) {
	k := b.Key(i)
	text := []byte{prefix, 0}
	if b.Tomb(i) {
		text[1] = 1
	}
	for dim := range record.NumDims {
		text = binary.LittleEndian.AppendUint64(text, uint64(k.Part(record.Dim(dim))))
	}
	hash := sha256.Sum256(append(text, b.Payload(i)...))
	for w := range d.sum {
		d.sum[w] += binary.LittleEndian.Uint64(hash[8*w:])
	}
	d.rows++
}

// frozen is a moment below the horizon, a box, and what they held when someone first asked.
type frozen struct {
	box          record.Box
	fromNs, toNs int64
	seen         [3]fingerprint // everything, the state, the difference to an earlier one
}

// look takes the digests of everything that came before the moment, of the state as of it, and of
// the difference to an earlier one.
func (f *frozen) look(t *testing.T, s *Store) {
	t.Helper()
	f.seen = [3]fingerprint{}
	var mu sync.Mutex
	scan := func(q *record.Query, to *fingerprint) {
		t.Helper()
		if err := q.Normalize(); err != nil {
			t.Fatal(err)
		}
		_, err := s.Scan(t.Context(), q, func(int) (Sink, error) {
			return func(b *record.Batch) error {
				mu.Lock()
				defer mu.Unlock()
				for i := range b.Len() {
					to.add(b, i, 0)
				}
				return nil
			}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := record.Query{Box: f.box}
	all.Box[record.Acq] = record.RangeSet{{From: math.MinInt64, To: f.toNs}}
	scan(&all, &f.seen[0])
	scan(&record.Query{Box: f.box, View: record.ViewAsOf, AsOfAcqNs: f.toNs}, &f.seen[1])
	ask := &record.Diff{Box: f.box, FromNs: f.fromNs, ToNs: f.toNs}
	_, err := s.Diff(t.Context(), ask, func(d *record.Differences) error {
		for i := range d.Len() {
			f.seen[2].add(&d.New, i, byte(d.Kind))
		}
		for i := range d.Old.Len() {
			f.seen[2].add(&d.Old, i, 16+byte(d.Kind))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// frozenRows returns how many rows TestFrozen writes.
func frozenRows(t *testing.T) int {
	t.Helper()
	rows := rounds.Of(100_000, 20_000, 20_000)
	if text := os.Getenv(frozenRowsVariable); text != "" && !testing.Short() {
		var err error
		if rows, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", frozenRowsVariable, err)
		}
	}
	return rows
}

// check looks again.
func (f *frozen) check(t *testing.T, s *Store) {
	t.Helper()
	later := *f
	if later.look(t, s); later.seen != f.seen {
		t.Fatalf("what was below the horizon has changed:\n%+v\n%+v", f, later)
	}
}

// TestFrozen takes digests of boxes below the horizon at random moments, and again and again later:
// what was below the horizon once stays as it was, through writes, late ones and corrections,
// tombstones, erases, seals, merges, restarts, crashes and a clock that is set back.
func TestFrozen(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	rows := frozenRows(t)
	rng := randomSource(t)
	sh := shape{cids: 3, mids: 40, moids: 3, caps: 400, varied: true}
	now := leapingClock()
	back := int64(0)
	opt := Options{Dir: t.TempDir(), Shards: 2, SealRows: rows / 40,
		Index: index.Options{BlockRows: 256}, retainEvery: time.Hour,
		Now: func() int64 { return now() - back }}
	s, _, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var moments []frozen
	m := &model{} // empty: for boxes alone
	horizon := int64(0)
	for put := 0; put < rows; {
		b := sh.batch(rng, 1+rng.IntN(rows/200), 0)
		mustPut(t, s, b, WriterSeq{})
		put += b.Len()
		switch rng.IntN(12) {
		case 0:
			if _, err := s.Erase(t.Context(), sh.query(rng, m).Box); err != nil {
				t.Fatal(err)
			}
		case 1:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			back += rng.Int64N(int64(time.Hour)) // set back while it is closed
			if s, _, err = Open(context.Background(), opt); err != nil {
				t.Fatal(err)
			}
		case 2:
			s = crashAndReopen(t, s, &opt)
		case 3:
			mustSettle(t, s)
		case 4, 5:
			f := frozen{box: sh.query(rng, m).Box, fromNs: horizon}
			f.box[record.Acq] = nil
			if f.toNs, err = s.ExtendHorizon(t.Context()); err != nil {
				t.Fatal(err)
			}
			if f.toNs < horizon {
				t.Fatalf("the horizon moved back from %d to %d", horizon, f.toNs)
			}
			horizon = f.toNs
			f.look(t, s)
			moments = append(moments, f)
		case 6, 7:
			if len(moments) > 0 {
				moments[rng.IntN(len(moments))].check(t, s)
			}
		}
	}
	mustSettle(t, s)
	seen := fingerprint{}
	for i := range moments {
		moments[i].check(t, s)
		seen.rows += moments[i].seen[2].rows
	}
	if t.Logf("%d moments", len(moments)); seen.rows == 0 {
		t.Errorf("nothing ever differed at %d moments", len(moments))
	}
}
