package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func TestVersionsOfManySources(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := openSpread(t, 5, 3)
	s.fill(rng, 8)
	found, changed := 0, 0
	for i := 0; i < fewer(40) || found == 0 || changed == 0; i++ {
		if i == 2000 {
			t.Fatalf("%d versions and %d differences", found, changed)
		}
		var box record.Box
		if rng.IntN(2) == 0 {
			box[record.CID] = record.RangeSet{record.At(rng.Int64N(3))}
		}
		from := rng.Int64N(3000)
		box[record.MID] = record.RangeSet{{From: from, To: from + 1 + rng.Int64N(300)}}
		want, got := s.versions(s.whole, box), s.versions(s.near(), box)
		if !slices.Equal(got, want) {
			t.Fatalf("%v: %d versions, want %d, or others", box, len(got), len(want))
		}
		found += len(got)
		ask := record.Diff{Box: box, FromNs: s.last - rng.Int64N(int64(time.Minute)),
			ToNs: record.Acq.Max()}
		want, got = s.differences(s.whole, ask), s.differences(s.near(), ask)
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: %d differences, want %d, or others", ask, len(got), len(want))
		}
		changed += len(got)
	}
}

// versions returns versions as texts, without the acqs of what hides them: each source has its own.
func (s *spread) versions(n *Node, box record.Box) (out []string) {
	s.Helper()
	all, end, err := n.Versions(s.Context(), &box)
	if err != nil || !end.Complete || end.Rows != uint64(len(all)) {
		s.Fatalf("%+v, %v", end, err)
	}
	for _, v := range all {
		out = append(out, fmt.Sprint(v.Key, v.Payload, v.Tomb, v.Latest, v.HiddenAcqNs != 0))
	}
	return out
}

func (s *spread) differences(n *Node, ask record.Diff) (out []string) {
	s.Helper()
	end, err := n.Diff(s.Context(), &ask, func(d *record.Differences) error {
		for i := range d.Len() {
			one := d.At(i)
			out = append(out, fmt.Sprintf("%v %+v %+v", one.Kind, one.Old, one.New))
		}
		return nil
	})
	if err != nil || !end.Complete || end.Rows != uint64(len(out)) {
		s.Fatalf("%d of %+v, %v", len(out), end, err)
	}
	slices.Sort(out)
	return out
}

func TestExplanationOfManySources(t *testing.T) {
	s := openSpread(t, 5, 3)
	s.fill(rand.New(rand.NewPCG(1, 2)), 4)
	for _, st := range s.stores {
		if err := st.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	q := &record.Query{Limit: 3}
	want, err := s.whole.Explain(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	got, err := dial(t, s.near()).Explain(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if got.Found != want.Found || got.Shards != 5 || len(got.Sources) != 5 ||
		!slices.Equal(got.Ignored, []string{"limit"}) || len(got.Segments) != 0 {
		t.Errorf("%+v, want %+v", got, want)
	}
	segments, found := 0, uint64(0)
	var names []string
	for _, x := range got.Sources {
		segments, found = segments+len(x.Segments), found+x.Found
		names = append(names, x.Source)
	}
	slices.Sort(names)
	if segments == 0 || found != want.Found || !slices.Equal(names, []string{
		"group 1 of this node", "group 4 of this node", "node n1: group 2 of this node",
		"node n1: group 5 of this node", "node n2: group 3 of this node"}) {
		t.Errorf("%q, %d segments, %d rows", names, segments, found)
	}
	count := &record.Query{Aggregate: record.PluginCall{Name: "count"}}
	// The second time each source keeps its states, and once more those of what was merged
	// meanwhile.
	for try := 1; ; try++ {
		if _, _, err := dial(t, s.near()).Aggregate(t.Context(), count); err != nil {
			t.Fatal(err)
		}
		got, err = dial(t, s.near()).Explain(t.Context(), count)
		if err != nil || got.Partials < 5 || got.Found != want.Found {
			t.Fatalf("%d parts, %+v, %v", got.Partials, got, err)
		}
		if got.PartialsKnown == got.Partials {
			return
		}
		if try == 20 {
			t.Fatalf("%d of %d partials are known, %+v", got.PartialsKnown, got.Partials, got)
		}
	}
}

func TestHorizonOfManySources(t *testing.T) {
	s := openSpread(t, 4, 2)
	least := int64(math.MaxInt64)
	for _, st := range s.stores {
		s.clock.Add(int64(time.Second))
		ns, err := st.ExtendHorizon(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, ns)
	}
	got, err := dial(t, s.near()).Horizon(t.Context(), nil)
	if err != nil || got < least || got > s.clock.Load() {
		t.Errorf("horizon %d, want %d to %d, %v", got, least, s.clock.Load(), err)
	}
	var box record.Box
	box[record.CID], box[record.MID] = record.RangeSet{record.At(1)}, record.RangeSet{record.At(7)}
	x, err := s.near().Explain(t.Context(), &record.Query{Box: box})
	if err != nil || len(x.Sources) != 1 {
		t.Errorf("one device is asked of %v, %v", x.Sources, err)
	}
	// One source that does not report its horizon: more may come there.
	if err := s.nodes[1].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ns, err := s.near().engine.Horizon(t.Context(), request.Options{AllowPartial: true},
		&record.Box{}); err == nil {
		t.Errorf("a horizon %d without one of the sources", ns)
	}
}

func TestEraseAndDigestOfManySources(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	s := openSpread(t, 5, 3)
	s.fill(rng, 4)
	same := func(what string) {
		t.Helper()
		q := &record.Query{View: record.ViewLatest, Order: record.OrderKey}
		want, _ := s.rows(s.whole, q)
		got, _ := s.rows(s.near(), q)
		if !slices.Equal(got, want) || len(got) == 0 {
			t.Fatalf("%s: %d rows, want %d, or others", what, len(got), len(want))
		}
		cuts := []int64{0, s.last - int64(3*time.Second), s.last + 1}
		wantDigests, _, err := s.whole.Digest(t.Context(), record.Box{}, cuts, 0)
		if err != nil {
			t.Fatal(err)
		}
		gotDigests, _, err := s.near().Digest(t.Context(), record.Box{}, cuts, 0)
		if err != nil || !slices.Equal(gotDigests, wantDigests) || wantDigests[0].Rows == 0 {
			t.Fatalf("%s: digests %v, want %v, %v", what, gotDigests, wantDigests, err)
		}
	}
	same("at first")
	for _, purge := range []bool{false, true} {
		box := record.Box{record.MOID: {record.At(1)}, record.CID: {record.At(map[bool]int64{
			true: 1}[purge])}}
		if purge {
			s.purge(box)
		} else {
			s.erase(box)
		}
		same(fmt.Sprint("purge ", purge))
	}
	rows := &wire.DigestQuery{Cuts: []int64{0, s.last}, Rows: 9}
	got, err := dial(t, s.near()).Digest(t.Context(), rows)
	if err != nil || len(got.Slices) < 3 {
		t.Fatalf("%d slices, %v", len(got.Slices), err)
	}
	cuts := &wire.DigestQuery{Cuts: []int64{0}}
	for _, d := range got.Slices {
		if d.Rows > 9 {
			t.Errorf("a slice has %d rows, at most 9", d.Rows)
		}
		cuts.Cuts = append(cuts.Cuts, d.ToNs)
	}
	want, err := dial(t, s.whole).Digest(t.Context(), cuts)
	if err != nil || !slices.Equal(got.Slices, want.Slices) {
		t.Errorf("%d slices of many sources, %d of one, or others: %v", len(got.Slices),
			len(want.Slices), err)
	}
}
