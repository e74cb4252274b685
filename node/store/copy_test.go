package store

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// copier copies a store as a program beside it would, and is interrupted now and then.
type copier struct {
	rng *rand.Rand
	box record.Box
}

// ranges cuts what the source has from an acq on into ranges of random sizes.
func (c *copier) ranges(t *testing.T, from *Store, fromNs int64) []mirror.Range {
	t.Helper()
	st, err := from.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	q := &record.Query{Box: c.box}
	q.Box[record.Acq] = record.RangeSet{{From: fromNs, To: max(st.HorizonNs, fromNs+1)}}
	rows := scanRows(t, from, q)
	slices.SortFunc(rows, func(a, b modelRow) int {
		return cmp.Compare(a.key.AcqNs, b.key.AcqNs)
	})
	var all []mirror.Range
	for fromNs < st.HorizonNs {
		r := mirror.Range{Of: st.Store, Box: c.box, FromNs: fromNs, ToNs: st.HorizonNs, Whole: true,
			Policies: st.Policies, Rows: &record.Batch{}}
		if n := c.rng.IntN(500); n < len(rows) {
			r.ToNs, r.Whole = max(rows[n].key.AcqNs, fromNs+1), false
		}
		for len(rows) > 0 && rows[0].key.AcqNs < r.ToNs {
			if rows[0].tomb {
				r.Rows.AppendTomb(rows[0].key)
				r.Rows.AcqNs = append(r.Rows.AcqNs[:r.Rows.Len()-1], rows[0].key.AcqNs)
			} else {
				r.Rows.AppendStamped(rows[0].key, []byte(rows[0].payload))
			}
			rows = rows[1:]
		}
		for _, e := range st.Events {
			if e.AcqNs >= r.FromNs && e.AcqNs < r.ToNs {
				r.Events = append(r.Events, e)
			}
		}
		all = append(all, r)
		fromNs = r.ToNs
	}
	return all
}

// follow copies until nothing is left. The copy is killed between any two steps, also between those
// of one range, and ranges come twice.
func (c *copier) follow(t *testing.T, from, to *Store, opt *Options) *Store {
	t.Helper()
	at := int64(0)
	st, err := to.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.Of != "" {
		at = st.HorizonNs
	}
	for _, r := range c.ranges(t, from, at) {
		switch c.rng.IntN(12) {
		case 0:
			half := r
			err := to.onCommitter(t.Context(), func() {
				if to.checkContinues(&half) == nil {
					_, _ = to.copyEvents(&half)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			to = crashAndReopen(t, to, opt)
		case 1:
			to = crashAndReopen(t, to, opt)
		case 2:
			if err := to.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		case 3:
			to = reopen(t, to, *opt)
		}
		for range 1 + c.rng.IntN(2) {
			h, err := to.PutRange(t.Context(), &r)
			if err != nil || h != r.ToNs {
				t.Fatalf("horizon %d, %v; want %d", h, err, r.ToNs)
			}
		}
		if h, err := to.ExtendHorizon(t.Context()); err != nil || h != r.ToNs {
			t.Fatalf("horizon %d, %v; want %d", h, err, r.ToNs)
		}
	}
	return to
}

// same wants the copy to answer as the model of the source does, to queries of all kinds.
func (c *copier) same(t *testing.T, sh shape, m *model, to *Store) {
	t.Helper()
	inside := &model{events: m.events}
	for _, r := range m.rows {
		if c.box.Contains(r.key) {
			inside.rows = append(inside.rows, r)
		}
	}
	for range 10 {
		q := sh.query(c.rng, m)
		compare(t, fmt.Sprintf("copy: %+v", q), scanRows(t, to, q), inside.query(q))
	}
	compare(t, "all of the copy", scanRows(t, to, &record.Query{}), inside.query(&record.Query{}))
}

func testCopy(t *testing.T, sh shape, source, target Options, box record.Box) {
	sh.neverShown = true
	rng := randomSource(t)
	source.Dir, target.Dir = t.TempDir(), t.TempDir()
	source.Now, source.retainEvery = leapingClock(), time.Hour
	target.Now, target.retainEvery = leapingClock(), time.Hour
	from, to := openTest(t, source), openTest(t, target)
	defer func() { _, _ = from.Close(), to.Close() }()
	c := &copier{rng: rng, box: box}
	if _, err := to.ExtendHorizon(t.Context()); err != nil { // a lease that the copy revokes
		t.Fatal(err)
	}
	m := &model{}
	for range 60 {
		switch op := rng.IntN(20); {
		case op < 10:
			b := sh.batch(rng, 1+rng.IntN(400), time.Now().UnixNano())
			m.add(b, splitByShard(b, len(from.shards)), mustPut(t, from, b, WriterSeq{}))
		case op < 12:
			sh.erase(t, rng, from, m)
		case op < 13:
			sh.purge(t, rng, from, m)
		case op < 14:
			sh.retain(t, rng, from, m)
		case op < 15:
			from = crashAndReopen(t, from, &source)
		case op < 16:
			mustSettle(t, from)
		default:
			to = c.follow(t, from, to, &target)
			c.same(t, sh, m, to)
		}
	}
	to = c.follow(t, from, to, &target)
	c.same(t, sh, m, to)
	mustSettle(t, to)
	c.same(t, sh, m, to)
	checkPurged(t, to, &model{rows: slices.DeleteFunc(m.rows, func(r modelRow) bool {
		return !box.Contains(r.key)
	}), events: m.events})
	if err := to.PromoteCopy(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := sh.batch(rng, 100, time.Now().UnixNano())
	m.add(b, splitByShard(b, len(to.shards)), mustPut(t, to, b, WriterSeq{}))
	c.box = record.Box{}
	if len(box[record.CID]) == 0 {
		c.same(t, sh, m, to)
	}
	_, err := to.PutRange(t.Context(), &mirror.Range{Of: "x", ToNs: 1})
	if !errors.Is(err, ErrNotCopied) {
		t.Fatalf("a promoted copy takes a range: %v", err)
	}
}

func TestCopyFewKeys(t *testing.T) {
	rounds.NotUnderRace(t, "TestModelLong copies, too")
	testCopy(t, shape{cids: 2, mids: 5, moids: 2, caps: 20}, Options{Shards: 4, SealRows: 1500},
		Options{Shards: 1, SealRows: 2000}, record.Box{})
}

func TestCopyManyKeys(t *testing.T) {
	rounds.NotUnderRace(t, "TestModelLong copies, too")
	testCopy(t, shape{cids: 50, mids: 5000, moids: 5, caps: 10000, varied: true},
		Options{SealRows: 2500}, Options{Shards: 8, SealRows: 700,
			Index: index.Options{BlockRows: 64}}, record.Box{})
}

func TestCopyOfBox(t *testing.T) {
	testCopy(t, shape{cids: 3, mids: 50, moids: 3, caps: 300}, Options{Shards: 2, SealRows: 1500},
		Options{Shards: 2, SealRows: 1000}, boxOf(record.CID, 1, 2))
}

// rangeOf is a range of one row.
func rangeOf(of string, fromNs, toNs, acqNs int64) *mirror.Range {
	r := &mirror.Range{Of: of, FromNs: fromNs, ToNs: toNs, Rows: &record.Batch{}}
	r.Rows.AppendStamped(record.Key{CID: 1, MID: 2, AcqNs: acqNs}, []byte("x"))
	return r
}

func TestCopyRefuses(t *testing.T) {
	s := openTest(t, Options{})
	refuse := func(want error, r *mirror.Range) {
		t.Helper()
		before, err := s.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutRange(t.Context(), r); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
		after, err := s.State(t.Context())
		if err != nil || after.Of != before.Of || len(after.Events) != len(before.Events) ||
			after.Of != "" && after.HorizonNs != before.HorizonNs {
			t.Fatalf("%+v became %+v, %v", before, after, err)
		}
	}
	refuse(ErrNotCopied, rangeOf("a", 1, 9, 3)) // the copy does not begin at 0
	if _, err := s.PutRange(t.Context(), rangeOf("a", 0, 10, 3)); err != nil {
		t.Fatal(err)
	}
	refuse(ErrNotCopied, rangeOf("b", 10, 20, 13)) // another store
	refuse(ErrNotCopied, rangeOf("a", 11, 20, 13)) // a gap
	refuse(ErrNotCopied, rangeOf("a", 9, 20, 13))  // an overlap
	other := rangeOf("a", 10, 20, 13)
	other.Box = boxOf(record.CID, 1, 2)
	refuse(ErrNotCopied, other)
	late := rangeOf("a", 10, 20, 13)
	late.Events = []event.Event{{AcqNs: 12, Kind: event.Erase}}
	if err := s.onCommitter(t.Context(), func() { _, _ = s.copyEvents(late) }); err != nil {
		t.Fatal(err)
	}
	early := rangeOf("a", 10, 20, 13)
	early.Events = []event.Event{{AcqNs: 11, Kind: event.Erase}}
	refuse(ErrNotCopied, early)
	_, err := s.Put(t.Context(), batchOf(record.Key{}), WriterSeq{})
	if !errors.Is(err, ErrIsCopy) {
		t.Fatalf("a copy takes a put: %v", err)
	}
	if _, err := s.Erase(t.Context(), record.Box{}); !errors.Is(err, ErrIsCopy) {
		t.Fatalf("a copy takes an erase: %v", err)
	}
	err = s.SetRetention(t.Context(), retention.Rule{MaxCapAgeNs: 1})
	if !errors.Is(err, ErrIsCopy) {
		t.Fatalf("a copy takes a policy: %v", err)
	}
	own := openTest(t, Options{})
	if err := own.PromoteCopy(t.Context()); !errors.Is(err, ErrNoCopy) {
		t.Fatalf("a stand-alone store is promoted: %v", err)
	}
	mustPut(t, own, batchOf(record.Key{}), WriterSeq{})
	s = own
	refuse(ErrNotCopied, rangeOf("a", 0, 9, 3)) // it has a row
}

func TestCopyRefusesRanges(t *testing.T) {
	s := openTest(t, Options{})
	f := func(change func(r *mirror.Range)) {
		t.Helper()
		r := rangeOf("a", 0, 10, 3)
		r.Rows.AppendStamped(record.Key{CID: 1, MID: 3, AcqNs: 5}, nil)
		change(r)
		var invalid *record.InvalidError
		if _, err := s.PutRange(t.Context(), r); !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	f(func(r *mirror.Range) { r.Of = "" })
	f(func(r *mirror.Range) { r.FromNs = -1 })
	f(func(r *mirror.Range) { r.ToNs = 0 })
	f(func(r *mirror.Range) { r.ToNs = math.MaxInt64 })
	f(func(r *mirror.Range) { r.ToNs = 5 })
	f(func(r *mirror.Range) { r.FromNs = 4 })
	f(func(r *mirror.Range) { r.Rows.AcqNs[1] = 3 })
	f(func(r *mirror.Range) { r.Rows.AcqNs = nil })
	f(func(r *mirror.Range) { r.Rows.CID[0] = -1 })
	f(func(r *mirror.Range) { r.Box = boxOf(record.CID, 2, 3) })
	f(func(r *mirror.Range) { r.Box = boxOf(record.Acq, 0, 9) })
	f(func(r *mirror.Range) { r.Box = boxOf(record.MID, 3, 3) })
	f(func(r *mirror.Range) { r.Events = []event.Event{{AcqNs: 10, Kind: event.Erase}} })
	f(func(r *mirror.Range) { r.Events = []event.Event{{AcqNs: 4, Kind: event.Retention}} })
	f(func(r *mirror.Range) {
		r.Events = []event.Event{{AcqNs: 4, Kind: event.Erase}, {AcqNs: 4, Kind: event.Purge}}
	})
	f(func(r *mirror.Range) {
		r.Events = []event.Event{{AcqNs: 4, Kind: event.Erase, Box: boxOf(record.MID, 3, 3)}}
	})
	f(func(r *mirror.Range) { r.Policies = []retention.Policy{{MaxCapAgeNs: -1}} })
	f(func(r *mirror.Range) { r.Policies = make([]retention.Policy, retention.MaxPolicies+1) })
}

// A copy stays one, at its horizon, over restarts, snapshots and backups; what is restored from a
// backup of it is a stand-alone store.
func TestCopyIsKept(t *testing.T) {
	opt := Options{Dir: t.TempDir()}
	s := openTest(t, opt)
	for at := range int64(5) {
		if _, err := s.PutRange(t.Context(), rangeOf("a", 10*at, 10*at+10, 10*at+3)); err != nil {
			t.Fatal(err)
		}
	}
	stands := func(s *Store) {
		t.Helper()
		st, err := s.State(t.Context())
		if err != nil || st.Of != "a" || st.HorizonNs != 50 || st.Empty {
			t.Fatalf("%+v, %v", st, err)
		}
		if n := len(scanRows(t, s, &record.Query{})); n != 5 {
			t.Fatalf("%d rows, want 5", n)
		}
	}
	s = everywhere(t, s, opt, stands)
	snapshot := t.TempDir() + "/snapshot"
	if _, err := s.Snapshot(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	backup, restored := t.TempDir(), t.TempDir()+"/restored"
	if _, err := archive.Backup(t.Context(), s, backup, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Restore(t.Context(), backup, restored, 0); err != nil {
		t.Fatal(err)
	}
	copied := openTest(t, Options{Dir: snapshot})
	stands(copied)
	if _, err := copied.PutRange(t.Context(), rangeOf("a", 50, 60, 53)); err != nil {
		t.Fatal(err)
	}
	stands(s)
	own := openTest(t, Options{Dir: restored})
	if st, err := own.State(t.Context()); err != nil || st.Of != "" || st.HorizonNs <= 50 {
		t.Fatalf("%+v, %v", st, err)
	}
	mustPut(t, own, batchOf(record.Key{}), WriterSeq{})
}

// copyTimeVariable says how long TestCopyLong goes on: 20m in make test-long.
const copyTimeVariable = "PENTAD_COPY_FOR"

// TestCopyLong copies with ever new keys and options until its time is over.
func TestCopyLong(t *testing.T) {
	rounds.NotUnderRace(t, "TestModelLong copies, too")
	limit := time.Second
	if text := os.Getenv(copyTimeVariable); text != "" && !testing.Short() {
		var err error
		if limit, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", copyTimeVariable, err)
		}
	}
	rng := randomSource(t)
	for end := time.Now().Add(limit); time.Now().Before(end) && !t.Failed(); {
		sh, source := randomModel(rng)
		_, target := randomModel(rng)
		box := record.Box{}
		if rng.IntN(3) == 0 {
			box = boxOf(record.CID, 0, 1+rng.Int64N(sh.cids))
		}
		t.Run("", func(t *testing.T) {
			t.Logf("%+v %+v %+v %+v", sh, source, target, box)
			testCopy(t, sh, source, target, box)
		})
	}
}
