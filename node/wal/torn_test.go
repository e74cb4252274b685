package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
)

// tornShapes are last appends of several sectors: of random bytes, of zeros, of zeros with single
// bits, and of what masking makes zero.
func tornShapes(rng *rand.Rand) map[string][]byte {
	random, lone := make([]byte, 3000), make([]byte, 3000)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	for i := 0; i < len(lone); i += 400 {
		lone[i] = 1
	}
	hostile := make([]byte, 3000)
	// In line with the append: two headers of 48 and 28 bytes are before it.
	sector.Mask(hostile[4:])
	return map[string][]byte{"random": random, "zeros": make([]byte, 3000), "single bits": lone,
		"masked": hostile}
}

// The last append of a log was synced and acknowledged; then one bit of it flips. Or it was not,
// and after a loss of power any of its sectors are missing, or its end. The first is always an
// error that names the append, the second is always repaired, except where all that is missing is
// zero but for one bit when it is written, which masking makes as good as impossible: that is an
// error, too.
func TestLastAppendIsDamagedOrTorn(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	rng := randomSource(t)
	for shape, data := range tornShapes(rng) {
		d := newMemoryFolder()
		all, _, ends := writeLog(t, d, rng, 3, 1<<20)
		l, _, err := openFolder(d, "log", Options{}, replayed(new([]Entry)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append([]Entry{{Kind: 1, Data: data}}); err != nil {
			t.Fatal(err)
		}
		f, start := d.names[fileName(1)], int(ends[2])
		whole := f.data
		nearZeroSectors := binary.LittleEndian.Uint32(whole[start+36:])
		if (nearZeroSectors > 0) != (shape == "masked") {
			t.Errorf("%s: %d nearly zero sectors", shape, nearZeroSectors)
		}
		reopen := func() (torn bool) {
			t.Helper()
			var got []Entry
			_, report, err := openFolder(d, "log", Options{}, replayed(&got))
			var damage *durable.CorruptError
			if errors.As(err, &damage) && damage.Offset == int64(start) {
				return false
			}
			if err != nil || !sameEntries(got, flatten(all)) || report.TornAt != int64(start) {
				t.Fatalf("%s: %d entries, %+v, %v", shape, len(got), report, err)
			}
			return true
		}
		for bit := 8 * start; bit < 8*len(whole); bit++ {
			f.data = slices.Clone(whole)
			f.data[bit/8] ^= 1 << (bit % 8)
			if reopen() {
				t.Fatalf("%s: bit %d of the last append is flipped and it is cut off", shape,
					bit-8*start)
			}
		}
		for range 2000 {
			f.data = slices.Clone(whole)
			lost := dropSectors(rng, f.data[start:])
			if rng.IntN(2) == 0 {
				f.data = f.data[:start+1+rng.IntN(len(whole)-start)]
			}
			if bytes.Equal(f.data, whole) {
				continue
			}
			if !reopen() && len(f.data) == len(whole) && lost > int(nearZeroSectors) {
				t.Fatalf("%s: %d sectors are missing, and the log is refused", shape, lost)
			}
		}
		for cut := start + 1; cut < len(whole); cut++ {
			f.data = slices.Clone(whole[:cut])
			if !reopen() {
				t.Fatalf("%s: the last append is cut at %d and the log is refused", shape,
					cut-start)
			}
		}
	}
}

// dropSectors makes some sectors zero, and returns how many were not.
func dropSectors(rng *rand.Rand, p []byte) (lost int) {
	share := 1 + rng.IntN(9)
	for at := 0; at < len(p); at += sector.Size {
		if s := p[at : at+sector.Size]; rng.IntN(10) < share && !sector.IsZero(s) {
			clear(s)
			lost++
		}
	}
	return lost
}
