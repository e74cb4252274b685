package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// randomSource returns a source of random numbers whose seed is printed when the test fails.
func randomSource(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// generator makes values of one column.
type generator func(rng *rand.Rand) int64

func constant(v int64) generator { return func(*rand.Rand) int64 { return v } }

func between(lo, hi, step int64) generator {
	return func(rng *rand.Rand) int64 { return lo + rng.Int64N((hi-lo)/step+1)*step }
}

// extremes are the values at which widths, signs and sums go wrong.
func extremes(rng *rand.Rand) int64 {
	all := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, 1 << 55, 1 << 56}
	if rng.IntN(2) == 0 {
		return all[rng.IntN(len(all))]
	}
	return int64(rng.Uint64())>>1<<1 - 2
}

func anyGenerator(rng *rand.Rand) generator {
	switch rng.IntN(8) {
	case 7: // ids that are random numbers
		ids := make([]int64, 1+rng.IntN(300))
		for i := range ids {
			ids[i] = int64(rng.Uint64())>>1 - rng.Int64N(2)<<62
		}
		return func(rng *rand.Rand) int64 { return ids[rng.IntN(len(ids))] }
	case 0:
		return constant(int64(rng.Uint64()) >> rng.IntN(64))
	case 1:
		return extremes
	case 2:
		return between(-1000, 1000, 1)
	case 3:
		base, step := rng.Int64N(1<<60)-1<<59, rng.Int64N(1e9)+1
		return between(base, base+step*rng.Int64N(5000), step)
	case 4:
		return between(1.7e18, 1.7e18+5e15, 1e6)
	case 5:
		bits := rng.IntN(62) + 1
		return func(rng *rand.Rand) int64 { return int64(rng.Uint64()>>(64-bits)) - 3 }
	default:
		few := []int64{rng.Int64(), -rng.Int64(), rng.Int64(), 0}
		return func(rng *rand.Rand) int64 { return few[rng.IntN(len(few))] }
	}
}

// payloadMaker makes payloads of one batch.
type payloadMaker func(rng *rand.Rand, i int) []byte

func anyPayloads(rng *rand.Rand) payloadMaker {
	switch rng.IntN(9) {
	case 0:
		return func(*rand.Rand, int) []byte { return nil }
	case 1: // decimals and a status
		scale := powersOf10[rng.IntN(len(powersOf10))]
		return func(rng *rand.Rand, i int) []byte {
			b := binary.LittleEndian.AppendUint64(nil,
				math.Float64bits(float64(rng.IntN(100000)-50000)/scale))
			return binary.LittleEndian.AppendUint64(b, uint64(rng.IntN(3)))
		}
	case 2: // floats at random: NaN, infinities, -0
		odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, 0.1, 1e300}
		return func(rng *rand.Rand, i int) []byte {
			return binary.LittleEndian.AppendUint64(nil, math.Float64bits(odd[rng.IntN(len(odd))]))
		}
	case 3: // integers of any kind
		words := make([]generator, rng.IntN(4)+1)
		for i := range words {
			words[i] = anyGenerator(rng)
		}
		return func(rng *rand.Rand, i int) []byte {
			var b []byte
			for _, g := range words {
				b = binary.LittleEndian.AppendUint64(b, uint64(g(rng)))
			}
			return b
		}
	case 4: // random bytes of one size
		return randomPayload(rng.IntN(600)+1, 0)
	case 5:
		return randomPayload(0, 40)
	case 6: // text
		return func(rng *rand.Rand, i int) []byte {
			state := []string{"ok", "off", "fail"}[rng.IntN(3)]
			return fmt.Appendf(nil, `{"n":%d,"state":"%s"}`, i, state)
		}
	case 7: // mostly empty
		return func(rng *rand.Rand, i int) []byte {
			if rng.IntN(50) > 0 {
				return nil
			}
			return []byte("rare")
		}
	default: // seldom another size
		return func(rng *rand.Rand, i int) []byte {
			if rng.IntN(3000) == 0 {
				return []byte("odd")
			}
			return binary.LittleEndian.AppendUint64(nil, uint64(i)*7)
		}
	}
}

func randomPayload(least, spread int) payloadMaker {
	return func(rng *rand.Rand, i int) []byte {
		b := make([]byte, least+rng.IntN(spread+1))
		for k := range b {
			b[k] = byte(rng.Uint32())
		}
		return b
	}
}

// randomInput makes n rows of a random shape in random order and blocks.
func randomInput(rng *rand.Rand, n int) *SealedInput {
	b := &record.Batch{}
	cid, mid := anyGenerator(rng), anyGenerator(rng)
	moid, capNs := anyGenerator(rng), anyGenerator(rng)
	payload, tombs := anyPayloads(rng), rng.IntN(3)*rng.IntN(2)
	for i := range n {
		k := record.Key{CID: int32(cid(rng)) & math.MaxInt32, MID: mid(rng), MOID: int32(moid(rng)),
			CapNs: capNs(rng)}
		if rng.IntN(3) < tombs {
			b.AppendTomb(k)
		} else {
			b.Append(k, payload(rng, i))
		}
	}
	return inputOf(rng, b)
}

func inputOf(rng *rand.Rand, b *record.Batch) *SealedInput {
	n := b.Len()
	in := &SealedInput{Rows: b, Meta: []byte(`{"test":true}`), Order: make([]uint32, n)}
	for i := range in.Order {
		in.Order[i] = uint32(i)
	}
	if rng.IntN(2) == 0 {
		rng.Shuffle(n, func(i, k int) { in.Order[i], in.Order[k] = in.Order[k], in.Order[i] })
	}
	most := []int{3, 700, 2048, maxBlockRows}[rng.IntN(4)]
	for at := 0; at < n; {
		at = min(n, at+1+rng.IntN(most))
		in.BlockEnds = append(in.BlockEnds, uint32(at))
	}
	if rng.IntN(4) > 0 {
		in.Flags = make([]uint64, (n+63)/64)
		for i := range in.Flags {
			in.Flags[i] = rng.Uint64() & rng.Uint64() & -uint64(rng.IntN(2))
		}
	}
	in.Sections = func([]uint64, []uint32) ([]Section, error) {
		return []Section{{ID: 1, Data: []byte("one")}, {ID: 7}, {ID: 2, Data: []byte("two")}}, nil
	}
	return in
}

func mustSeal(t testing.TB, in *SealedInput) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "1.seg")
	info, err := WriteSealed(path, in)
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenSealed(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if s.Size() != info.Bytes || s.Blocks() != info.Blocks || s.Rows() != in.Rows.Len() {
		t.Fatalf("segment of %d bytes, %d blocks, %d rows; wrote %+v",
			s.Size(), s.Blocks(), s.Rows(), info)
	}
	return s
}

// wantRow compares row k of got with the input's row of a rank.
func wantRow(t *testing.T, in *SealedInput, got *record.Batch, k int, rank uint32, keysOnly bool) {
	t.Helper()
	want := in.Rows.Key(int(rank))
	want.AcqNs = int64(rank)
	if got.Key(k) != want || got.Tomb(k) != in.Rows.Tomb(int(rank)) {
		t.Fatalf("row %d: got %+v, want %+v", k, got.Key(k), want)
	}
	if keysOnly {
		if len(got.Payload(k)) != 0 {
			t.Fatalf("row %d has a payload", k)
		}
	} else if !bytes.Equal(got.Payload(k), in.Rows.Payload(int(rank))) {
		t.Fatalf("row %d: payload %x, want %x", k, got.Payload(k), in.Rows.Payload(int(rank)))
	}
}

// Random rows are written and read back whole, in spans and in selections.
func TestSealedModel(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes and reads")
	rng := randomSource(t)
	for range 60 {
		in := randomInput(rng, rng.IntN(6000))
		checkModel(t, rng, in, func(*Block, []uint32) {})
	}
}

// checkModel writes a segment and compares everything in it with the input. more checks a block
// whose rows are given in order.
func checkModel(
	t *testing.T, rng *rand.Rand, in *SealedInput, more func(b *Block, order []uint32),
) {
	t.Helper()
	s := mustSeal(t, in)
	if err := checkAll(s); err != nil {
		t.Fatal(err)
	}
	if string(s.Meta()) != `{"test":true}` || string(s.Section(2)) != "two" ||
		s.Section(9) != nil {
		t.Fatal("sections differ")
	}
	offsets, sizes, err := s.Locate()
	if err != nil {
		t.Fatal(err)
	}
	var b Block
	dst, start := record.Batch{}, uint32(0)
	var ranks []uint32
	for i, end := range in.BlockEnds {
		if err := s.Block(i, offsets[i], sizes[i], &b); err != nil {
			t.Fatal(err)
		}
		order := in.Order[start:end]
		if b.Rows() != len(order) {
			t.Fatalf("block %d has %d rows, want %d", i, b.Rows(), len(order))
		}
		checkFlags(t, in, &b, order)
		checkFilters(t, rng, in, &b, order)
		ranks = gatherSome(t, rng, in, &b, order, &dst, ranks)
		more(&b, order)
		start = end
	}
}

// gatherSome appends some rows of a block to dst, in a random way, and checks all of dst.
func gatherSome(
	t *testing.T, rng *rand.Rand, in *SealedInput, b *Block, order []uint32, dst *record.Batch,
	ranks []uint32,
) []uint32 {
	if rng.IntN(3) == 0 || dst.Len() > 5000 {
		dst.Reset()
		ranks = ranks[:0]
	}
	keysOnly := rng.IntN(8) == 0
	start := dst.Len()
	var err error
	switch rng.IntN(3) {
	case 0:
		lo := rng.IntN(len(order) + 1)
		hi := lo + rng.IntN(len(order)-lo+1)
		err = b.GatherSpan(lo, hi, keysOnly, dst)
		ranks = append(ranks, order[lo:hi]...)
	case 1:
		var spans []Span
		for lo := 0; lo < len(order) && rng.IntN(5) > 0; {
			hi := lo + 1 + rng.IntN(len(order)-lo)
			spans = append(spans, Span{uint32(lo), uint32(hi)})
			ranks = append(ranks, order[lo:hi]...)
			lo = hi + rng.IntN(9)
		}
		err = b.GatherColumns(nil, spans, columnsOf(keysOnly), dst)
	default:
		var sel []uint32
		for i := range order {
			if rng.IntN(3) == 0 {
				sel = append(sel, uint32(i))
				ranks = append(ranks, order[i])
			}
		}
		err = b.Gather(sel, keysOnly, dst)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := dst.CheckShape(); err != nil {
		t.Fatal(err)
	}
	if dst.Len() != len(ranks) {
		t.Fatalf("gathered %d rows, want %d", dst.Len(), len(ranks))
	}
	for k := start; k < len(ranks); k++ {
		wantRow(t, in, dst, k, ranks[k], keysOnly)
	}
	return ranks
}

func checkFlags(t *testing.T, in *SealedInput, b *Block, order []uint32) {
	var want, sel []uint32
	for i, rank := range order {
		sel = append(sel, uint32(i))
		if in.Flags != nil && in.Flags[rank>>6]>>(rank&63)&1 != 0 {
			want = append(want, uint32(i))
		}
	}
	if got := b.Flagged(sel); !slices.Equal(got, want) {
		t.Fatalf("flagged %v, want %v", got, want)
	}
}

// checkFilters compares filters over random sets with a look at every row.
func checkFilters(t *testing.T, rng *rand.Rand, in *SealedInput, b *Block, order []uint32) {
	value := func(d record.Dim, i int) int64 {
		if d == record.Acq {
			return int64(order[i])
		}
		return in.Rows.Key(int(order[i])).Part(d)
	}
	for d := range record.Dim(record.NumDims) {
		q := record.Query{}
		for range rng.IntN(4) * rng.IntN(5) {
			from, to := value(d, rng.IntN(len(order))), value(d, rng.IntN(len(order)))
			from, to = min(from, to), max(from, to)
			if rng.IntN(3) == 0 {
				from, to = from-rng.Int64N(3), to+rng.Int64N(3)
			}
			if rng.IntN(8) == 0 {
				from = d.Min()
			}
			if rng.IntN(8) == 0 {
				to = d.Max()
			}
			if from = max(from, d.Min()); from < min(to, d.Max()) {
				q.Box[d] = append(q.Box[d], record.Range{From: from, To: to})
			}
		}
		if err := q.Normalize(); err != nil {
			t.Fatal(err)
		}
		set := q.Box[d]
		lo := rng.IntN(len(order))
		hi := lo + rng.IntN(len(order)-lo+1)
		var want, sel []uint32
		for i := lo; i < hi; i++ {
			sel = append(sel, uint32(i))
			if set.Contains(value(d, i)) {
				want = append(want, uint32(i))
			}
		}
		if got := b.FilterSpan(d, set, lo, hi, nil); !slices.Equal(got, want) {
			t.Fatalf("%v in %v of [%d, %d): got %v, want %v", d, set, lo, hi, got, want)
		}
		if got := b.Filter(d, set, sel); !slices.Equal(got, want) {
			t.Fatalf("%v in %v: got %v, want %v", d, set, got, want)
		}
	}
}
