package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

func exampleDiff() *record.Diff {
	d := &record.Diff{FromNs: 1_700_000_100_000_000_000, ToNs: 1_700_000_200_000_000_000}
	d.Box[record.CID] = record.RangeSet{record.At(7)}
	return d
}

func exampleDifferences() *record.Differences {
	d := &record.Differences{Kind: record.DiffChanged}
	k := record.Key{CID: 7, MID: 1001, MOID: 3, CapNs: 1_700_000_000_000_000_000,
		AcqNs: 1_700_000_060_000_000_000}
	d.Old.AppendStamped(k, []byte("21.5"))
	k.AcqNs = 1_700_000_160_000_000_000
	d.New.AppendStamped(k, []byte("21.6"))
	return d
}

func exampleAdded() *record.Differences {
	d := &record.Differences{Kind: record.DiffAdded}
	d.New.AppendStamped(exampleDifferences().New.Key(0), nil)
	return d
}

func exampleVersions() []record.Version {
	k := record.Key{CID: 7, MID: 1001, MOID: 3, CapNs: 1_700_000_000_000_000_000,
		AcqNs: 1_700_000_060_000_000_000}
	first := record.Version{Record: record.Record{Key: k, Payload: []byte("21.5")},
		HiddenAcqNs: 1_700_000_100_000_000_000}
	k.AcqNs = 1_700_000_160_000_000_000
	return []record.Version{first,
		{Record: record.Record{Key: k, Payload: []byte("21.6")}, Latest: true}}
}

// versionFrames are the frames of this file by the names of their examples.
func versionFrames(t testing.TB) map[string][]byte {
	t.Helper()
	differences, err := AppendDifferences(nil, exampleDifferences())
	if err != nil {
		t.Fatal(err)
	}
	added, err := AppendDifferences(nil, exampleAdded())
	if err != nil {
		t.Fatal(err)
	}
	versions, err := AppendVersions(nil, exampleVersions())
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"diff": AppendDiff(nil, exampleDiff()), "differences": differences,
		"differences-added": added, "versions": versions}
}

// parseVersioned reads a payload as what its name says.
func parseVersioned(name string, payload []byte) (any, error) {
	switch name {
	case "diff":
		var d record.Diff
		return &d, ParseDiff(AppendFrame(nil, FrameDiff, payload), &d)
	case "versions":
		return ParseVersions(payload)
	default:
		var d record.Differences
		return &d, ParseDifferences(payload, &d)
	}
}

// TestVersionExamples holds the examples of PROTOCOL.md against what is written and read here.
func TestVersionExamples(t *testing.T) {
	found := examples(t)
	diff := exampleDiff()
	if err := diff.Normalize(); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"diff": diff, "differences": exampleDifferences(),
		"differences-added": exampleAdded(), "versions": exampleVersions()}
	for name, frame := range versionFrames(t) {
		if !bytes.Equal(frame, found[name]) {
			t.Errorf("%s: written %x, the document has %x", name, frame, found[name])
		}
		got, err := parseVersioned(name, frame[frameHeaderBytes:])
		if d, ok := got.(*record.Differences); ok && d.Kind == record.DiffAdded {
			d.Old, d.New.Data = record.Batch{}, nil // memory without content
		}
		if err != nil || !reflect.DeepEqual(got, want[name]) {
			t.Errorf("%s: read %+v, %v, want %+v", name, got, err, want[name])
		}
	}
}

// TestVersionFramesBent cuts and bends payloads under a checksum that is right.
func TestVersionFramesBent(t *testing.T) {
	for name, frame := range versionFrames(t) {
		payload := frame[frameHeaderBytes:]
		for at := range payload {
			if _, err := parseVersioned(name, payload[:at]); kindOf(err) == 0 {
				t.Errorf("%s cut at %d: %v", name, at, err)
			}
			for bit := range 8 {
				bent := bytes.Clone(payload)
				bent[at] ^= 1 << bit
				_, _ = parseVersioned(name, bent) // must not panic; some are good payloads, too
			}
		}
		if _, err := parseVersioned(name, append(bytes.Clone(payload), 0)); kindOf(err) == 0 {
			t.Errorf("%s with a byte more: %v", name, err)
		}
	}
}

// TestVersionFramesRefused reads payloads of which one field is wrong.
func TestVersionFramesRefused(t *testing.T) {
	frames := versionFrames(t)
	f := func(name string, at int, with string, want string) {
		t.Helper()
		payload := bytes.Clone(frames[name][frameHeaderBytes:])
		copy(payload[(len(payload)+at)%len(payload):], with)
		if _, err := parseVersioned(name, payload); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s with %x at %d: %v, want %q", name, with, at, err, want)
		}
	}
	f("diff", 7, "\x7f", "lies before")
	f("differences", 0, "\x00", "kind 0x0")
	f("differences", 0, "\x04", "kind 0x4")
	f("differences", 7, "\x01", "zeros follow")
	f("differences", 8, "\xff\xff", "end inside the old records")
	f("versions", 0, "\xff\xff", "end inside their records")
	f("versions", -1, "\x04", "beyond the 2 records")
	unstamped := &record.Differences{Kind: record.DiffAdded, New: *plainPut().Batch}
	if frame, err := AppendDifferences(nil, unstamped); err != nil || !strings.Contains(
		ParseDifferences(frame[frameHeaderBytes:], unstamped).Error(), "carry no acq") {
		t.Errorf("records without acq are read, %v", err)
	}
	two := exampleDifferences()
	two.New.AppendStamped(two.New.Key(0), []byte("21.7"))
	frame, err := AppendDifferences(nil, two)
	if err == nil {
		err = ParseDifferences(frame[frameHeaderBytes:], new(record.Differences))
	}
	if err == nil || !strings.Contains(err.Error(), "1 old records beside 2") {
		t.Errorf("a record without its old one: %v", err)
	}
	hidden := exampleVersions()
	hidden[1].HiddenAcqNs = -1
	if frame, err = AppendVersions(nil, hidden); err == nil {
		_, err = ParseVersions(frame[frameHeaderBytes:])
	}
	if err == nil || !strings.Contains(err.Error(), "hidden by acq") {
		t.Errorf("an event before time began: %v", err)
	}
	var d record.Diff
	acq := exampleDiff()
	acq.Box[record.Acq] = record.RangeSet{record.At(1)}
	if err := ParseDiff(AppendDiff(nil, acq), &d); err == nil {
		t.Error("a diff with a range of acq is read")
	}
}

// versionedLimit is the most that reading a payload may allocate: a multiple of its size, and the
// memory of as many rows as its batches announce, up to 65,536 each.
func versionedLimit(payload []byte) uint64 {
	const perRow = 5*8 + 4 + 8 + 8*maxWords + 96
	rows := uint64(2 * MaxRows)
	if len(payload) < 20 {
		rows = 0
	}
	return 256<<10 + 2*rows*perRow + (maxRatio+16)*uint64(len(payload))
}

// FuzzVersionFrames reads any bytes as each of the frames, and writes again what it could read.
func FuzzVersionFrames(f *testing.F) {
	for name, frame := range versionFrames(f) {
		f.Add(name, frame[frameHeaderBytes:])
	}
	f.Fuzz(func(t *testing.T, name string, payload []byte) {
		var got any
		var err error
		took := allocated(func() { got, err = parseVersioned(name, payload) })
		if limit := versionedLimit(payload); took > limit {
			t.Errorf("%s of %d bytes allocates %d, at most %d", name, len(payload), took, limit)
		}
		if err != nil {
			return
		}
		var frame []byte
		switch v := got.(type) {
		case *record.Diff:
			frame = AppendDiff(nil, v)
		case []record.Version:
			frame, err = AppendVersions(nil, v)
		case *record.Differences:
			frame, err = AppendDifferences(nil, v)
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseVersioned(name, frame[frameHeaderBytes:])
		if err != nil || !equalVersioned(got, again) {
			t.Fatalf("%+v read again is %+v, %v", got, again, err)
		}
	})
}

func equalVersioned(a, b any) bool {
	switch a := a.(type) {
	case *record.Differences:
		b := b.(*record.Differences)
		return a.Kind == b.Kind && equalBatches(&a.New, &b.New) &&
			(a.Kind == record.DiffAdded || equalBatches(&a.Old, &b.Old))
	case []record.Version:
		b := b.([]record.Version)
		for i := range a {
			if a[i].Key != b[i].Key || a[i].HiddenAcqNs != b[i].HiddenAcqNs || a[i].Latest !=
				b[i].Latest || !bytes.Equal(a[i].Payload, b[i].Payload) || a[i].Tomb != b[i].Tomb {
				return false
			}
		}
		return len(a) == len(b)
	}
	return reflect.DeepEqual(a, b)
}

// TestVersionFramesAnnounce announces many rows in few bytes.
func TestVersionFramesAnnounce(t *testing.T) {
	batch := announce(MaxRows, flagAcq, payloadRaw, 1024, 5)
	sized := binary.LittleEndian.AppendUint32(nil, uint32(len(batch)))
	for name, payload := range map[string][]byte{
		"versions":          append(sized, batch...),
		"differences-added": append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, batch...),
		"differences": append(append([]byte{2, 0, 0, 0, 0, 0, 0, 0}, sized...),
			append(batch, batch...)...),
	} {
		var err error
		took := allocated(func() { _, err = parseVersioned(name, payload) })
		if kindOf(err) != KindBadFrame || took > 32<<20 {
			t.Errorf("%s: %v, and %d bytes were allocated", name, err, took)
		}
	}
}

// selectedBox, selectedDiff and selectedDigest are frames with a selector at their end.
func selectedBox() *Box {
	return &Box{Box: record.Box{record.CID: {record.At(7)}}, Select: "type=meter"}
}

func selectedDiff() *record.Diff {
	return &record.Diff{Box: record.Box{record.CID: {record.At(7)}}, FromNs: 1, ToNs: 5,
		Select: "type=meter"}
}

func selectedDigest() *DigestQuery {
	q := exampleDigestQuery()
	q.Select = "type=meter"
	return q
}

// TestSelectorsAtTheEnd reads frames with selectors as they were written, and none that is cut,
// empty or malformed.
func TestSelectorsAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		parse func(frame []byte) error
	}{
		"box": {AppendBox(nil, selectedBox()), func(frame []byte) error {
			var b Box
			err := ParseBox(frame, &b)
			return errors.Join(err, isMeter(b.Select))
		}},
		"diff": {AppendDiff(nil, selectedDiff()), func(frame []byte) error {
			var d record.Diff
			err := ParseDiff(frame, &d)
			return errors.Join(err, isMeter(d.Select))
		}},
		"digest": {AppendDigestQuery(nil, selectedDigest()), func(frame []byte) error {
			var q DigestQuery
			err := ParseDigestQuery(frame, &q)
			return errors.Join(err, isMeter(q.Select))
		}},
	} {
		if err := c.parse(c.frame); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		payload := c.frame[frameHeaderBytes:]
		for _, bent := range [][]byte{payload[:len(payload)-1], payload[:len(payload)-10],
			append(slices.Clone(payload), 0)} {
			if err := c.parse(AppendFrame(nil, FrameType(c.frame[2]), bent)); err == nil {
				t.Errorf("%s: %x was read", name, bent)
			}
		}
	}
	bad := selectedBox()
	bad.Select = "type="
	if err := ParseBox(AppendBox(nil, bad), new(Box)); err == nil {
		t.Error("a malformed selector was read")
	}
	bad.Select, bad.Box[record.CID] = "type=meter", nil
	if err := ParseBox(AppendBox(nil, bad), new(Box)); err == nil {
		t.Error("a selector without a tenant was read")
	}
}

func isMeter(selector string) error {
	if selector != "type=meter" {
		return fmt.Errorf("the selector is %q", selector)
	}
	return nil
}
