package index

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

func sections(t testing.TB, rows int) (directory, postings, ranks []byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	s, _, _ := indexOf(rng, shapes()[0].rows(rng, rows), small())
	return s.AppendDirectory(nil), s.AppendPostings(nil), s.AppendRanks(nil)
}

func TestParseGivesTheSame(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		s, _, _ := indexOf(rng, rows, small())
		d, p, r := s.AppendDirectory(nil), s.AppendPostings(nil), s.AppendRanks(nil)
		got, err := Parse(d, p, r)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.AppendDirectory(nil), d) || !bytes.Equal(got.AppendPostings(nil), p) ||
			!bytes.Equal(got.AppendRanks(nil), r) || got.Bounds() != s.Bounds() ||
			got.Rows() != rows.Len() {
			t.Fatal("parsed and written again it differs")
		}
	})
}

// TestParseDamage cuts the sections at every byte and flips every bit. What is accepted must plan
// without harm; the checksums of the segment file tell that it is not the truth.
func TestParseDamage(t *testing.T) {
	d, p, r := sections(t, 150)
	whole := [3][]byte{d, p, r}
	var plan Plan
	for i, section := range whole {
		bent := whole
		for at := range section {
			bent[i] = section[:at]
			if _, err := Parse(bent[0], bent[1], bent[2]); err == nil {
				t.Fatalf("section %d cut at %d is accepted", i, at)
			}
			for bit := range 8 {
				bent[i] = bytes.Clone(section)
				bent[i][at] ^= 1 << bit
				if s, err := Parse(bent[0], bent[1], bent[2]); err == nil {
					s.Plan(&record.Box{record.MID: {{From: 4_000_000_100, To: 4_000_000_900}},
						record.Acq: {{From: 0, To: record.Acq.Max()}}}, &plan)
				}
			}
		}
		bent[i] = append(bytes.Clone(section), 0)
		if _, err := Parse(bent[0], bent[1], bent[2]); err == nil {
			t.Fatalf("section %d with a byte more is accepted", i)
		}
	}
}

// TestParseAllocatesWhatItReads promises many blocks, runs and bins in few bytes.
func TestParseAllocatesWhatItReads(t *testing.T) {
	d, p, r := sections(t, 150)
	f := func(name string, section, at int) {
		t.Helper()
		bent := [3][]byte{bytes.Clone(d), bytes.Clone(p), bytes.Clone(r)}
		binary.LittleEndian.PutUint32(bent[section][at:], 0xffff)
		result := testing.Benchmark(func(b *testing.B) {
			for range b.N {
				if _, err := Parse(bent[0], bent[1], bent[2]); err == nil {
					t.Fatal("accepted")
				}
			}
		})
		if got := result.AllocedBytesPerOp(); got > 1<<20 {
			t.Errorf("%s: %d bytes are allocated", name, got)
		}
	}
	f("blocks", 0, 8)
	f("bins", 1, 4)
	f("runs", 2, 4)
	if _, err := ParseWatermarks(make([]byte, 8*buckets-1)); err == nil {
		t.Error("short watermarks are accepted")
	}
}

func FuzzParse(f *testing.F) {
	for _, rows := range []int{1, 60, 150, 400} {
		d, p, r := sections(f, rows)
		f.Add(d, p, r)
	}
	f.Fuzz(func(t *testing.T, d, p, r []byte) {
		s, err := Parse(d, p, r)
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
		if !bytes.Equal(s.AppendDirectory(nil), d) || !bytes.Equal(s.AppendRanks(nil), r) {
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
