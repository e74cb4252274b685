package store

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/sdk/record"
)

// copyingReplica applies a log of ranges at its own pace, and is interrupted now and then.
type copyingReplica struct {
	*Store
	t   *testing.T
	rng *rand.Rand
	opt Options
}

func newCopyingReplica(t *testing.T, rng *rand.Rand) *copyingReplica {
	t.Helper()
	opt := Options{Dir: t.TempDir(), Group: testGroup, Shards: 1, SealRows: 700,
		retainEvery: time.Hour}
	r := &copyingReplica{openTest(t, opt), t, rng, opt}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// advance applies some of the next commands.
func (r *copyingReplica) advance(log []Command) {
	r.t.Helper()
	switch r.rng.IntN(8) {
	case 0:
		r.Store = crashAndReopen(r.t, r.Store, &r.opt)
	case 1:
		if err := r.Seal(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	case 2:
		r.interrupt(log)
	case 3:
		r.install()
	}
	from := int(r.Applied())
	to := min(len(log), from+r.rng.IntN(10))
	if _, err := r.Apply(r.t.Context(), log[from:to]); err != nil {
		r.t.Fatal(err)
	}
}

// interrupt does the first half of a range, and then the process is killed.
func (r *copyingReplica) interrupt(log []Command) {
	r.t.Helper()
	at := int(r.Applied())
	var c loggedCommand
	if at == len(log) || c.parse(log[at].Data) != nil || c.Kind != commands.KindRange {
		return
	}
	err := r.onCommitter(r.t.Context(), func() {
		if refused, err := r.followInLog(c.Range); refused == nil && err == nil {
			_, _ = r.copyEvents(c.Range.Above(r.lastApplied().NextNs))
		}
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Store = crashAndReopen(r.t, r.Store, &r.opt)
	if int(r.Applied()) != at {
		r.t.Fatalf("applied %d after half of command %d", r.Applied(), at+1)
	}
}

// install goes on from a snapshot, as another replica would.
func (r *copyingReplica) install() {
	r.t.Helper()
	dir := filepath.Join(r.t.TempDir(), "snapshot")
	_, err := r.Snapshot(r.t.Context(), dir)
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.opt.Dir = dir
	r.Store = openTest(r.t, r.opt)
}

// The same ranges make the same copy of every replica, whatever comes between: the same as the
// source, and after its promotion one that goes on with acqs above all that it ever leased.
func TestReplicasCopyAlike(t *testing.T) {
	rounds.NotUnderRace(t, "TestReplicasAreAlike runs replicas, too")
	rng := randomSource(t)
	source := Options{Dir: t.TempDir(), Now: leapingClock(), retainEvery: time.Hour}
	from := openTest(t, source)
	defer func() { _ = from.Close() }()
	all := []*copyingReplica{newCopyingReplica(t, rng), newCopyingReplica(t, rng)}
	sh := shape{cids: 3, mids: 5, moids: 3, caps: 50, neverShown: true}
	m, c := &model{}, &copier{rng: rng}
	var log []Command
	add := func(clockNs int64, data []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, Command{Index: uint64(len(log)) + 1, ClockNs: clockNs, Data: data})
	}
	late := time.Now().Add(time.Hour).UnixNano()
	add(late, commands.AppendHorizon(nil), nil) // a lease that the copy revokes
	end := int64(0)
	for range 40 {
		switch op := rng.IntN(10); {
		case op < 5:
			b := sh.batch(rng, 1+rng.IntN(400), time.Now().UnixNano())
			m.add(b, splitByShard(b, len(from.shards)), mustPut(t, from, b, WriterSeq{}))
		case op < 6:
			sh.erase(t, rng, from, m)
		case op < 7:
			sh.purge(t, rng, from, m)
		case op < 8:
			sh.retain(t, rng, from, m)
		default:
			// From an earlier run that was cut short other ranges are there in part.
			for _, r := range c.ranges(t, from, max(0, end-rng.Int64N(int64(time.Hour)))) {
				if len(log) == 1 && r.FromNs != 0 {
					t.Fatal("the first range does not begin at 0")
				}
				if r.FromNs > end {
					break
				}
				data, err := commands.AppendRange(nil, &r)
				add(int64(rng.IntN(100)), data, err)
				if end = max(end, r.ToNs); rng.IntN(30) == 0 {
					break
				}
			}
			add(late, commands.AppendHorizon(nil), nil)
			add(late, putOf(t, 1), nil)
		}
		for _, r := range all {
			r.advance(log)
		}
	}
	for _, r := range c.ranges(t, from, end) {
		data, err := commands.AppendRange(nil, &r)
		add(1, data, err)
		end = r.ToNs
	}
	for _, r := range all {
		for r.Applied() < uint64(len(log)) {
			r.advance(log)
		}
		if h, err := r.ExtendHorizon(t.Context()); err != nil || h != end {
			t.Fatalf("horizon %d, %v; want %d", h, err, end)
		}
		c.same(t, sh, m, r.Store)
		r.promoted(late)
	}
}

// promoted makes the copy a replica of its own.
func (r *copyingReplica) promoted(late int64) {
	r.t.Helper()
	if out := apply(r.t, r.Store, late, putOf(r.t, 1)); !errors.Is(out[0].Err, ErrIsCopy) {
		r.t.Fatalf("a copy takes a put: %+v", out)
	}
	promote := commands.AppendPromote(nil)
	out := apply(r.t, r.Store, 5, promote, putOf(r.t, 1), promote)
	if out[0].Err != nil || out[1].Put.FirstAcqNs < late || !errors.Is(out[2].Err, ErrNoCopy) {
		r.t.Fatalf("promoted: %+v, not above %d", out, late)
	}
	r.Store = crashAndReopen(r.t, r.Store, &r.opt)
	if h, err := r.ExtendHorizon(r.t.Context()); err != nil || h != out[1].Put.FirstAcqNs+1 {
		r.t.Fatalf("horizon %d, %v after %+v", h, err, out)
	}
}

// A range that does not fit changes nothing but the index.
func TestReplicasRefuseRanges(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir(), Group: testGroup, Shards: 1})
	defer func() { _ = s.Close() }()
	other := "ffeeddccbbaa99887766554433221100"
	f := func(what string, r *mirror.Range, want error) {
		t.Helper()
		data, err := commands.AppendRange(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		before := s.lastApplied().NextNs
		out := apply(t, s, 5, data)
		if !errors.Is(out[0].Err, want) || want != nil && s.lastApplied().NextNs != before {
			t.Errorf("%s: %+v, horizon %d after %d", what, out, s.lastApplied().NextNs, before)
		}
	}
	f("from the middle", rangeOf(other, 10, 20, 15), ErrNotCopied)
	f("the first", rangeOf(other, 0, 10, 5), nil)
	f("of another store", rangeOf(testGroup, 10, 20, 15), ErrNotCopied)
	f("with a gap", rangeOf(other, 11, 20, 15), ErrNotCopied)
	boxed := rangeOf(other, 10, 20, 15)
	boxed.Rows, boxed.Box[record.CID] = nil, record.RangeSet{record.At(1)}
	f("of another box", boxed, ErrNotCopied)
	f("that reaches back", rangeOf(other, 5, 20, 15), nil)
	once := &mirror.Range{Of: other, ToNs: 1}
	f("long past", once, nil)
	if h, err := s.ExtendHorizon(t.Context()); err != nil || h != 20 {
		t.Errorf("horizon %d, %v", h, err)
	}
	_, err := commands.AppendRange(nil, rangeOf("x", 0, 10, 5))
	var invalid *record.InvalidError
	if !errors.As(err, &invalid) {
		t.Errorf("of no store: %v", err)
	}
}
