package index

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
)

// tableOf makes a rank table, some acqs at a time.
func tableOf(rng *rand.Rand, acqs []int64) rankTable {
	var b rankBuilder
	for len(acqs) > 0 {
		n := 1 + rng.IntN(min(len(acqs), 1500))
		b.add(acqs[:n]...)
		acqs = acqs[n:]
	}
	return b.finish()
}

func ranksOf(acqs []int64) rankTable {
	var b rankBuilder
	b.add(acqs...)
	return b.finish()
}

// TestRankTable compares tables of acqs with steps of all sizes with a list of them.
func TestRankTable(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		acqs := steps(rng, 1+rng.IntN(3*groupRanks))
		table := tableOf(rng, acqs)
		parsed, err := parseRanks(table.src, uint32(len(acqs)))
		if err != nil {
			t.Fatal(err)
		}
		if again := tableOf(rng, acqs); !bytes.Equal(again.src, table.src) ||
			parsed.shared != table.shared {
			t.Fatal("the same acqs give another table")
		}
		var listed []int64
		for group := range parsed.groups() {
			listed = parsed.appendAcqs(listed, group)
		}
		if !slices.Equal(listed, acqs) {
			t.Fatal("the table lists other acqs")
		}
		equal := false
		for i, acq := range acqs {
			equal = equal || i > 0 && acq == acqs[i-1]
			if got := parsed.acqOf(uint32(i)); got != acq {
				t.Fatalf("rank %d of %d has acq %d, want %d", i, len(acqs), got, acq)
			}
			for _, near := range []int64{acq - min(1, acq-math.MinInt64), acq, acq + 1} {
				want, _ := slices.BinarySearch(acqs, near)
				if got := parsed.below(near); int(got) != want {
					t.Fatalf("%d of %d are below %d, want %d", got, len(acqs), near, want)
				}
			}
		}
		if parsed.shared != equal {
			t.Fatalf("shared: %v, want %v", parsed.shared, equal)
		}
	}
}

// steps returns acqs that ascend by steps of a few kinds.
func steps(rng *rand.Rand, n int) []int64 {
	kinds := make([]func() uint64, 1+rng.IntN(3))
	for i := range kinds {
		width := rng.IntN(64)
		kinds[i] = func() uint64 { return rng.Uint64N(1 << width) }
		if rng.IntN(2) == 0 {
			step := rng.Uint64N(3)
			kinds[i] = func() uint64 { return step }
		}
	}
	acq := int64(math.MinInt64)
	if rng.IntN(3) > 0 {
		acq = rng.Int64() - rng.Int64()
	}
	often := 1 + rng.IntN(300)
	acqs := make([]int64, 0, n)
	for range n {
		kind := kinds[0]
		if rng.IntN(often) == 0 {
			kind = kinds[rng.IntN(len(kinds))]
		}
		step := kind()
		if step > uint64(math.MaxInt64-1)-uint64(acq) {
			step = 0
		}
		acq += int64(step)
		acqs = append(acqs, acq)
	}
	return acqs
}

// TestRankTableSize: what tables take a row, after one tenant of several left all batches, too.
func TestRankTableSize(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	most := map[string]float64{
		"batches of 10000": 0.03, "batches of 2000": 0.035, "batches of 20": 0.4, "single": 3.5,
		"every second": 0.32, "half": 0.32, "two of three": 0.25, "a tenth": 0.8,
		"a hundredth": 1.5,
	}
	for _, shape := range acqShapes() {
		const rows = 1 << 18
		got := float64(len(ranksOf(shape.acqs(rows)).src)) / rows
		t.Logf("%s: %.3f bytes a row", shape.name, got)
		if want, ok := most[shape.name]; !ok || got > want {
			t.Errorf("%s: %.3f bytes a row, at most %.2f", shape.name, got, want)
		}
	}
}

// TestRankTableRefuses bends one field after another.
func TestRankTableRefuses(t *testing.T) {
	var gaps, jumps, shared, two []int64
	for i := range int64(6) {
		gaps = append(gaps, 3*i*i)
		jumps = append(jumps, i+i/3*1000)
		shared = append(shared, i/2)
	}
	for i := range int64(groupRanks + 1) {
		two = append(two, i)
	}
	const data = ranksHeaderBytes + 2*rankEntryBytes
	f := func(acqs []int64, want string, bend func(src []byte)) {
		t.Helper()
		src := ranksOf(acqs).src
		if _, err := parseRanks(src, uint32(len(acqs))); err != nil {
			t.Fatal(err)
		}
		bend(src)
		_, err := parseRanks(src, uint32(len(acqs)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	set := func(at int, value byte) func(src []byte) {
		return func(src []byte) { src[at] = value }
	}
	set8 := func(at int, value uint64) func(src []byte) {
		return func(src []byte) { binary.LittleEndian.PutUint64(src[at:], value) }
	}
	f(gaps, "version 1; this program reads", set(0, 1))
	f(gaps, "table of 7 ranks, there are 6 rows", set(4, 7))
	f(two, "group 1 starts before group 0 ends", set8(ranksHeaderBytes+rankEntryBytes, 510))
	f(two, "the last group ends at", set8(ranksHeaderBytes+2*rankEntryBytes, 513))
	f(gaps, "it is stored from", set(ranksHeaderBytes+8, data-1))
	f(gaps, "it is stored from", set(ranksHeaderBytes+rankEntryBytes+8, 255))
	f(gaps, "it takes", set(ranksHeaderBytes+rankEntryBytes+8, data+9))
	f(gaps, "has no acq", set8(ranksHeaderBytes, math.MaxInt64))
	f(gaps, "or are too high", set8(ranksHeaderBytes, math.MaxInt64-10))
	f(jumps, "have no acq", set8(ranksHeaderBytes, math.MaxInt64-10))
	f(two, "has no acq", set8(ranksHeaderBytes, math.MaxInt64-10))
	f(gaps, "step 2", set(data+2, 2))
	f(jumps, "6 jumps in 6 ranks", set(data, 6))
	f(jumps, "values of 57 and 0 bits", set(data+3, 57))
	f(jumps, "values of 10 and 64 bits", set(data+4, 64))
	f(jumps, "step 1", set(data+5, 1))
	f(jumps, "bytes, it takes", set(data+6, 1))
	f(jumps, "does not come after", set(data+groupHeadBytes, 0))
	f(jumps, "does not come after", set(data+groupHeadBytes, 6))
	f(gaps, "have 4 ones for 6 ranks", func(src []byte) { src[len(src)-ranksPadding-1] = 0 })
	f(gaps, "ones follow", func(src []byte) { src[len(src)-ranksPadding-1] |= 0x80 })
	f(gaps, "comes before rank", func(src []byte) { src[data+groupHeadBytes] ^= 0xff })
	f(shared, "or are too high", set8(ranksHeaderBytes, math.MaxInt64-2))
	f(gaps, "the padding is not zero", func(src []byte) { src[len(src)-1] = 1 })
}

// FuzzRanks: a table that is accepted gives the same acqs rank by rank, listed and searched, and
// they make a table that gives them, too.
func FuzzRanks(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		acqs := steps(rng, 1+rng.IntN(1<<rng.IntN(11)))
		f.Add(tableOf(rng, acqs).src, uint32(len(acqs)))
	}
	f.Fuzz(func(t *testing.T, src []byte, rows uint32) {
		var table rankTable
		var err error
		n := allocated(func() { table, err = parseRanks(src, rows) })
		if limit := 1<<16 + 2*uint64(len(src)); n > limit {
			t.Fatalf("%d bytes are allocated, at most %d", n, limit)
		}
		if err != nil {
			return
		}
		var acqs []int64
		for group := range table.groups() {
			acqs = table.appendAcqs(acqs, group)
		}
		if len(acqs) != int(rows) || !slices.IsSorted(acqs) || acqs[len(acqs)-1] == math.MaxInt64 {
			t.Fatalf("%d acqs of %d rows: %v", len(acqs), rows, acqs)
		}
		for i, acq := range acqs {
			want, _ := slices.BinarySearch(acqs, acq)
			if table.acqOf(uint32(i)) != acq || int(table.below(acq)) != want ||
				table.below(acq+1) <= uint32(i) {
				t.Fatalf("rank %d has acq %d and %d, %d before it; want %d", i,
					table.acqOf(uint32(i)), acq, table.below(acq), want)
			}
		}
		var b rankBuilder
		b.add(acqs...)
		again := b.finish()
		got, err := parseRanks(again.src, rows)
		if err != nil || got.acqOf(rows-1) != acqs[rows-1] {
			t.Fatalf("made again: %v", err)
		}
	})
}
