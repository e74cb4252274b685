package store

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/sdk/record"
)

// stampedBatch gives a batch rising acqs from acq on, in runs and gaps of random length, and
// returns the next.
func stampedBatch(rng *rand.Rand, b *record.Batch, acq int64) int64 {
	b.AcqNs = nil
	for range b.Len() {
		b.AcqNs = append(b.AcqNs, acq)
		acq++
		if rng.IntN(3) == 0 {
			acq += rng.Int64N(1_000_000)
		}
	}
	return acq
}

// TestPutStamped brings acqs of long ago into stores of one and more shards, whose heads are sealed
// as they fill, and which are closed, or copied as a crash leaves them, and opened again meanwhile,
// and holds all views against the model. Then the store goes on with acqs of its own, above.
func TestPutStamped(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	rng := randomSource(t)
	for _, sealRows := range []int{300, 1 << 20} { // a copy of one that seals would be no crash
		opt := Options{Dir: t.TempDir(), Shards: 1 + rng.IntN(2)*3, SealRows: sealRows}
		s := openTest(t, opt)
		var m model
		sh := shape{cids: 3, mids: 20, moids: 2, caps: 30, varied: rng.IntN(2) == 0}
		acq := int64(1_000_000_000_000_000_000)
		for range 60 {
			b := sh.batch(rng, 1+rng.IntN(120), acq)
			next := stampedBatch(rng, b, acq)
			floor, err := s.PutStamped(t.Context(), b)
			if err != nil || floor != b.AcqNs[b.Len()-1]+1 {
				t.Fatalf("floor %d after %d, %v", floor, b.AcqNs[b.Len()-1], err)
			}
			for i := range b.Len() {
				m.rows = append(m.rows, modelRowOf(b, i))
			}
			acq = next
			switch again := rng.IntN(8); {
			case again == 0:
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = openTest(t, opt)
			case again == 1 && sealRows > 300: // the next acq must be a second above what is proven
				opt.Dir = filepath.Join(t.TempDir(), "copy")
				copyDir(t, s.opt.Dir, opt.Dir)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = openTest(t, opt)
				acq += acqtime.LeaseNs
			}
		}
		checkStamped(t, s, &m, rng, sh)
		if st := s.Stats(); sealRows == 300 && st.Segments == 0 {
			t.Error("nothing was sealed")
		}
		horizon, err := s.ExtendHorizon(t.Context())
		if err != nil || time.Now().UnixNano()-horizon > int64(time.Minute) {
			t.Fatalf("horizon %d, %v", horizon, err)
		}
		b := sh.batch(rng, 50, acq)
		parts := splitByShard(b, len(s.shards))
		res, err := s.Put(t.Context(), b, WriterSeq{})
		if err != nil || res.FirstAcqNs < horizon {
			t.Fatalf("%+v below %d, %v", res, horizon, err)
		}
		m.add(b, parts, res)
		if err := s.WaitForMerges(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkStamped(t, s, &m, rng, sh)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if report := mustCheck(t, opt.Dir); report.Damages > 0 {
			t.Fatalf("%+v", report)
		}
	}
}

func checkStamped(t *testing.T, s *Store, m *model, rng *rand.Rand, sh shape) {
	t.Helper()
	compare(t, "everything", scanRows(t, s, &record.Query{}), m.query(&record.Query{}))
	for range 60 {
		q := sh.query(rng, m)
		if err := q.Normalize(); err != nil {
			t.Fatal(err)
		}
		compare(t, "a box", scanRows(t, s, q), m.query(q))
	}
}

// TestPutStampedRefuses what would change what is below the horizon, and what is no order.
func TestPutStampedRefuses(t *testing.T) {
	s := openTest(t, Options{})
	put := func(acqs ...int64) (int64, error) {
		b := &record.Batch{}
		for _, acq := range acqs {
			b.AppendStamped(record.Key{CID: 1, AcqNs: acq}, nil)
		}
		return s.PutStamped(t.Context(), b)
	}
	refused := func(what string, acqs ...int64) {
		t.Helper()
		var e *record.InvalidError
		if _, err := put(acqs...); !errors.As(err, &e) || e.Part != "acq" {
			t.Errorf("%s: %v", what, err)
		}
	}
	const year = int64(365 * 24 * time.Hour)
	refused("zero", 0)
	refused("negative", -5)
	refused("the future", time.Now().UnixNano()+year)
	refused("falling", year+2, year+1)
	refused("the same twice", year, year)
	refused("the last in the future", year, 200*year)
	if floor, err := put(year, year+7); err != nil || floor != year+8 {
		t.Fatalf("floor %d, %v", floor, err)
	}
	refused("one that was given", year+7)
	refused("below one that was given", year+1)
	if _, err := put(year + 8); err != nil {
		t.Error(err)
	}
	if _, err := s.ExtendHorizon(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused("below the horizon", year+9)
	if floor, err := put(2 * year); err == nil || floor < 50*year {
		t.Errorf("below the horizon: floor %d, %v", floor, err)
	}
	b := batchOf(record.Key{CID: 1})
	if _, err := s.PutStamped(t.Context(), b); err == nil {
		t.Error("a batch without acqs is stored")
	}
	if rows := scanRows(t, s, &record.Query{}); len(rows) != 3 {
		t.Errorf("%d rows", len(rows))
	}
}
