package wire

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestBatchesRoundTrip writes and reads batches of every shape; the reader's memory is reused.
func TestBatchesRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var put Put
	var rows record.Batch
	for i := range 800 {
		want := Put{Seq: rng.Uint64(), Batch: randomBatch(rng, false)}
		want.Writer[i%16] = byte(i)
		want.Persistent = want.Writer != [16]byte{} && rng.IntN(2) == 0
		frame, err := AppendPut(nil, &want)
		if err != nil {
			t.Fatalf("seed %d, %d: %v", seed, i, err)
		}
		if err := ParsePut(frame, &put); err != nil || put.Seq != want.Seq ||
			put.Writer != want.Writer || put.Persistent != want.Persistent ||
			!equalBatches(put.Batch, want.Batch) {
			t.Fatalf("seed %d, put %d differs, %v", seed, i, err)
		}
		stamped := randomBatch(rng, true)
		if frame, err = AppendRows(nil, stamped); err != nil {
			t.Fatalf("seed %d, %d: %v", seed, i, err)
		}
		err = ParseRows(frame[frameHeaderBytes:], &rows)
		if err != nil || !equalBatches(&rows, stamped) {
			t.Fatalf("seed %d, rows %d differ, %v", seed, i, err)
		}
		if shape := rows.CheckShape(); shape != nil {
			t.Fatalf("seed %d, rows %d: %v", seed, i, shape)
		}
	}
}

func TestQueriesRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		want := randomQuery(rng)
		var got record.Query
		sameQuery(t, &got, ParseQuery(AppendQuery(nil, want), &got), want)
	}
}

// TestDamagedFrames cuts frames at every byte and flips every bit: nothing is read from them.
func TestDamagedFrames(t *testing.T) {
	frames := exampleFrames(t)
	for name, frame := range frames {
		for at := range frame {
			if _, _, _, err := ParseFrame(frame[:at],
				MaxFramePayload); kindOf(err) != KindBadFrame {
				t.Errorf("%s cut at %d: %v", name, at, err)
			}
			for bit := range 8 {
				bent := bytes.Clone(frame)
				bent[at] ^= 1 << bit
				if _, _, _, err := ParseFrame(bent, MaxFramePayload); kindOf(err) == 0 {
					t.Errorf("%s, bit %d of byte %d: %v", name, bit, at, err)
				}
			}
		}
	}
}

func kindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

// exampleFrames are the examples of the document.
func exampleFrames(t testing.TB) map[string][]byte {
	t.Helper()
	put, err := AppendPut(nil, examplePut())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := AppendRows(nil, exampleRows())
	if err != nil {
		t.Fatal(err)
	}
	tombs, err := AppendPut(nil, examplePutTombs())
	if err != nil {
		t.Fatal(err)
	}
	persistent, err := AppendPut(nil, examplePersistentPut())
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"put": put, "put-tombs": tombs, "rows": rows,
		"persistent-put": persistent,
		"box":            AppendBox(nil, exampleBox()), "event": AppendEvent(nil, exampleEvent()),
		"slots-change": AppendChange(nil, exampleSlotsChange()),
		"change":       AppendChange(nil, exampleChange()),
		"closed":       AppendClosed(nil, exampleClosed),
		"query":        AppendQuery(nil, exampleQuery()),
		"query-window": AppendQuery(nil, exampleWindow()),
		"query-select": AppendQuery(nil, exampleSelect()),
		"query-where":  AppendQuery(nil, exampleWhere()),
		"put-reply":    AppendPutReply(nil, exampleReply()), "end": AppendEnd(nil, exampleEnd()),
		"states":       AppendStates(nil, exampleStates(), false),
		"keyed-states": AppendStates(nil, exampleKeyedStates(), true),
		"keyed-groups": AppendGroups(nil, exampleKeyedGroups(), true),
		"groups":       AppendGroups(nil, exampleGroups(), false),
		"error":        AppendError(nil, exampleError())}
}

// parse reads a payload as what its type says.
func parse(name string, payload []byte) error {
	switch name {
	case "put", "put-tombs":
		return ParsePut(AppendFrame(nil, FramePut, payload), new(Put))
	case "persistent-put":
		return ParsePut(AppendFrame(nil, FramePersistentPut, payload), new(Put))
	case "query", "query-window", "query-select", "query-where":
		return ParseQuery(AppendFrame(nil, FrameQuery, payload), new(record.Query))
	case "box":
		return ParseBox(AppendFrame(nil, FrameBox, payload), new(Box))
	case "event":
		return ParseEvent(payload, new(Event))
	case "slots-change":
		return ParseSlotsChange(payload, new(Change))
	case "change":
		return ParseChange(payload, new(Change))
	case "closed":
		_, err := ParseClosed(payload)
		return err
	case "rows":
		return ParseRows(payload, new(record.Batch))
	case "put-reply":
		return ParsePutReply(payload, new(PutReply))
	case "end":
		return ParseEnd(payload, new(End))
	case "states", "keyed-states":
		_, err := ParseStates(payload, name == "keyed-states", nil)
		return err
	case "groups", "keyed-groups":
		_, err := ParseGroups(payload, name == "keyed-groups", nil)
		return err
	default:
		return ParseError(payload, new(Error))
	}
}

// TestDamagedPayloads bends payloads under a checksum that is right: an enemy can make one.
func TestDamagedPayloads(t *testing.T) {
	for name, frame := range exampleFrames(t) {
		payload := frame[frameHeaderBytes:]
		for at := range payload {
			if err := parse(name, payload[:at]); err == nil {
				t.Errorf("%s cut at %d: no error", name, at)
			}
			for bit := range 8 {
				bent := bytes.Clone(payload)
				bent[at] ^= 1 << bit
				_ = parse(name, bent) // must not panic; some bits make another good payload
			}
		}
		if err := parse(name, append(bytes.Clone(payload), 0)); kindOf(err) == 0 {
			t.Errorf("%s with a byte more: %v", name, err)
		}
	}
}

// TestRefusals reads payloads of which one field is wrong.
func TestRefusals(t *testing.T) {
	frames := exampleFrames(t)
	f := func(name string, at int, bytes string, kind Kind, want string) {
		t.Helper()
		payload := append([]byte(nil), frames[name][frameHeaderBytes:]...)
		copy(payload[at:], bytes)
		err := parse(name, payload)
		if kindOf(err) != kind || !strings.Contains(err.Error(), want) {
			t.Errorf("%s, %x at %d: %v, want %v with %q", name, bytes, at, err, kind, want)
		}
	}
	f("put", 24, "\x00\x00\x00\x00", KindBadFrame, "batch of 0 rows")
	f("put", 24, "\x01\x00\x01\x00", KindBadFrame, "batch of 65537 rows")
	f("put", 24, "\xff", KindBadFrame, "column of 255 values ends early")
	f("put", 28, "\x04", KindBadFrame, "flags 0x4")
	f("put-tombs", 80, "\x04", KindBadFrame, "tombstones beyond the 2 rows")
	f("persistent-put", 0, strings.Repeat("\x00", 16), KindBadFrame, "zero writer")
	f("box", 1, "\x01", KindBadFrame, "reserved")
	f("box", 8, "\xff", KindBadFrame, "ranges of cid")
	f("put", 29, "\x04", KindBadFrame, "payload codec 4")
	f("put", 29, "\x01", KindBadFrame, "not 1 to 16 words")
	f("put", 29, "\x00", KindBadFrame, "follow the batch")
	f("put", 30, "\x01", KindBadFrame, "batch of 2 rows")
	f("put", 32, "\xff\xff\xff\xff", KindTooLarge, "payloads of 4294967295 bytes")
	f("put", 36, "\x02", KindBadFrame, "codec 2")
	f("put", 37, "\x39", KindBadFrame, "width 57")
	f("put", 43, "\x01", KindBadFrame, "cid of row 0 does not fit 32 bits")
	f("put", 82, "\xff\xff\xff\xff", KindTooLarge, "payload 0 has 4294967")
	f("rows", 4, "\x00", KindBadFrame, "")
	f("put-reply", 20, "\x02", KindBadFrame, "reserved")
	f("put-reply", 23, "\x01", KindBadFrame, "reserved")
	f("query", 3, "\x01", KindBadFrame, "query ends early")
	f("query", 3, "\x09", KindBadFrame, "9 filters, at most 8")
	f("query-select", 28, "\x00\x00\x00\x00", KindBadFrame, "the flag of a selector")
	f("query-select", 28, "\xff\xff\xff\xff", KindBadFrame, "box ends inside the ranges of cid")
	f("query-where", 64, "\x00\x00\x00\x00", KindBadFrame, "the bit of a condition")
	f("query-window", 29, "\x01", KindBadFrame, "reserved")
	f("query-window", 28, "\x00", KindBadFrame, "no unit")
	f("query-window", 36, "\xff", KindBadFrame, "query ends early")
	f("query", 28, "\xff\xff\xff\x7f", KindBadFrame, "ranges of cid")
	f("groups", 0, "\xff\xff\xff\xff", KindBadFrame, "4294967295 groups")
	f("states", 0, "\xff\xff\xff\xff", KindBadFrame, "4294967295 states")
	f("states", 28, "\x02", KindBadFrame, "reserved bytes of a state")
	f("states", 44, "\xff\xff\xff\x7f", KindBadFrame, "states ends early")
	f("groups", 36, "\xff\xff\xff\x7f", KindBadFrame, "groups ends early")
	f("end", 1, "\x01", KindBadFrame, "reserved")
	f("error", 0, "\x00", KindBadFrame, "kind")
	f("error", 2, "\x01", KindBadFrame, "kind")
	var unstamped record.Batch
	unstamped.Append(record.Key{}, nil)
	frame, err := AppendRows(nil, &unstamped)
	if err != nil {
		t.Fatal(err)
	}
	if err := parse("rows", frame[frameHeaderBytes:]); kindOf(err) != KindBadFrame {
		t.Errorf("rows without acq: %v", err)
	}
	if err := ParsePut(frames["query"], new(Put)); kindOf(err) != KindBadFrame {
		t.Errorf("a query where a put belongs: %v", err)
	}
	twice := bytes.Repeat(frames["put"], 2)
	if err := ParsePut(twice, new(Put)); kindOf(err) != KindBadFrame {
		t.Errorf("two puts: %v", err)
	}
}

// TestUnwritable: batches that no reader would take are not written.
func TestUnwritable(t *testing.T) {
	if _, err := AppendRows(nil, new(record.Batch)); err == nil {
		t.Error("an empty batch was written")
	}
	if _, err := AppendPut(nil, &Put{Batch: &record.Batch{CID: []int32{1}}}); err == nil {
		t.Error("columns of different lengths were written")
	}
}

// TestReader reads frames from streams that come in parts.
func TestReader(t *testing.T) {
	var stream []byte
	large := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	for range 2 {
		stream = append(stream, exampleFrames(t)["query"]...)
		stream = AppendFrame(stream, FrameRows, large)
		stream = AppendFrame(stream, FrameEnd, nil)
	}
	for name, source := range map[string]io.Reader{
		"whole": bytes.NewReader(stream), "halves": iotest.HalfReader(bytes.NewReader(stream)),
		"data with the end": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		r := NewReader(source, MaxFramePayload)
		for i := range 6 {
			kind, payload, err := r.Next()
			want := []FrameType{FrameQuery, FrameRows, FrameEnd}[i%3]
			if err != nil || kind != want || kind == FrameRows && !bytes.Equal(payload, large) {
				t.Fatalf("%s, frame %d: type %d of %d bytes, %v", name, i, kind, len(payload), err)
			}
		}
		if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: at the end %v", name, err)
		}
	}
	frame := exampleFrames(t)["put"]
	for at := 1; at < len(frame); at++ {
		r := NewReader(iotest.OneByteReader(bytes.NewReader(frame[:at])), MaxFramePayload)
		if _, _, err := r.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", at, err)
		}
	}
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(bytes.NewReader(frame[:50]), iotest.ErrReader(broken)), 1000)
	if _, _, err := r.Next(); !errors.Is(err, broken) {
		t.Errorf("a connection that breaks: %v", err)
	}
	if _, _, err := NewReader(bytes.NewReader(frame), 50).Next(); kindOf(err) != KindTooLarge {
		t.Errorf("a frame over the reader's limit: %v", err)
	}
}

// TestKinds keeps numbers and names of error kinds for ever.
func TestKinds(t *testing.T) {
	want := [...]string{1: "internal", "bad-frame", "unsupported-version", "invalid", "too-large",
		"unknown-plugin", "bad-module", "plugin-failed", "plugin-limit", "damaged", "overloaded",
		"unavailable", "timeout", "canceled", "sequence-too-old", "not-found", "forbidden",
		"sequence-gap", "method-not-allowed", "conflict"}
	if len(want) != len(kindNames) {
		t.Errorf("%d kinds, %d known to this test", len(kindNames)-1, len(want)-1)
	}
	for k, name := range want {
		if name != "" && (Kind(k).String() != name || ParseKind(name) != Kind(k)) {
			t.Errorf("kind %d is %v, want %s", k, Kind(k), name)
		}
	}
	for k := range Kind(255) {
		again := k == KindOverloaded || k == KindUnavailable || k == KindTimeout
		if k.Temporary() != again {
			t.Errorf("%v: temporary is %v", k, !again)
		}
	}
	if Kind(200).String() != "kind-200" || ParseKind("no such") != KindInternal {
		t.Error("unknown kinds")
	}
}

// TestReuse reads into memory that is there. Under the race detector a pool forgets some of its
// codecs, so one is held.
func TestReuse(t *testing.T) {
	c := new(codec)
	for _, name := range []string{"rows", "put"} {
		payload := exampleFrames(t)[name][frameHeaderBytes:]
		if name == "put" { // payloads that vary
			payload = payload[24:]
		}
		var b record.Batch
		if n := testing.AllocsPerRun(100, func() {
			if err := c.parseBatch(payload, &b, nil); err != nil {
				t.Error(err)
			}
		}); n > 0 {
			t.Errorf("reading %s again allocates %v times", name, n)
		}
	}
	stream := bytes.NewReader(exampleFrames(t)["rows"])
	r := NewReader(stream, MaxFramePayload)
	if n := testing.AllocsPerRun(100, func() {
		stream.Seek(0, io.SeekStart)
		if _, _, err := r.Next(); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("reading a frame again allocates %v times", n)
	}
	buf, rows := make([]byte, 0, 4096), exampleRows()
	texts := examplePut().Batch
	if n := testing.AllocsPerRun(100, func() {
		out := c.append(buf, load(c, rows.CID))
		out = c.append(out, load(c, rows.AcqNs))
		_, _ = c.appendPayloads(out, rows)
		_, _ = c.appendPayloads(buf, texts)
	}); n > 0 {
		t.Errorf("writing rows again allocates %v times", n)
	}
}
