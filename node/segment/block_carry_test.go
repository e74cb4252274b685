package segment

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestCarry writes blocks of one segment to another behind the ranks of more rows, and compares
// what both hold.
func TestCarry(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes and reads")
	rng := randomSource(t)
	for round := range 60 {
		in := randomInput(rng, 1+rng.IntN(4000))
		if round%2 == 0 {
			in = randomSeries(rng, 1+rng.IntN(4000))
		}
		from, before := mustSeal(t, in), randomInput(rng, 1+rng.IntN(100))
		path, shift := filepath.Join(t.TempDir(), "2.seg"), before.Rows.Len()
		if _, err := WriteRuns(path, carrying(from, uint32(shift), before)); err != nil {
			t.Fatal(err)
		}
		to, err := OpenSealed(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		if to.Rows() != from.Rows()+shift || to.Blocks() < from.Blocks() {
			t.Fatalf("%d rows in %d blocks, want %d", to.Rows(), to.Blocks(), from.Rows()+shift)
		}
		for i := range from.Blocks() {
			checkCarried(t, from, to, i, int64(shift))
		}
		if err := checkAll(to); err != nil {
			t.Fatal(err)
		}
	}
}

// carrying is a segment of the blocks of another one and a run.
func carrying(from *File, shift uint32, run *SealedInput) *RunsInput {
	in := run.runs()
	in.Sections = nil
	in.Carry = func(add func(*CarriedBlock) error) error {
		offsets, sizes, err := from.Locate()
		if err != nil {
			return err
		}
		var b Block
		for i := range offsets {
			if err := from.BlockCopy(i, offsets[i], sizes[i], &b); err != nil {
				return err
			}
			if err := add(&CarriedBlock{Block: &b, RankShift: shift}); err != nil {
				return err
			}
		}
		return nil
	}
	return in
}

// checkCarried compares block i of two segments, in one of which ranks are higher.
func checkCarried(t *testing.T, from, to *File, i int, shift int64) {
	t.Helper()
	var rows [2]record.Batch
	var blocks [2]Block
	for k, file := range []*File{from, to} {
		offsets, sizes, err := file.Locate()
		if err != nil {
			t.Fatal(err)
		}
		b := &blocks[k]
		if err := file.Block(i, offsets[i], sizes[i], b); err != nil {
			t.Fatal(err)
		}
		if err := b.GatherSpan(0, b.Rows(), false, &rows[k]); err != nil {
			t.Fatal(err)
		}
	}
	if rows[0].Len() != rows[1].Len() {
		t.Fatalf("block %d: %d rows, want %d", i, rows[1].Len(), rows[0].Len())
	}
	for k := range rows[0].Len() {
		want, got := rows[0].Key(k), rows[1].Key(k)
		want.AcqNs += shift
		if got != want || !slices.Equal(rows[0].Payload(k), rows[1].Payload(k)) ||
			rows[0].Tomb(k) != rows[1].Tomb(k) || blocks[0].Flag(k) != blocks[1].Flag(k) {
			t.Fatalf("block %d, row %d: %+v, want %+v", i, k, got, want)
		}
	}
}

// TestCarryDamaged changes a byte of a block after it was verified: it is not carried.
func TestCarryDamaged(t *testing.T) {
	rng := randomSource(t)
	for range 30 {
		in := randomInput(rng, 1+rng.IntN(500))
		r := newRotting(t, in)
		i := rng.IntN(len(r.offsets))
		r.data[r.offsets[i]+rng.Uint64N(uint64(r.sizes[i]))] ^= 1 << rng.IntN(8)
		_, err := WriteRuns(filepath.Join(t.TempDir(), "2.seg"),
			carrying(r.File, 1, randomInput(rng, 1)))
		if corrupt := new(durable.CorruptError); !errors.As(err, &corrupt) {
			t.Fatalf("a damaged block is carried: %v", err)
		}
	}
}
