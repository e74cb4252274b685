package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// examples returns the hex examples of FORMAT.md by name.
func examples(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("FORMAT.md")
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
	got, err := AppendPut(nil, b, WriterSeq{[16]byte{0: 0xaa, 15: 0xbb}, 3})
	f("put", got, err)
	var box record.Box
	box[record.CID] = record.RangeSet{record.At(7)}
	box[record.MID] = record.RangeSet{record.At(1000)}
	got, err = AppendErase(nil, box)
	f("erase", got, err)
	got, err = AppendRetention(nil, retention.Rule{CID: tenant(7), MaxCapAgeNs: int64(time.Hour)})
	f("retention", got, err)
	f("step", appendStep(nil, 1_700_000_000_000_000_000, hour), nil)
	got, err = AppendHold(nil, retention.Hold{Action: retention.HoldResume, CID: tenant(7),
		TimeNs: 1_700_000_000_000_000_000})
	f("hold", got, err)
	f("close", AppendClose(nil), nil)
	got, err = AppendRange(nil, exampleRange())
	f("range", got, err)
	split := &Split{slots.Range{To: 512}, slots.Range{From: 512, To: 1024}, 17, testGroup}
	got, err = AppendSplit(nil, split)
	f("split", got, err)
	f("within", AppendWithin(nil, split.Keep, AppendRelease(nil)), nil)
	f("applied", appliedEntry(acqtime.Position{Index: 42, NextNs: 1001}).Data, nil)
	f("lines", layout.LinesEntry(5).Data, nil)
	if len(found) != 0 {
		t.Errorf("examples that nobody reads: %v", found)
	}
}

// exampleRange is that of FORMAT.md.
func exampleRange() *Range {
	r := &Range{Of: testGroup, ToNs: 10, Rows: &record.Batch{},
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
	got, err := AppendPut(nil, &record.Batch{}, WriterSeq{})
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

// A replica must not take a command for wrong that others may know: it would have other rows.
func TestRowsOfAnotherVersionAreUnknown(t *testing.T) {
	var b record.Batch
	b.Append(record.Key{CID: 1, MID: 2, CapNs: 3}, []byte{4})
	put, err := AppendPut(nil, &b, WriterSeq{})
	if err != nil {
		t.Fatal(err)
	}
	for version, unknown := range map[byte]bool{1: true, 2: false, 3: true, 255: true, 0: false} {
		put[commandHeaderBytes] = version
		c := new(command)
		err := c.parse(put)
		if errors.Is(err, ErrUnknownCommand) != unknown || version == 0 && c.err == nil {
			t.Errorf("rows of version %d: %v, %v", version, err, c.err)
		}
		within := AppendWithin(nil, slots.Range{To: 5}, put)
		if err := new(command).parse(within); errors.Is(err, ErrUnknownCommand) != unknown {
			t.Errorf("rows of version %d within slots: %v", version, err)
		}
	}
}

// FuzzParseCommand reads any bytes: a command is encoded again as it was, or wrong, or unknown.
func FuzzParseCommand(f *testing.F) {
	put, _ := AppendPut(nil, batchOf(record.Key{MID: 1}, record.Key{MID: 2}), WriterSeq{Seq: 4})
	f.Add(put)
	var box record.Box
	box[record.Acq] = record.RangeSet{{From: math.MinInt64, To: 5}, {From: 7, To: 9}}
	erase, _ := AppendErase(nil, box)
	f.Add(erase)
	policy, _ := AppendRetention(nil, retention.Rule{CID: tenant(1), MaxAcqAgeNs: 5})
	f.Add(policy)
	f.Add(appendStep(nil, 5, 6))
	hold, _ := AppendHold(nil, retention.Hold{Action: retention.HoldUndo, All: true})
	f.Add(hold)
	f.Add(AppendClose(nil))
	f.Add(AppendRelease(nil))
	copied := exampleRange()
	part, _ := AppendRange(nil, copied)
	f.Add(part)
	copied.Rows = nil
	part, _ = AppendRange(nil, copied)
	f.Add(part)
	split, _ := AppendSplit(nil, &Split{slots.Range{To: 5}, slots.Range{From: 5, To: 9}, 3,
		testGroup})
	f.Add(split)
	f.Add(AppendWithin(nil, slots.Range{To: 5}, erase))
	f.Add(AppendWithin(nil, slots.Range{To: 5}, part))
	f.Add(AppendWithin(nil, slots.Range{To: 5}, put))
	f.Add([]byte{})
	c := new(command)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := c.parse(data); err != nil {
			if !errors.Is(err, ErrUnknownCommand) {
				t.Fatal(err)
			}
			return
		}
		if c.err != nil {
			return
		}
		again, err := c.encoded()
		if err != nil {
			t.Fatal(err)
		}
		other := new(command)
		if err := other.parse(again); err != nil || other.err != nil || other.kind != c.kind ||
			other.within != c.within || !reflect.DeepEqual(other.split, c.split) ||
			other.put.writer != c.put.writer || !reflect.DeepEqual(other.box, c.box) ||
			!reflect.DeepEqual(other.retention, c.retention) || other.step != c.step ||
			!reflect.DeepEqual(other.hold, c.hold) || c.kind == commandRange &&
			!reflect.DeepEqual(other.rng, c.rng) {
			t.Fatalf("%x is encoded as %x, %v: %+v, %+v", data, again, err, c, other)
		}
		if c.kind == commandPut && !bytes.Equal(again, data) {
			t.Fatalf("%x is encoded as %x", data, again)
		}
	})
}

// encoded is the command as its proposer encodes it.
func (c *command) encoded() ([]byte, error) {
	plain, err := c.plain()
	return AppendWithin(nil, c.within, plain), err
}

// plain is encoded without the slots that it is for.
func (c *command) plain() ([]byte, error) {
	switch c.kind {
	case commandSplit:
		return AppendSplit(nil, c.split)
	case commandPut:
		return AppendPut(nil, c.rows, c.put.writer)
	case commandErase:
		return AppendErase(nil, c.box)
	case commandPurge:
		return AppendPurge(nil, c.box)
	case commandRetention:
		return AppendRetention(nil, c.retention)
	case commandStep:
		return appendStep(nil, c.step.TimeNs, c.step.RanNs), nil
	case commandHold:
		return AppendHold(nil, c.hold)
	case commandClose:
		return AppendClose(nil), nil
	case commandRange:
		return AppendRange(nil, c.rng)
	case commandRelease:
		return AppendRelease(nil), nil
	}
	return nil, nil
}
