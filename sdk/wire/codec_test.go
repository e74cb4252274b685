package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// payloadCodec is where the payload codec stands in a rows frame.
const payloadCodec = frameHeaderBytes + 5

// TestPayloadCodecs wants the codec that suits, and the payloads back.
func TestPayloadCodecs(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	noise := make([]byte, 1<<16)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	words := binary.LittleEndian.AppendUint64(nil, math.MaxUint64)
	text := bytes.Repeat([]byte("all is well. "), 40)
	f := func(want byte, payloads ...[]byte) {
		t.Helper()
		var b, got record.Batch
		for i, p := range payloads {
			b.AppendStamped(record.Key{MID: int64(i)}, p)
		}
		frame, err := AppendRows(nil, &b)
		if err != nil || frame[payloadCodec] != want {
			t.Fatalf("payload codec %d, want %d, %v", frame[payloadCodec], want, err)
		}
		if err := ParseRows(frame[frameHeaderBytes:], &got); err != nil || !equalBatches(&got, &b) {
			t.Errorf("codec %d: read again differs, %v", want, err)
		}
	}
	f(payloadNone, nil)
	f(payloadNone, nil, nil, nil)
	f(payloadWords, words, words, words, words)
	f(payloadWords, slicesOf(make([]byte, 8*maxWords), 9)...)
	f(payloadLZ4, slicesOf(make([]byte, 8*maxWords+8), 99)...) // one word more
	f(payloadLZ4, text, text)
	f(payloadLZ4, text, text[:9], nil)
	f(payloadRaw, noise[:8], noise[8:16], noise[16:24])
	f(payloadRaw, noise)
	f(payloadRaw, noise[:1], noise[1:3], nil)
	f(payloadRaw, []byte("x"))
}

func slicesOf(p []byte, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = p
	}
	return out
}

// TestBrokenBlocks bends every bit of a compressed block: what is read has the size announced.
func TestBrokenBlocks(t *testing.T) {
	var b record.Batch
	for i := range int64(5) {
		b.AppendStamped(record.Key{MID: i}, bytes.Repeat([]byte("abcdefg"), int(10+i)))
	}
	frame, err := AppendRows(nil, &b)
	if err != nil || frame[payloadCodec] != payloadLZ4 {
		t.Fatalf("payload codec %d, %v", frame[payloadCodec], err)
	}
	payload := frame[frameHeaderBytes:]
	refused := 0
	for at := range payload {
		for bit := range 8 {
			bent := bytes.Clone(payload)
			bent[at] ^= 1 << bit
			var got record.Batch
			if err := ParseRows(bent, &got); err != nil {
				if kindOf(err) == 0 {
					t.Fatalf("bit %d of byte %d: %v", bit, at, err)
				}
				refused++
			} else if err := got.CheckShape(); err != nil {
				t.Fatalf("bit %d of byte %d: %v", bit, at, err)
			}
		}
		if err := within(t, "rows", payload[:at]); kindOf(err) == 0 {
			t.Fatalf("cut at %d: %v", at, err)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// TestHeaders are frames of which one field of the header is wrong.
func TestHeaders(t *testing.T) {
	good := AppendFrame(nil, FrameEnd, []byte("payload"))
	f := func(at int, value byte, kind Kind, want string) {
		t.Helper()
		frame := bytes.Clone(good)
		frame[at] = value
		_, _, _, err := ParseFrame(frame, 1000)
		_, _, err2 := NewReader(bytes.NewReader(frame), 1000).Next()
		for _, err := range []error{err, err2} {
			if kindOf(err) != kind || !strings.Contains(err.Error(), want) {
				t.Errorf("byte %d is %#x: %v, want %v with %q", at, value, err, kind, want)
			}
		}
	}
	f(0, 'H', KindBadFrame, "not the pentad protocol")
	f(1, 0, KindUnsupportedVersion, "version 0; this side speaks version 1")
	f(1, 2, KindUnsupportedVersion, "version 2")
	f(2, 0, KindBadFrame, "type 0")
	f(2, byte(lastFrameType)+1, KindBadFrame, fmt.Sprintf(
		"type %d; version 1 has types 1 to %d", lastFrameType+1, lastFrameType))
	f(2, byte(FrameError), KindBadFrame, "checksum")
	f(3, 1, KindBadFrame, "reserved")
	f(4, 6, KindBadFrame, "checksum")
	f(6, 1, KindTooLarge, "65543 bytes, at most 1000")
	f(8, good[8]+1, KindBadFrame, "checksum")
	f(11, good[11]+1, KindBadFrame, "checksum")
	f(12, 'P', KindBadFrame, "checksum")
	broken := bytes.Clone(good)
	broken[0] = 0
	if err := ParsePut(broken, new(Put)); kindOf(err) != KindBadFrame {
		t.Errorf("a put that is no frame: %v", err)
	}
	if err := ParseQuery(good, new(record.Query)); kindOf(err) != KindBadFrame {
		t.Errorf("an end where a query belongs: %v", err)
	}
	if err := ParseQuery(nil, new(record.Query)); kindOf(err) != KindBadFrame {
		t.Errorf("nothing where a query belongs: %v", err)
	}
}

// TestOneBatchForAll reads batches of all shapes into the memory of those before.
func TestOneBatchForAll(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var got record.Batch
	for i := range 500 {
		want := randomBatch(rng, rng.IntN(2) == 0)
		src, err := appendBatch(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(3) == 0 { // one that fails leaves memory in any state
			_ = parseBatch(src[:rng.IntN(len(src))], &got, nil)
		}
		if err := parseBatch(src, &got, nil); err != nil || !equalBatches(&got, want) {
			t.Fatalf("batch %d differs, %v", i, err)
		}
		if err := got.CheckShape(); err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
	}
}
