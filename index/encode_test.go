package index

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

func sections(t testing.TB, rows int) (directory, postings, ranks []byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	s, _, _ := indexOf(rng, shapes()[0].rows(rng, rows), small())
	return s.AppendBlockDirectory(nil), s.AppendPostings(nil), s.AppendRanks(nil)
}

func TestParseGivesTheSame(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		s, _, _ := indexOf(rng, rows, small())
		d, p, r := s.AppendBlockDirectory(nil), s.AppendPostings(nil), s.AppendRanks(nil)
		got, err := Parse(d, p, r)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.AppendBlockDirectory(nil), d) ||
			!bytes.Equal(got.AppendPostings(nil), p) ||
			!bytes.Equal(got.AppendRanks(nil), r) || got.Bounds() != s.Bounds() ||
			got.Rows() != rows.Len() {
			t.Fatal("parsed and written again it differs")
		}
	})
}

// damaged returns where damage is done: at some bytes, in make test-long at every one.
func damaged(t *testing.T, src []byte) (places []int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for at := range src {
		if rng.IntN(rounds.Of(1, 6, 30)) == 0 {
			places = append(places, at)
		}
	}
	return places
}

// TestParseDamage cuts the sections at bytes and flips each bit of them. What is accepted must plan
// without harm; the checksums of the segment file tell that it is not the truth.
func TestParseDamage(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	d, p, r := sections(t, 150)
	whole := [3][]byte{d, p, r}
	var plan Plan
	for i, section := range whole {
		corrupted := whole
		for _, at := range damaged(t, section) {
			corrupted[i] = section[:at]
			if _, err := Parse(corrupted[0], corrupted[1], corrupted[2]); err == nil {
				t.Fatalf("section %d cut at %d is accepted", i, at)
			}
			for bit := range 8 {
				corrupted[i] = bytes.Clone(section)
				corrupted[i][at] ^= 1 << bit
				if s, err := Parse(corrupted[0], corrupted[1], corrupted[2]); err == nil {
					s.Plan(&record.Box{record.MID: {{From: 4_000_000_100, To: 4_000_000_900}},
						record.Acq: {{From: 0, To: record.Acq.Max()}}}, &plan)
				}
			}
		}
		corrupted[i] = append(bytes.Clone(section), 0)
		if _, err := Parse(corrupted[0], corrupted[1], corrupted[2]); err == nil {
			t.Fatalf("section %d with a byte more is accepted", i)
		}
	}
}

// allocated returns how many bytes f allocates, no more than everything that runs meanwhile.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestParseAllocatesWhatItReads announces much in few bytes.
func TestParseAllocatesWhatItReads(t *testing.T) {
	d, p, r := sections(t, 1)
	f := func(name, want string, bend func(d, p, r []byte)) {
		t.Helper()
		corrupted := [3][]byte{bytes.Clone(d), bytes.Clone(p), bytes.Clone(r)}
		bend(corrupted[0], corrupted[1], corrupted[2])
		var err error
		n := allocated(func() { _, err = Parse(corrupted[0], corrupted[1], corrupted[2]) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", name, err, want)
		}
		if n > 1<<20 {
			t.Errorf("%s: %d bytes are allocated", name, n)
		}
	}
	put := binary.LittleEndian.PutUint32
	f("blocks", "65536 blocks in", func(d, _, _ []byte) { put(d[8:], maxBlocks) })
	f("blocks", "blocks in", func(d, _, _ []byte) { put(d[8:], math.MaxUint32) })
	f("ranks", "there are 1 rows", func(_, _, r []byte) { put(r[4:], math.MaxUint32) })
	f("bins", "at most 128", func(_, p, _ []byte) { put(p[4:], math.MaxUint32) })
	f("bins", "starts before", func(_, p, _ []byte) { put(p[4:], 128) })
	const list = 4 + 4 + 8 // of the first dimension, which has one bin
	f("list", "ends inside a list", func(_, p, _ []byte) { put(p[list:], math.MaxUint32) })
	f("containers", "list of", func(_, p, _ []byte) { put(p[list+4+4:], 1<<16) })
	f("rows", "at most 8192", func(d, _, _ []byte) {
		put(d[4:], math.MaxUint32)
		at := blockDirectoryBytes + record.NumDims*16 + 8 + 4
		put(d[at:], math.MaxUint32)
		for k := range subRuns {
			put(d[at+4+4+k*subBytes:], math.MaxUint32)
		}
	})
	if _, err := ParseWatermarks(make([]byte, 8*buckets-1)); err == nil {
		t.Error("short watermarks are accepted")
	}
}

// TestParseRefusesAcqBeyondTheLast: the reserved maximum is no one's acq.
func TestParseRefusesAcqBeyondTheLast(t *testing.T) {
	f := func(rows int, lastAcqNs int64, want bool) {
		t.Helper()
		b := new(record.Batch)
		for i := range rows {
			b.AppendStamped(record.Key{AcqNs: int64(i)}, nil)
		}
		s, _, _ := indexOf(rand.New(rand.NewPCG(1, 1)), b, small())
		r := s.AppendRanks(nil)
		binary.LittleEndian.PutUint64(r[ranksHeaderBytes:], uint64(lastAcqNs-int64(rows)+1))
		binary.LittleEndian.PutUint64(r[ranksHeaderBytes+rankEntryBytes:], uint64(lastAcqNs))
		got, err := Parse(s.AppendBlockDirectory(nil), s.AppendPostings(nil), r)
		if (err == nil) != want {
			t.Errorf("%d rows up to acq %d: %v", rows, lastAcqNs, err)
		}
		if err == nil && got.AcqOf(uint32(rows-1)) != lastAcqNs {
			t.Errorf("the last acq is %d, want %d", got.AcqOf(uint32(rows-1)), lastAcqNs)
		}
	}
	f(1, math.MaxInt64-1, true)
	f(100, math.MaxInt64-1, true)
	f(1, math.MaxInt64, false)
	f(100, math.MinInt64, false) // the first acqs are near the greatest: they run over
}

func FuzzParse(f *testing.F) {
	for _, rows := range []int{1, 60, 150, 400} {
		d, p, r := sections(f, rows)
		f.Add(d, p, r)
	}
	f.Fuzz(func(t *testing.T, d, p, r []byte) {
		var s *Segment
		var err error
		n := allocated(func() { s, err = Parse(d, p, r) })
		// Per list the library makes an array of 64 KiB at most, as containers are announced.
		if limit := 1<<20 + 40*uint64(len(d)+len(p)+len(r)); n > limit {
			t.Fatalf("%d bytes are allocated, at most %d", n, limit)
		}
		if err != nil {
			return
		}
		var plan Plan
		for _, x := range []record.Box{{}, {record.CID: {record.At(1)}},
			{record.MID: {{From: -5, To: 4_000_000_500}, {From: 4_000_000_600, To: 4_000_000_900}},
				record.Cap: {{From: 0, To: record.Cap.Max()}}},
			{record.Acq: {{From: 1_700_000_000_000_000_000, To: record.Acq.Max()}}}} {
			s.Plan(&x, &plan)
			for _, c := range plan.Candidates {
				_ = s.Block(c.Block)
			}
		}
		for rank := range min(uint32(s.Rows()), 1000) {
			_ = s.AcqOf(rank)
		}
		if !bytes.Equal(s.AppendBlockDirectory(nil), d) || !bytes.Equal(s.AppendRanks(nil), r) {
			t.Fatal("written again it differs")
		}
	})
}

func FuzzWatermarks(f *testing.F) {
	f.Add(AppendWatermarks(nil, NewWatermarks()))
	f.Fuzz(func(t *testing.T, src []byte) {
		if w, err := ParseWatermarks(src); err == nil && !bytes.Equal(AppendWatermarks(nil, w),
			src) {
			t.Fatal("written again they differ")
		}
	})
}
