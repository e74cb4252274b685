package store

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/sdk/record"
)

// digestOf is the digest of some rows, one after the other.
func digestOf(rows []modelRow, fromNs, toNs int64) digest.Slice {
	d := digest.Slice{FromNs: fromNs, ToNs: toNs}
	for _, r := range rows {
		if r.key.AcqNs < fromNs || r.key.AcqNs >= toNs {
			continue
		}
		b := &record.Batch{}
		if r.tomb {
			b.AppendStampedTomb(r.key)
		} else {
			b.AppendStamped(r.key, []byte(r.payload))
		}
		d.Add(b, 0, nil)
	}
	return d
}

// Digests are the same before and after seals, merges and restarts, in a copy with other shards,
// and are those of the rows.
func TestDigestModel(t *testing.T) {
	rng := randomSource(t)
	sh := shape{cids: 3, mids: 50, moids: 3, caps: 300, varied: true}
	opt := Options{Dir: t.TempDir(), Shards: 4, SealRows: 900, Now: leapingClock(),
		retainEvery: time.Hour}
	s, m := openTest(t, opt), &model{}
	for range 12 {
		b := sh.batch(rng, 1+rng.IntN(500), time.Now().UnixNano())
		m.add(b, splitByShard(b, 4), mustPut(t, s, b, WriterSeq{}))
	}
	sh.erase(t, rng, s, m)
	sh.purge(t, rng, s, m)
	h, err := s.ExtendHorizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cuts := []int64{0, h}
	for range 20 {
		acq := m.rows[rng.IntN(len(m.rows))].key.AcqNs
		cuts = append(cuts, acq, acq+1)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	box := sh.query(rng, m).Box
	box[record.Acq] = nil
	check := func(s *Store) {
		t.Helper()
		for _, box := range []record.Box{{}, box} {
			got, _, err := s.Digest(t.Context(), box, cuts)
			if err != nil {
				t.Fatal(err)
			}
			rows := m.query(&record.Query{Box: box})
			for i, d := range got {
				if want := digestOf(rows, cuts[i], cuts[i+1]); d != want {
					t.Fatalf("slice %d: %+v, want %+v", i, d, want)
				}
			}
		}
	}
	s = everywhere(t, s, opt, check)
	to := Options{Dir: t.TempDir(), Now: leapingClock(), retainEvery: time.Hour}
	c := &copier{rng: rng}
	copied := c.follow(t, s, openTest(t, to), &to)
	defer func() { _ = copied.Close() }()
	check(copied)
	for range 5 {
		sh.putBelow(t, rng, s, m)
	}
	cuts[0] = math.MinInt64
	s = everywhere(t, s, opt, check)
	if _, err := s.Cut(t.Context(), 0, h, 100); !errors.Is(err, ErrBelow) {
		t.Errorf("slices of a store with rows from below: %v", err)
	}
}

// Slices hold as many rows as was asked for, and all rows lie in one.
func TestCut(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	rng := randomSource(t)
	sh := shape{cids: 3, mids: 5000, moids: 3, caps: 300}
	s, m := openTest(t, Options{Shards: 2, SealRows: 900}), &model{}
	for range 30 {
		b := sh.batch(rng, 1+rng.IntN(300), time.Now().UnixNano())
		m.add(b, splitByShard(b, 2), mustPut(t, s, b, WriterSeq{}))
	}
	h, err := s.ExtendHorizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{0, 1, 7, 100, 5000, 1 << 30} {
		from, to := int64(0), h
		if rng.IntN(2) == 0 {
			from = m.rows[rng.IntN(len(m.rows))].key.AcqNs
		}
		cuts, err := s.Cut(t.Context(), from, to, uint64(want))
		if err != nil || cuts[0] != from || len(cuts) > digest.MaxSlices+1 {
			t.Fatalf("%d cuts from %d, want %d: %v", len(cuts), cuts[0], from, err)
		}
		full := len(cuts) == digest.MaxSlices
		for i := 1; i < len(cuts); i++ {
			rows := digestOf(m.rows, cuts[i-1], cuts[i]).Rows
			last := i == len(cuts)-1 && !full
			if rows > uint64(max(want, 1)) || rows < uint64(max(want, 1)) && !last {
				t.Fatalf("slice %d of %d has %d rows, want %d", i, len(cuts)-1, rows, want)
			}
		}
		if end := cuts[len(cuts)-1]; end != to && !full {
			t.Fatalf("the last of %d cuts is %d, want %d", len(cuts), end, to)
		}
	}
}

func TestDigestRefuses(t *testing.T) {
	s := openTest(t, Options{})
	h, err := s.ExtendHorizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := func(box record.Box, cuts ...int64) {
		t.Helper()
		var invalid *record.InvalidError
		if _, _, err := s.Digest(t.Context(), box, cuts); !errors.As(err, &invalid) {
			t.Errorf("%d: %v", cuts, err)
		}
	}
	f(record.Box{})
	f(record.Box{}, 1)
	f(record.Box{}, 2, 1)
	f(record.Box{}, 1, 1)
	f(record.Box{}, 1, h+int64(time.Hour))
	f(boxOf(record.Acq, 1, 2), 1, 2)
	f(boxOf(record.MID, 2, 2), 1, 2)
	f(record.Box{}, make([]int64, digest.MaxSlices+2)...)
}

// BenchmarkDigest digests a million sealed rows with payloads of 16 bytes.
func BenchmarkDigest(b *testing.B) {
	s := benchStore(b)
	h, err := s.ExtendHorizon(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	cuts, err := s.Cut(b.Context(), 0, h, 1<<16)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := s.Digest(b.Context(), record.Box{}, cuts); err != nil {
			b.Fatal(err)
		}
	}
	perRow(b, benchRows)
}
