package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
)

// selectedChanges is what a feed of selected devices gives, done stupidly: of each row its device
// is looked up as of the acq of the row.
func (m *model) selectedChanges(
	box *record.Box, selector string, fromNs int64,
) (rows []modelRow, events []event.Event) {
	all, events := m.changes(box, fromNs)
	atNs, selected := int64(math.MinInt64), record.RangeSet(nil)
	descriptions := &model{events: m.events}
	for _, r := range m.rows {
		if r.key.MOID == record.DescriptionMOID && box[record.CID].Contains(int64(r.key.CID)) {
			descriptions.rows = append(descriptions.rows, r)
		}
	}
	for _, r := range all {
		if r.key.AcqNs != atNs {
			atNs = r.key.AcqNs
			selected = descriptions.selectDevices(&record.Query{View: record.ViewAsOf,
				AsOfAcqNs: atNs + 1, Select: selector, Box: *box})
		}
		if len(selected) > 0 && selected.Contains(r.key.MID) {
			rows = append(rows, r)
		}
	}
	return rows, events
}

// hideDescribed erases or purges descriptions among other rows.
func (sh shape) hideDescribed(t *testing.T, rng *rand.Rand, s *Store, m *model) {
	t.Helper()
	box := sh.query(rng, m).Box
	box[record.MOID] = nil
	hide, kind := s.Erase, event.Erase
	if rng.IntN(4) == 0 {
		hide, kind = s.Purge, event.Purge
	}
	acq, err := hide(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	m.events = append(m.events, event.Event{AcqNs: acq, Kind: kind, Box: box})
}

// checkSelectedFeed holds a feed, with slices of a random size, against the model: read at once,
// and resumed at positions that it was at.
func checkSelectedFeed(
	t *testing.T, what string, rng *rand.Rand, s *Store, m *model, box record.Box, selector string,
	fromNs int64,
) {
	t.Helper()
	want, wantEvents := m.selectedChanges(&box, selector, fromNs)
	open := func(fromNs int64) *Feed {
		f, err := s.FeedSelected(box, selector, false, fromNs)
		if err != nil {
			t.Fatal(err)
		}
		f.span = 1 + rng.IntN(300)
		return f
	}
	f := open(fromNs)
	part, partEvents := readSlices(t, rng, f, 1+rng.IntN(10))
	nextNs := f.NextNs()
	f.Close()
	part = slices.DeleteFunc(part, func(r modelRow) bool { return r.key.AcqNs >= nextNs })
	f = open(nextNs)
	defer f.Close()
	rest, restEvents := readSlices(t, rng, f, math.MaxInt)
	rows := append(part, rest...)
	sortByAcq(rows) // those with the same come in no order
	if !slices.Equal(rows, want) {
		t.Fatalf("%s: %d rows, want %d", what, len(rows), len(want))
	}
	if n := len(partEvents) + len(restEvents); n != len(wantEvents) {
		t.Fatalf("%s: %d events, want %d", what, n, len(wantEvents))
	}
}

// readSlices reads some slices, at most up to the horizon.
func readSlices(
	t *testing.T, rng *rand.Rand, f *Feed, slices int,
) (rows []modelRow, events []event.Event) {
	t.Helper()
	out := Slice{Divisor: 1 + rng.IntN(2*MaxDivisor)}
	for more := true; more && slices > 0; slices-- {
		var err error
		if more, err = f.Read(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		for i := range out.Rows.Len() {
			rows = append(rows, modelRowOf(&out.Rows, i))
		}
		events = append(events, out.Events...)
	}
	return rows, events
}

// follower is a feed that goes on while descriptions are hidden, or put below its position.
type follower struct {
	*Feed
	selector string
}

// check reads what came since, as a feed does that begins where the follower is.
func (f *follower) check(t *testing.T, rng *rand.Rand, m *model) {
	t.Helper()
	want, _ := m.selectedChanges(&f.box, f.selector, f.NextNs())
	at := f.NextNs()
	rows, _ := readSlices(t, rng, f.Feed, math.MaxInt)
	sortByAcq(rows)
	if !slices.Equal(rows, want) {
		t.Fatalf("%s followed from %d: %d rows, want %d", f.selector, at, len(rows), len(want))
	}
}

// checkSelectedAnswers holds a diff, versions and a digest of selected devices against the model.
func (sh shape) checkSelectedAnswers(t *testing.T, rng *rand.Rand, s *Store, m *model) {
	t.Helper()
	ask := sh.diff(rng, m)
	ask.Box[record.CID] = record.RangeSet{record.At(rng.Int64N(sh.cids))}
	ask.Select = randomSelector(rng)
	now := record.Query{Box: ask.Box, Select: ask.Select}
	then := now
	then.View, then.AsOfAcqNs = record.ViewAsOf, ask.ToNs
	byIDs := *ask
	byIDs.Select, byIDs.Box[record.MID] = "", m.selectDevices(&then)
	var want []modelDiff
	if len(byIDs.Box[record.MID]) > 0 {
		want = m.diff(&byIDs)
	}
	compareDiffs(t, fmt.Sprintf("%+v", ask), diffRows(t, s, ask), want)

	box := ask.Box
	var wantVersions []record.Version
	if box[record.MID] = m.selectDevices(&now); len(box[record.MID]) > 0 {
		wantVersions = m.versions(&box)
	}
	got, _, err := s.VersionsSelected(t.Context(), &ask.Box, ask.Select, 1<<30)
	if err != nil || !slices.EqualFunc(got, wantVersions, func(a, b record.Version) bool {
		return a.Key == b.Key && a.Latest == b.Latest && a.HiddenAcqNs == b.HiddenAcqNs
	}) {
		t.Fatalf("%+v: %d versions, want %d; %v", now, len(got), len(wantVersions), err)
	}

	horizon, err := s.ExtendHorizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cuts := []int64{math.MinInt64, min(ask.ToNs, horizon)}
	then.AsOfAcqNs = cuts[1]
	all, _, err := s.DigestSelected(t.Context(), ask.Box, ask.Select, cuts)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	if box[record.MID] = m.selectDevices(&then); len(box[record.MID]) > 0 {
		box[record.Acq] = record.RangeSet{{From: math.MinInt64, To: cuts[1]}}
		rows = len(m.query(&record.Query{Box: box}))
		box[record.Acq] = nil
		byIDs, _, err := s.Digest(t.Context(), box, cuts)
		if err != nil || byIDs[0] != all[0] {
			t.Fatalf("%+v: digest %+v, want %+v; %v", then, all[0], byIDs[0], err)
		}
	}
	if all[0].Rows != uint64(rows) {
		t.Fatalf("%+v: digest of %d rows, want %d", then, all[0].Rows, rows)
	}
}

func testSelectedFeeds(t *testing.T, sh shape, opt Options) {
	rng := randomSource(t)
	opt.Dir = t.TempDir()
	opt.Now, opt.retainEvery = leapingClock(), time.Hour
	s, _, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m := &model{}
	var follows *follower
	for step := range rounds.Of(80, 60, 40) {
		if follows == nil {
			follows = &follower{selector: randomSelector(rng)}
			follows.Feed, err = s.FeedSelected(record.Box{record.CID: {record.At(0)}},
				follows.selector, false, math.MinInt64)
			if err != nil {
				t.Fatal(err)
			}
		} else if rng.IntN(3) == 0 {
			follows.check(t, rng, m)
		}
		switch op := rng.IntN(22); {
		case op < 8:
			b := sh.batch(rng, 1+rng.IntN(150), time.Now().UnixNano())
			w := WriterSeq{ID: [16]byte{1}, Seq: uint64(step) + 1, Persistent: true}
			m.add(b, splitByShard(b, len(s.shards)), mustPut(t, s, b, w)) // some are malformed
		case op < 14:
			box := sh.query(rng, m).Box
			box[record.Acq] = nil
			box[record.CID] = record.RangeSet{record.At(rng.Int64N(sh.cids))}
			if rng.IntN(3) == 0 {
				box[record.MOID] = nil // descriptions, too
			}
			from := int64(math.MinInt64)
			if len(m.rows) > 0 && rng.IntN(4) > 0 {
				from = m.rows[rng.IntN(len(m.rows))].key.AcqNs + rng.Int64N(3) - 1
			}
			selector := randomSelector(rng)
			checkSelectedFeed(t, fmt.Sprintf("step %d: %s of %+v from %d", step, selector, box,
				from), rng, s, m, box, selector, from)
		case op < 16:
			sh.checkSelectedAnswers(t, rng, s, m)
		case op < 17:
			if err := s.WaitForMerges(t.Context()); err != nil {
				t.Fatal(err)
			}
		case op < 18:
			s, follows = crashAndReopen(t, s, &opt), nil
		case op < 20:
			sh.hideDescribed(t, rng, s, m)
		default:
			sh.putBelow(t, rng, s, m)
		}
	}
}

// TestSelectedFeedModel holds feeds, diffs, versions and digests of selected devices against a
// slice of everything, while devices enter and leave the selection.
func TestSelectedFeedModel(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	testSelectedFeeds(t, shape{cids: 2, mids: 5, moids: 2, caps: 20, described: true},
		Options{Shards: 4, SealRows: 900})
	testSelectedFeeds(t, shape{cids: 2, mids: 200, moids: 2, caps: 10, described: true},
		Options{Shards: 2, SealRows: 1500, Index: index.Options{BlockRows: 64}})
}
