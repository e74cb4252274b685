package wire

import (
	"reflect"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

func exampleDigestQuery() *DigestQuery {
	return &DigestQuery{Box: record.Box{record.CID: {record.At(7)}}, Rows: 65536,
		Cuts: []int64{0, 1_700_000_100_000_000_000}}
}

func exampleDigests() *Digests {
	return &Digests{HistoryChangedAcqNs: 1_700_000_060_000_000_000, Slices: []Digest{{FromNs: 0,
		ToNs: 1_700_000_100_000_000_000, Rows: 2, Bytes: 6,
		Sum: [16]byte{0x11, 0x22, 0x33, 15: 0x44}}}}
}

func exampleHistory() History {
	cid := int32(7)
	return History{
		Hiding: []Hiding{{AcqNs: 1_700_000_060_000_000_002, Purge: true,
			Box: record.Box{record.MID: {record.At(1004)}}}},
		Policies: []Policy{{CID: &cid, MaxCapAgeNs: 86_400_000_000_000, Held: true, Cap: Floors{
			Hidden:    Bound{1_699_913_660_000_000_000, 1_700_000_060_000_000_003},
			StepAcqNs: 1_700_000_060_000_000_003,
			Gone: []Removable{{Bound{1_699_900_000_000_000_000, 1_700_000_060_000_000_001},
				1_700_000_060_000_000_003, 1_700_000_060_000_000_000}}}}}}
}

func exampleRange() *Range {
	r := &Range{Of: [16]byte{0: 0x0a, 15: 0x0b}, Timeline: 0xa1,
		Box:  record.Box{record.CID: {record.At(7)}},
		ToNs: 1_700_000_100_000_000_000, Whole: true, History: exampleHistory(),
		Rows: new(record.Batch)}
	r.Rows.AppendStamped(record.Key{CID: 7, MID: 1001, MOID: 3,
		CapNs: 1_700_000_000_000_000_000, AcqNs: 1_700_000_060_000_000_000}, []byte("21.5"))
	return r
}

func exampleState() *State {
	return &State{Store: [16]byte{0: 0x0c, 15: 0x0d}, Of: [16]byte{0: 0x0a, 15: 0x0b},
		Box: record.Box{record.CID: {record.At(7)}}, HorizonNs: 1_700_000_100_000_000_000,
		Lineage: record.Lineage{{ID: 0xc1}, {ID: 0xc2, FromNs: 1_700_000_060_000_000_000}},
		Held:    0xa1, HeldNs: 1_700_000_100_000_000_000, History: exampleHistory()}
}

// testSyncExamples is the part of TestExamples for what copies need.
func testSyncExamples(
	same func(name string, got []byte, err error) []byte,
	read func(name string, got, want any, err error),
) {
	payload := func(frame []byte) []byte { return frame[frameHeaderBytes:] }
	var q DigestQuery
	frame := same("digest-query", AppendDigestQuery(nil, exampleDigestQuery()), nil)
	read("digest-query", &q, exampleDigestQuery(), ParseDigestQuery(frame, &q))
	var a Digests
	frame = same("digests", AppendDigests(nil, exampleDigests()), nil)
	read("digests", &a, exampleDigests(), ParseDigests(payload(frame), &a))
	var r Range
	frame, err := AppendRange(nil, exampleRange())
	read("range", &r, exampleRange(), ParseRange(same("range", frame, err), &r))
	var s State
	frame = same("state", AppendState(nil, exampleState()), nil)
	read("state", &s, exampleState(), ParseState(payload(frame), &s))
}

// limited runs a parser and wants no more memory to be taken than a multiple of the input, and what
// a batch of this many rows takes.
func limited(t *testing.T, payload []byte, rows uint64, parse func() error) (err error) {
	t.Helper()
	const perRow = 2 * (5*8 + 4 + 8 + 8*maxWords)
	limit := 256<<10 + rows*perRow + (maxRatio+16)*uint64(len(payload))
	if rows == 0 {
		limit = 256<<10 + 16*uint64(len(payload))
	}
	if got := allocated(func() { err = parse() }); got > limit {
		t.Errorf("%d bytes allocate %d, at most %d: %v", len(payload), got, limit, err)
	}
	return err
}

func FuzzDigestQuery(f *testing.F) {
	f.Add(AppendDigestQuery(nil, exampleDigestQuery())[frameHeaderBytes:])
	f.Add(AppendDigestQuery(nil, selectedDigest())[frameHeaderBytes:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		var q, again DigestQuery
		frame := AppendFrame(nil, FrameDigestQuery, payload)
		err := limited(t, payload, 0, func() error { return ParseDigestQuery(frame, &q) })
		if err != nil {
			return
		}
		err = ParseDigestQuery(AppendDigestQuery(nil, &q), &again)
		if err != nil || !reflect.DeepEqual(q, again) {
			t.Fatalf("%+v became %+v, %v", q, again, err)
		}
	})
}

func FuzzDigests(f *testing.F) {
	f.Add(AppendDigests(nil, exampleDigests())[frameHeaderBytes:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		var a, again Digests
		if limited(t, payload, 0, func() error { return ParseDigests(payload, &a) }) != nil {
			return
		}
		err := ParseDigests(AppendDigests(nil, &a)[frameHeaderBytes:], &again)
		if err != nil || !reflect.DeepEqual(a, again) {
			t.Fatalf("%+v became %+v, %v", a, again, err)
		}
	})
}

func FuzzRange(f *testing.F) {
	frame, err := AppendRange(nil, exampleRange())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frame[frameHeaderBytes:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		var r, again Range
		frame := AppendFrame(nil, FrameRange, payload)
		err := limited(t, payload, MaxRows, func() error { return ParseRange(frame, &r) })
		if err != nil {
			return
		}
		frame, err = AppendRange(nil, &r)
		if err != nil {
			t.Fatal(err)
		}
		if err := ParseRange(frame, &again); err != nil || (r.Rows == nil) != (again.Rows == nil) ||
			r.Rows != nil && !equalBatches(r.Rows, again.Rows) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
		r.Rows, again.Rows = nil, nil
		if !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v became %+v", r, again)
		}
	})
}

func FuzzState(f *testing.F) {
	f.Add(AppendState(nil, exampleState())[frameHeaderBytes:])
	cluster := exampleState()
	cluster.Groups = 0x1234
	f.Add(AppendState(nil, cluster)[frameHeaderBytes:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		var s, again State
		if limited(t, payload, 0, func() error { return ParseState(payload, &s) }) != nil {
			return
		}
		err := ParseState(AppendState(nil, &s)[frameHeaderBytes:], &again)
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Fatalf("%+v became %+v, %v", s, again, err)
		}
	})
}

// TestSyncHostile cuts frames anywhere, and changes what must not be.
func TestSyncHostile(t *testing.T) {
	rangeFrame, err := AppendRange(nil, exampleRange())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		frame []byte
		parse func(payload []byte) error
	}{
		"digest query": {AppendDigestQuery(nil, exampleDigestQuery()), func(p []byte) error {
			return ParseDigestQuery(AppendFrame(nil, FrameDigestQuery, p), new(DigestQuery))
		}},
		"digests": {AppendDigests(nil, exampleDigests()), func(p []byte) error {
			return ParseDigests(p, new(Digests))
		}},
		"range": {rangeFrame, func(p []byte) error {
			return ParseRange(AppendFrame(nil, FrameRange, p), new(Range))
		}},
		"state": {AppendState(nil, exampleState()), func(p []byte) error {
			return ParseState(p, new(State))
		}},
	} {
		payload := c.frame[frameHeaderBytes:]
		cuts := 0
		for n := range payload {
			if c.parse(payload[:n:n]) == nil {
				cuts++ // a range may end where its rows begin
			}
		}
		if cuts > 0 && (name != "range" || cuts > 1) {
			t.Errorf("%s can be cut in %d places", name, cuts)
		}
		if c.parse(append(payload[:len(payload):len(payload)], 0)) == nil {
			t.Errorf("%s takes a byte more", name)
		}
	}
	r := exampleRange()
	r.Rows.AcqNs = nil
	frame, err := AppendRange(nil, r)
	if err != nil || ParseRange(frame, new(Range)) == nil {
		t.Errorf("rows that are not stamped are read, %v", err)
	}
}
