package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/record"
)

// allocated returns how many bytes f allocates. Other goroutines count, too.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// parseLimit is the most that reading a payload may allocate: a multiple of its size, and for
// a batch the memory of as many rows as it announces, 65,536 at most.
func parseLimit(name string, payload []byte) uint64 {
	const slack = 256 << 10 // messages of errors, and what other goroutines do
	size := uint64(len(payload))
	rowsAt := map[string]int{"put": 24, "rows": 0}
	at, isBatch := rowsAt[name]
	if !isBatch {
		return slack + 8*size
	}
	rows := uint64(0)
	if len(payload) >= at+4 {
		rows = min(uint64(binary.LittleEndian.Uint32(payload[at:])), MaxRows)
	}
	const perRow = 5*8 + 4 + 8 + 8*maxWords // keys, offset, scratch, words of width 0
	return slack + 2*rows*perRow + (maxRatio+16)*size
}

// within reads a payload and wants no more memory to be taken than it may.
func within(t *testing.T, name string, payload []byte) (err error) {
	t.Helper()
	got := allocated(func() { err = parse(name, payload) })
	if limit := parseLimit(name, payload); got > limit {
		t.Errorf("%s of %d bytes allocates %d, at most %d: %v", name, len(payload), got, limit, err)
	}
	return err
}

// announce returns a batch payload that announces rows of strides and ends after columns columns of
// width 0.
func announce(rows uint32, flags, codec byte, stride uint32, columns int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, rows)
	b = append(b, flags, codec, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, stride)
	return append(b, make([]byte, 10*columns)...)
}

// TestNothingIsAllocatedOnWord announces much in few bytes.
func TestNothingIsAllocatedOnWord(t *testing.T) {
	f := func(payload []byte, kind Kind, want string) {
		t.Helper()
		err := within(t, "rows", payload)
		if kind == 0 && err != nil || kind != 0 && (kindOf(err) != kind ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %v with %q", err, kind, want)
		}
	}
	size := binary.LittleEndian.AppendUint32
	f(announce(MaxRows, flagAcq, payloadWords, 8*maxWords, 5+maxWords), 0, "")
	f(announce(MaxRows, flagAcq, payloadNone, 0, 5), 0, "")
	f(announce(MaxRows, flagAcq, payloadRaw, 0, 6), 0, "")
	f(announce(1<<32-1, flagAcq, payloadNone, 0, 5), KindBadFrame, "4294967295 rows")
	f(announce(MaxRows, flagAcq, payloadRaw, 1024, 5), KindBadFrame, "67108864 announced")
	f(announce(MaxRows, flagAcq, payloadRaw, 1025, 5), KindTooLarge, "67174400 payload bytes")
	f(size(announce(MaxRows, flagAcq, payloadLZ4, 1024, 5), 64<<20), KindBadFrame, "cannot hold")
	f(size(announce(MaxRows, flagAcq, payloadLZ4, 1024, 5), 5), KindBadFrame, "sizes say")
	f(announce(MaxRows, flagAcq, payloadLZ4, 1024, 5), KindBadFrame, "")
	f(announce(1, flagAcq, payloadRaw, record.MaxPayloadBytes, 5), KindBadFrame, "announced")
	f(announce(1, flagAcq, payloadRaw, record.MaxPayloadBytes+1, 5), KindTooLarge, "33554433")
	sizes := announce(MaxRows, flagAcq, payloadRaw, 0, 6)
	sizes[len(sizes)-8] = 0xff // the base of the sizes
	f(sizes, KindBadFrame, "announced")
	sizes[len(sizes)-6] = 0xff
	f(sizes, KindTooLarge, "payload bytes")
	sizes[len(sizes)-1] = 0xff // a negative size
	f(sizes, KindTooLarge, "payload 0")

	counts := func(name string, at int, count uint32) {
		t.Helper()
		payload := bytes.Clone(exampleFrames(t)[name][frameHeaderBytes:])
		binary.LittleEndian.PutUint32(payload[at:], count)
		if err := within(t, name, payload); kindOf(err) != KindBadFrame {
			t.Errorf("%s, %d at %d: %v", name, count, at, err)
		}
	}
	groups := make([]byte, 4+1<<20) // 29,127 groups of nothing, and 4 bytes
	for _, count := range []uint32{29_127, 29_128, 1 << 20, 1<<32 - 1} {
		binary.LittleEndian.PutUint32(groups, count)
		if err := within(t, "groups", groups); kindOf(err) != KindBadFrame {
			t.Errorf("%d groups: %v", count, err)
		}
	}
	for _, count := range []uint32{1 << 20, 1 << 28, 1<<31 - 1, 1<<32 - 1} {
		counts("query", 28, count)  // ranges of cid
		counts("query", 112, count) // bytes of a name
		counts("box", 8, count)
		counts("groups", 0, count)
		counts("groups", 36, count) // bytes of a result
		counts("end", 56, count)    // bytes of a reason
		counts("error", 8, count)   // bytes of a message
	}
}

// TestReaderAllocates believes no length: what a frame announces is read in steps.
func TestReaderAllocates(t *testing.T) {
	header := AppendFrame(nil, FrameRows, nil)
	f := func(announced uint32, sent int) {
		t.Helper()
		binary.LittleEndian.PutUint32(header[4:], announced)
		stream := append(bytes.Clone(header), make([]byte, sent)...)
		got := allocated(func() {
			r := NewReader(bytes.NewReader(stream), MaxFramePayload)
			if _, _, err := r.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d announced, %d sent: %v", announced, sent, err)
			}
		})
		if limit := uint64(8*sent + 4*readStep); got > limit {
			t.Errorf("%d announced, %d sent: %d allocated, at most %d", announced, sent, got, limit)
		}
	}
	f(MaxFramePayload, 0)
	f(MaxFramePayload, 1)
	f(MaxFramePayload, readStep)
	f(MaxFramePayload, 4<<20)
	f(1, 0)
}

// TestFrameLimits are payloads around the reader's limit.
func TestFrameLimits(t *testing.T) {
	f := func(size, limit int, want Kind) {
		t.Helper()
		frame := AppendFrame([]byte("before"), FrameEnd, make([]byte, size))[len("before"):]
		_, payload, rest, err := ParseFrame(append(frame, "after"...), limit)
		if kindOf(err) != want || want == 0 && (len(payload) != size || string(rest) != "after") {
			t.Errorf("%d bytes, limit %d: %d bytes, %v", size, limit, len(payload), err)
		}
		if cap(payload) != len(payload) {
			t.Error("appending to a payload would change what follows the frame")
		}
		if _, _, err = NewReader(bytes.NewReader(frame), limit).Next(); kindOf(err) != want {
			t.Errorf("%d bytes, reader's limit %d: %v", size, limit, err)
		}
	}
	f(0, 0, 0)
	f(1, 0, KindTooLarge)
	f(100, 100, 0)
	f(101, 100, KindTooLarge)
	f(readStep, MaxFramePayload, 0)
	f(readStep+1, MaxFramePayload, 0)
	header := AppendFrame(nil, FrameEnd, nil)
	binary.LittleEndian.PutUint32(header[4:], MaxFramePayload+1)
	if _, _, _, err := ParseFrame(header, MaxFramePayload); kindOf(err) != KindTooLarge {
		t.Errorf("over the greatest limit: %v", err)
	}
	binary.LittleEndian.PutUint32(header[4:], MaxFramePayload)
	if _, _, _, err := ParseFrame(header, MaxFramePayload); kindOf(err) != KindBadFrame {
		t.Errorf("of the greatest size, and cut: %v", err)
	}
}

// TestWritersKeepLimits writes nothing that readers refuse.
func TestWritersKeepLimits(t *testing.T) {
	f := func(b *record.Batch, want string) {
		t.Helper()
		frame, err := AppendRows(nil, b)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			return
		}
		var got record.Batch
		if err != nil || len(frame) > MaxFramePayload+frameHeaderBytes {
			t.Fatalf("frame of %d bytes, %v", len(frame), err)
		}
		if err := ParseRows(frame[frameHeaderBytes:], &got); err != nil || !equalBatches(&got, b) {
			t.Errorf("read again differs, %v", err)
		}
	}
	of := func(sizes ...int) *record.Batch {
		b := new(record.Batch)
		for i, size := range sizes {
			b.AppendStamped(record.Key{MID: int64(i)}, make([]byte, size))
		}
		return b
	}
	const most = record.MaxPayloadBytes
	f(of(0, most, 1, most-1), "")
	f(of(most+1), "over 33554432 bytes")
	f(of(1, most+1), "over 33554432 bytes")
	f(of(most, most, 1), "67108865 payload bytes")
	f(of(make([]int, MaxRows)...), "")
	f(of(make([]int, MaxRows+1)...), "65537 rows")
	f(of(), "0 rows")
}

// TestManyGroups do not fit one frame: as many are written as it takes.
func TestManyGroups(t *testing.T) {
	result := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	var want []Group
	for i := range int64(80) {
		want = append(want, Group{MID: i, Records: 1, Result: result})
	}
	f := func(groups []Group, frames int) {
		t.Helper()
		r := NewReader(bytes.NewReader(AppendGroups(nil, groups, false)), MaxFramePayload)
		var got []Group
		for range frames {
			kind, payload, err := r.Next()
			if err != nil || kind != FrameGroups {
				t.Fatalf("frame of type %d, %v", kind, err)
			}
			if got, err = ParseGroups(payload, false, got); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("after %d frames: %v", frames, err)
		}
		if len(got) != len(groups) || len(got) > 0 && !reflect.DeepEqual(got, groups) {
			t.Errorf("%d groups differ from %d", len(got), len(groups))
		}
	}
	f(nil, 1)
	f(want[:1], 1)
	f(want[:71], 1)
	f(want, 2)
}

// TestLongTexts are cut where a letter ends.
func TestLongTexts(t *testing.T) {
	f := func(text string) {
		t.Helper()
		var e Error
		frame := AppendError(nil, &Error{Kind: KindInternal, Message: text, Part: text,
			Reason: text})
		if err := ParseError(frame[frameHeaderBytes:], &e); err != nil {
			t.Fatal(err)
		}
		var end End
		err := ParseEnd(AppendEnd(nil, &End{Reason: text})[frameHeaderBytes:], &end)
		if err != nil || end.Reason != e.Reason {
			t.Errorf("reason of %d bytes, %v", len(end.Reason), err)
		}
		for _, got := range []string{e.Message, e.Part, e.Reason} {
			if !strings.HasPrefix(text, got) || utf8.ValidString(got) != utf8.ValidString(text) ||
				len(got) > maxTextBytes || len(got) < min(len(text), maxTextBytes-3) {
				t.Errorf("%d bytes of %d", len(got), len(text))
			}
		}
	}
	f("")
	f(strings.Repeat("a", maxTextBytes))
	f(strings.Repeat("a", maxTextBytes+1))
	f(strings.Repeat("ä", maxTextBytes))
	f("a" + strings.Repeat("ä", maxTextBytes))
	f("ab" + strings.Repeat("\U0001f40d", maxTextBytes))
	f(strings.Repeat("\x80", 2*maxTextBytes))
}
