package segment

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/durable/memdir"
	"github.com/pentad-db/pentad/sdk/record"
)

var errInjected = errors.New("injected")

// sealBytes returns the bytes of a segment.
func sealBytes(t testing.TB, in *SealedInput) []byte {
	t.Helper()
	d := new(memdir.Dir)
	if _, err := writeSealed(d, "1.seg", in.runs()); err != nil {
		t.Fatal(err)
	}
	return d.Content("1.seg")
}

// readAll opens a segment in memory and reads it as a query would, with the index at hand.
func readAll(data []byte, offsets []uint64, sizes []uint32) (*File, *record.Batch, error) {
	if len(data) < sealedHeaderBytes+paddingBytes+tailBytes {
		return nil, nil, &durable.CorruptError{File: "1.seg", Reason: "short"} // as mapFile does
	}
	s, err := parseSealed("1.seg", data)
	if err != nil {
		return nil, nil, err
	}
	var b Block
	dst := &record.Batch{}
	for i := range offsets {
		if err := s.Block(i, offsets[i], sizes[i], &b); err != nil {
			return s, nil, err
		}
		if err := b.GatherSpan(0, b.Rows(), false, dst); err != nil {
			return s, nil, err
		}
		sel := b.FilterSpan(record.CID, nil, 0, b.Rows(), nil)
		for _, p := range b.Flagged(sel) {
			dst.CapNs[dst.Len()-b.Rows()+int(p)]++ // makes flags part of the answer
		}
	}
	return s, dst, nil
}

// smallInputs are segments of all kinds of payloads, each of two blocks.
func smallInputs(rng *rand.Rand) map[string]*SealedInput {
	float := func(rng *rand.Rand, i int) []byte {
		return appendWords(nil, fromDecimal(rng.Int64N(500), 10), uint64(i%2), rng.Uint64())
	}
	dict := func(rng *rand.Rand, i int) []byte {
		return appendWords(nil, []uint64{1 << 60, 1 << 5}[i%2])
	}
	three := func(rng *rand.Rand, i int) []byte { // of two bits each
		return appendWords(nil, []uint64{1 << 60, 1 << 5, 1 << 50}[i%3])
	}
	inputs := map[string]*SealedInput{}
	for name, payload := range map[string]payloadMaker{
		"words":   float,
		"tombs":   float,
		"dict":    dict,
		"three":   three,
		"ids":     float,
		"raw":     randomPayload(3, 0),
		"varied":  randomPayload(0, 5),
		"empty":   func(*rand.Rand, int) []byte { return nil },
		"lz4":     func(_ *rand.Rand, i int) []byte { return []byte("abcabcabcabcab") },
		"lz4vary": func(_ *rand.Rand, i int) []byte { return []byte("abcabcabcabcabcab")[:12+i%5] },
	} {
		b := &record.Batch{}
		for i := range 60 {
			k := record.Key{CID: 3, MID: rng.Int64N(9), MOID: int32(i % 2), CapNs: int64(i) * 1e6}
			if name == "ids" {
				k.MID = int64(i%5) * 0x1234_5678_9abc_def // dictionary-encoded
			}
			if name == "tombs" && i%7 == 3 {
				b.AppendTomb(k)
				continue
			}
			b.Append(k, payload(rng, i))
		}
		in := &SealedInput{Rows: b, BlockEnds: []uint32{45, 60}, Meta: []byte("meta"),
			Flags: []uint64{rng.Uint64() >> 20}}
		for i := range 60 {
			in.Order = append(in.Order, uint32(i))
		}
		in.Sections = func([]uint64, []uint32) ([]Section, error) {
			return []Section{{ID: 1, Data: []byte("one")}, {ID: 2, Data: []byte("two")}}, nil
		}
		inputs[name] = in
	}
	inputs["runs"], inputs["clock"] = smallRuns(rng), exampleClock()
	inputs["sub-runs"], inputs["lines"] = exampleSubRuns(), exampleLines()
	return inputs
}

// smallRuns are two blocks with runs and frames: a clock that is regular, and one that is not.
func smallRuns(rng *rand.Rand) *SealedInput {
	b := &record.Batch{}
	for i := range 640 {
		k := record.Key{CID: 3, MID: int64(i) / 40 * 40 % 120, CapNs: int64(i) * 1e6}
		if i >= 320 {
			k.CapNs += rng.Int64N(2) * 1e5
		}
		value := rng.Uint64N(10)
		if i < 100 {
			value = rng.Uint64N(10_000) // wider than in the frame after it
		}
		b.Append(k, appendWords(nil, value))
	}
	in := &SealedInput{Rows: b, BlockEnds: []uint32{320, 640}, Meta: []byte("meta")}
	for i := range 640 {
		in.Order = append(in.Order, uint32(i))
	}
	return in
}

func sameBatch(a, b *record.Batch) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if a.Key(i) != b.Key(i) || a.Tomb(i) != b.Tomb(i) ||
			string(a.Payload(i)) != string(b.Payload(i)) {
			return false
		}
	}
	return true
}

// Every bit of segments of all kinds is flipped. Nothing is ever answered wrongly: the damage is
// found when the file is opened or when the block is, and named.
func TestSealedEveryBitFlipped(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	rng := randomSource(t)
	for name, in := range smallInputs(rng) {
		data := sealBytes(t, in)
		whole, _, err := readAll(data, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		offsets, sizes, err := whole.Locate()
		if err != nil {
			t.Fatal(err)
		}
		_, want, err := readAll(data, offsets, sizes)
		if err != nil || want.Len() != in.Rows.Len() {
			t.Fatal(err)
		}
		for bit := range 8 * len(data) {
			data[bit/8] ^= 1 << (bit % 8)
			_, got, err := readAll(data, offsets, sizes)
			data[bit/8] ^= 1 << (bit % 8)
			var damage *durable.CorruptError
			if !errors.As(err, &damage) {
				t.Fatalf("%s: bit %d of byte %d of %d is flipped, error %v, same %v",
					name, bit%8, bit/8, len(data), err, got != nil && sameBatch(got, want))
			}
			if damage.File != "1.seg" || damage.Offset < 0 || damage.Offset > int64(len(data)) {
				t.Fatalf("%s: bit %d of byte %d: error %v", name, bit%8, bit/8, err)
			}
		}
	}
}

// A segment is cut at every byte, or grows: it is refused.
func TestSealedCutAtEveryByte(t *testing.T) {
	rng := randomSource(t)
	data := sealBytes(t, smallInputs(rng)["words"])
	var damage *durable.CorruptError
	for cut := range data {
		if _, _, err := readAll(data[:cut:cut], nil, nil); !errors.As(err, &damage) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
	if _, _, err := readAll(append(data, 0), nil, nil); !errors.As(err, &damage) {
		t.Fatalf("one byte more: %v", err)
	}
	path := filepath.Join(t.TempDir(), "1.seg")
	for _, size := range []int{0, 1, 15, 95, 96, 97, len(data) - 2} {
		if err := os.WriteFile(path, data[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenSealed(path, nil); !errors.As(err, &damage) || damage.File != path {
			t.Fatalf("file of %d bytes: %v", size, err)
		}
	}
	if _, err := OpenSealed(path+"x", nil); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("no file: %v", err)
	}
}

// A block that is asked for with the wrong number, place or size is refused.
func TestBlockOutOfPlace(t *testing.T) {
	rng := randomSource(t)
	s := mustSeal(t, smallInputs(rng)["words"])
	offsets, sizes, err := s.Locate()
	if err != nil {
		t.Fatal(err)
	}
	f := func(i int, offset uint64, size uint32) {
		t.Helper()
		var b Block
		var damage *durable.CorruptError
		if err := s.Block(i, offset, size, &b); !errors.As(err, &damage) {
			t.Errorf("block %d at %d of %d bytes: %v", i, offset, size, err)
		}
	}
	f(-1, offsets[0], sizes[0])
	f(2, offsets[0], sizes[0])
	f(1, offsets[0], sizes[0])
	f(0, offsets[1], sizes[1])
	f(0, offsets[0], sizes[0]-1)
	f(0, offsets[0], sizes[0]+sizes[1])
	f(0, 0, sizes[0])
	f(0, offsets[0], 5)
	f(0, 1<<63, sizes[0])
	f(1, offsets[1], 1<<31)
}

// The n-th operation of writing a segment fails, for every n: no file is left under its name, and
// the temporary file goes unless removing it is what failed.
func TestSealedEveryOperationFails(t *testing.T) {
	rng := randomSource(t)
	in := smallInputs(rng)["words"]
	for failAt := 1; ; failAt++ {
		d := new(memdir.Dir)
		d.Put("1.seg.tmp", []byte("of a crash"))
		operations := 0
		d.Fail = func(string) error {
			if operations++; operations == failAt {
				return errInjected
			}
			return nil
		}
		_, err := writeSealed(d, "1.seg", in.runs())
		left := namesIn(t, d)
		if err == nil {
			if failAt < 6 {
				t.Fatalf("only %d operations", failAt)
			}
			written := d.Content("1.seg")
			d.LosePower(rng)
			if len(written) == 0 || !bytes.Equal(d.Content("1.seg"), written) {
				t.Fatal("the segment is not durable")
			}
			return
		}
		if !errors.Is(err, errInjected) {
			t.Fatalf("operation %d: %v", failAt, err)
		}
		if slices.Contains(left, "1.seg") || len(left) > 0 && failAt > 1 {
			t.Fatalf("operation %d: left are %v", failAt, left)
		}
	}
}

func namesIn(t *testing.T, d *memdir.Dir) []string {
	t.Helper()
	names, err := d.Names()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestSealedBadInput(t *testing.T) {
	rng := randomSource(t)
	f := func(change func(in *SealedInput)) {
		t.Helper()
		in := smallInputs(rng)["words"]
		change(in)
		d := new(memdir.Dir)
		_, err := writeSealed(d, "1.seg", in.runs())
		if left := namesIn(t, d); err == nil || len(left) > 0 {
			t.Errorf("error %v, left are %v", err, left)
		}
	}
	f(func(in *SealedInput) { in.Order = in.Order[1:] })
	f(func(in *SealedInput) { in.Order[3] = in.Order[4] })
	f(func(in *SealedInput) { in.Order[3] = 60 })
	f(func(in *SealedInput) { in.BlockEnds = []uint32{45, 59} })
	f(func(in *SealedInput) { in.BlockEnds = []uint32{45, 45, 60} })
	f(func(in *SealedInput) { in.BlockEnds = []uint32{61} })
	f(func(in *SealedInput) { in.Flags = []uint64{} })
	f(func(in *SealedInput) { in.Rows.MID = in.Rows.MID[1:] })
	sections := func(s []Section, err error) func(in *SealedInput) {
		return func(in *SealedInput) {
			in.Sections = func([]uint64, []uint32) ([]Section, error) { return s, err }
		}
	}
	f(sections(nil, errInjected))
	f(sections([]Section{{ID: 0}}, nil))
	f(sections([]Section{{ID: 5}, {ID: 5}}, nil))
	many := make([]Section, maxSections)
	for i := range many {
		many[i].ID = uint32(i) + 1
	}
	f(sections(many, nil))
}
