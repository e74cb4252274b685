package wire

import (
	"math"
	"reflect"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

const exampleClosed = int64(1_700_000_100_000_000_000)

// exampleChange erases a device.
func exampleChange() *Change {
	c := &Change{AcqNs: exampleClosed - 1, ClosedNs: exampleClosed, Kind: ChangeErase}
	c.Box[record.CID] = record.RangeSet{record.At(7)}
	c.Box[record.MID] = record.RangeSet{record.At(1001)}
	return c
}

// exampleSlotsChange is exampleChange in the first of four groups.
func exampleSlotsChange() *Change {
	c := exampleChange()
	c.ToSlot = 4096
	return c
}

func FuzzSlotsChange(f *testing.F) {
	seedWith(f, "slots-change")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var c, again Change
		if within(t, "slots-change", payload) != nil {
			return
		}
		if err := ParseSlotsChange(payload, &c); err != nil {
			t.Fatal(err)
		}
		frame := AppendChange(nil, &c)
		err := ParseSlotsChange(frame[frameHeaderBytes:], &again)
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%+v read again is %+v, %v", c, again, err)
		}
	})
}

func TestSlotsOfChanges(t *testing.T) {
	for _, slots := range [][2]uint32{{1, 1}, {2, 1}, {0, numSlots + 1}} {
		c := exampleChange()
		c.FromSlot, c.ToSlot = slots[0], slots[1]
		frame := AppendChange(nil, c)
		err := ParseSlotsChange(frame[frameHeaderBytes:], new(Change))
		if kindOf(err) != KindBadFrame {
			t.Errorf("slots %d: %v", slots, err)
		}
	}
}

func FuzzChange(f *testing.F) {
	seedWith(f, "change")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var c, again Change
		if within(t, "change", payload) != nil {
			return
		}
		if err := ParseChange(payload, &c); err != nil {
			t.Fatal(err)
		}
		frame := AppendChange(nil, &c)
		err := ParseChange(frame[frameHeaderBytes:], &again)
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%+v read again is %+v, %v", c, again, err)
		}
	})
}

func FuzzClosed(f *testing.F) {
	seedWith(f, "closed")
	f.Fuzz(func(t *testing.T, payload []byte) {
		closed, err := ParseClosed(payload)
		if (err == nil) != (len(payload) == 8) {
			t.Fatalf("%d bytes: %v", len(payload), err)
		}
		frame := AppendClosed(nil, closed)
		if again, err := ParseClosed(frame[frameHeaderBytes:]); err != nil || again != closed {
			t.Fatalf("%d read again is %d, %v", closed, again, err)
		}
	})
}

// Kinds that no one knows and boxes that are none are refused.
func TestChangeRefuses(t *testing.T) {
	for _, kind := range []ChangeKind{0, 4, 255} {
		c := exampleChange()
		c.Kind = kind
		frame := AppendChange(nil, c)
		err := ParseChange(frame[frameHeaderBytes:], new(Change))
		if kindOf(err) != KindBadFrame {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
	c := exampleChange()
	c.Box[record.Cap] = record.RangeSet{{From: 5, To: math.MinInt64}}
	frame := AppendChange(nil, c)
	if err := ParseChange(frame[frameHeaderBytes:], new(Change)); err == nil {
		t.Error("a reversed range is taken")
	}
}
