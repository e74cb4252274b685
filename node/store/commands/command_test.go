package commands

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	testGroup = "00112233445566778899aabbccddeeff"
	hour      = int64(time.Hour)
)

func tenant(cid int32) *int32 { return &cid }

// examples returns the hex examples of FORMAT.md by name.
func examples(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "FORMAT.md"))
	if err != nil {
		t.Fatal(err)
	}
	found, name := map[string][]byte{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```hex "):
			name = strings.TrimPrefix(line, "```hex ")
		case strings.HasPrefix(line, "```"):
			name = ""
		case name != "":
			code, _, _ := strings.Cut(line, "#")
			b, err := hex.DecodeString(strings.Join(strings.Fields(code), ""))
			if err != nil {
				t.Fatalf("example %s: %q: %v", name, line, err)
			}
			found[name] = append(found[name], b...)
		}
	}
	return found
}

// The examples of FORMAT.md are what the writers write.
func TestFormatExamples(t *testing.T) {
	found := examples(t)
	f := func(name string, got []byte, err error) {
		t.Helper()
		if err != nil || len(found[name]) == 0 || !bytes.Equal(got, found[name]) {
			t.Errorf("%s: %x, %v, want %x", name, got, err, found[name])
		}
		delete(found, name)
	}
	b := &record.Batch{}
	b.Append(record.Key{CID: 7, MID: 1000, MOID: 3, CapNs: int64(time.Second)},
		[]byte{0, 0, 0, 0, 0, 0x80, 0x35, 0x40})
	got, err := AppendPut(nil, b, writers.Seq{ID: [16]byte{0: 0xaa, 15: 0xbb}, Seq: 3})
	f("put", got, err)
	var box record.Box
	box[record.CID] = record.RangeSet{record.At(7)}
	box[record.MID] = record.RangeSet{record.At(1000)}
	got, err = AppendErase(nil, box)
	f("erase", got, err)
	got, err = AppendRetention(nil, retention.Rule{CID: tenant(7), MaxCapAgeNs: int64(time.Hour)})
	f("retention", got, err)
	f("step", AppendStep(nil, 1_700_000_000_000_000_000, hour), nil)
	got, err = AppendHold(nil, retention.Hold{Action: retention.HoldResume, CID: tenant(7),
		TimeNs: 1_700_000_000_000_000_000})
	f("hold", got, err)
	f("horizon", AppendHorizon(nil), nil)
	got, err = AppendRange(nil, exampleRange())
	f("range", got, err)
	split := &Split{slots.Range{To: 512}, slots.Range{From: 512, To: 1024}, 17, testGroup}
	got, err = AppendSplit(nil, split)
	f("split", got, err)
	f("for-slots", AppendForSlots(nil, split.Keep, AppendPromote(nil)), nil)
	f("applied", layout.AppliedEntry(42, 1001).Data, nil)
	f("lines", layout.ManifestLinesEntry(5).Data, nil)
	if len(found) != 0 {
		t.Errorf("examples that nobody reads: %v", found)
	}
}

// exampleRange is that of FORMAT.md.
func exampleRange() *mirror.Range {
	r := &mirror.Range{Of: testGroup, ToNs: 10, Rows: &record.Batch{},
		Events: []event.Event{{AcqNs: 7, Kind: event.Erase}}}
	r.Box[record.CID] = record.RangeSet{record.At(7)}
	r.Rows.AppendStamped(record.Key{CID: 7, MID: 1000, MOID: 3, CapNs: int64(time.Second),
		AcqNs: 5}, []byte{0, 0, 0, 0, 0, 0x80, 0x35, 0x40})
	return r
}

// What is proposed is checked as what is put is.
func TestCommandsAreChecked(t *testing.T) {
	f := func(what string, got []byte, err error) {
		t.Helper()
		var invalid *record.InvalidError
		if !errors.As(err, &invalid) || len(got) != 0 {
			t.Errorf("%s: %x, %v", what, got, err)
		}
	}
	got, err := AppendPut(nil, &record.Batch{}, writers.Seq{})
	f("empty batch", got, err)
	var box record.Box
	box[record.CID] = record.RangeSet{{From: 2, To: 1}}
	got, err = AppendErase(nil, box)
	f("erase", got, err)
	got, err = AppendPurge(nil, box)
	f("purge", got, err)
	got, err = AppendRetention(nil, retention.Rule{MaxCapAgeNs: -1})
	f("retention", got, err)
}

// A copy takes no writers, so rows of a range are of none.
func TestRangeHasNoWriter(t *testing.T) {
	data, err := AppendRange(nil, exampleRange())
	if err != nil {
		t.Fatal(err)
	}
	rows := data[headerBytes+4+binary.LittleEndian.Uint32(data[headerBytes:]):]
	f := func(what string, at int, value byte) {
		t.Helper()
		was := rows[at]
		rows[at] |= value
		c := new(Command)
		if err := c.Parse(data); err != nil || !errors.Is(c.Err, ErrBad) {
			t.Errorf("%s: %v, %v", what, err, c.Err)
		}
		rows[at] = was
	}
	f("a writer", 8, 1)
	f("a persistent one", 60, 32)
}

// A replica must not take a command for wrong that others may know: it would have other rows.
func TestRowsOfAnotherVersionAreUnknown(t *testing.T) {
	var b record.Batch
	b.Append(record.Key{CID: 1, MID: 2, CapNs: 3}, []byte{4})
	put, err := AppendPut(nil, &b, writers.Seq{})
	if err != nil {
		t.Fatal(err)
	}
	for version, unknown := range map[byte]bool{1: true, 2: false, 3: true, 255: true, 0: false} {
		put[headerBytes] = version
		c := new(Command)
		err := c.Parse(put)
		if errors.Is(err, ErrUnknown) != unknown || version == 0 && c.Err == nil {
			t.Errorf("rows of version %d: %v, %v", version, err, c.Err)
		}
		forSlots := AppendForSlots(nil, slots.Range{To: 5}, put)
		if err := new(Command).Parse(forSlots); errors.Is(err, ErrUnknown) != unknown {
			t.Errorf("rows of version %d within slots: %v", version, err)
		}
	}
}

// FuzzParseCommand reads any bytes: a command is encoded again as it was, or wrong, or unknown.
func FuzzParseCommand(f *testing.F) {
	two := &record.Batch{}
	two.Append(record.Key{MID: 1}, nil)
	two.Append(record.Key{MID: 2}, []byte{5})
	put, _ := AppendPut(nil, two, writers.Seq{Seq: 4})
	f.Add(put)
	persistent, _ := AppendPut(nil, two, writers.Seq{ID: [16]byte{1}, Seq: 4, Persistent: true})
	f.Add(persistent)
	var box record.Box
	box[record.Acq] = record.RangeSet{{From: math.MinInt64, To: 5}, {From: 7, To: 9}}
	erase, _ := AppendErase(nil, box)
	f.Add(erase)
	policy, _ := AppendRetention(nil, retention.Rule{CID: tenant(1), MaxAcqAgeNs: 5})
	f.Add(policy)
	f.Add(AppendStep(nil, 5, 6))
	hold, _ := AppendHold(nil, retention.Hold{Action: retention.HoldUndo, All: true})
	f.Add(hold)
	f.Add(AppendHorizon(nil))
	f.Add(AppendPromote(nil))
	copied := exampleRange()
	part, _ := AppendRange(nil, copied)
	f.Add(part)
	copied.Rows = nil
	part, _ = AppendRange(nil, copied)
	f.Add(part)
	split, _ := AppendSplit(nil, &Split{slots.Range{To: 5}, slots.Range{From: 5, To: 9}, 3,
		testGroup})
	f.Add(split)
	f.Add(AppendForSlots(nil, slots.Range{To: 5}, erase))
	f.Add(AppendForSlots(nil, slots.Range{To: 5}, part))
	f.Add(AppendForSlots(nil, slots.Range{To: 5}, put))
	f.Add([]byte{})
	c := new(Command)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := c.Parse(data); err != nil {
			if !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
			return
		}
		if c.Err != nil {
			return
		}
		again, err := c.encoded()
		if err != nil {
			t.Fatal(err)
		}
		other := new(Command)
		if err := other.Parse(again); err != nil || other.Err != nil || other.Kind != c.Kind ||
			other.GroupSlots != c.GroupSlots || !reflect.DeepEqual(other.Split, c.Split) ||
			other.Writer != c.Writer || !reflect.DeepEqual(other.Box, c.Box) ||
			!reflect.DeepEqual(other.Retention, c.Retention) || other.Step != c.Step ||
			!reflect.DeepEqual(other.Hold, c.Hold) || c.Kind == KindRange &&
			!reflect.DeepEqual(other.Range, c.Range) {
			t.Fatalf("%x is encoded as %x, %v: %+v, %+v", data, again, err, c, other)
		}
		if c.Kind == KindPut && !bytes.Equal(again, data) {
			t.Fatalf("%x is encoded as %x", data, again)
		}
	})
}

// encoded is the command as its proposer encodes it.
func (c *Command) encoded() ([]byte, error) {
	plain, err := c.plain()
	return AppendForSlots(nil, c.GroupSlots, plain), err
}

// plain is encoded without the slots that it is for.
func (c *Command) plain() ([]byte, error) {
	switch c.Kind {
	case KindSplit:
		return AppendSplit(nil, c.Split)
	case KindPut:
		return AppendPut(nil, c.Rows, c.Writer)
	case KindErase:
		return AppendErase(nil, c.Box)
	case KindPurge:
		return AppendPurge(nil, c.Box)
	case KindRetention:
		return AppendRetention(nil, c.Retention)
	case KindStep:
		return AppendStep(nil, c.Step.TimeNs, c.Step.RanNs), nil
	case KindHold:
		return AppendHold(nil, c.Hold)
	case KindHorizon:
		return AppendHorizon(nil), nil
	case KindRange:
		return AppendRange(nil, c.Range)
	case KindPromote:
		return AppendPromote(nil), nil
	}
	return nil, nil
}
