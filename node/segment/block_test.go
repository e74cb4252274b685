package segment

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

func appendWords(dst []byte, words ...uint64) []byte {
	for _, w := range words {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	return dst
}

// firstBlock opens the first block of a segment.
func firstBlock(t testing.TB, s *File) *Block {
	t.Helper()
	b := &Block{}
	size := binary.LittleEndian.Uint32(s.data[sealedHeaderBytes:])
	if err := s.Block(0, sealedHeaderBytes, size, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPack(t *testing.T) {
	rng := randomSource(t)
	f := func(width uint8, n int) {
		t.Helper()
		c := column{forCoding: forCoding{gcd: 1, width: width}}
		c.maxPacked = c.mask()
		values := make([]uint64, n)
		for i := range values {
			values[i] = rng.Uint64() & c.maxPacked
		}
		packed := appendPacked([]byte("head"), values, width)[4:]
		if len(packed) != c.bytes(n) {
			t.Fatalf("width %d: %d values in %d bytes", width, n, len(packed))
		}
		c.body = append(packed, make([]byte, loadBytes)...)
		for i, v := range values {
			if c.packed(i) != v {
				t.Fatalf("width %d: value %d is %d, want %d", width, i, c.packed(i), v)
			}
		}
	}
	for width := range uint8(maxPackedWidth + 1) {
		for _, n := range []int{0, 1, 2, 7, 8, 63, 64, 65, 500} {
			f(width, n)
		}
	}
	f(64, 1)
	f(64, 100)
}

func TestCommonDivisor(t *testing.T) {
	f := func(want uint64, values ...uint64) {
		t.Helper()
		if got := commonDivisor(values); got != want {
			t.Errorf("%v: got %d, want %d", values, got, want)
		}
	}
	f(1, 1)
	f(6, 0, 6, 12, 0)
	f(6, 18, 12, 6)
	f(1, 6, 10, 15)
	f(1<<40, 1<<40, 3<<50, 0)
	f(1e6, 0, 1e6, 7e15, 3e6)
	f(math.MaxUint64, 0, math.MaxUint64)
	f(3, math.MaxUint64, 3)
	f(1<<63, 1<<63)
	f(math.MaxInt64, math.MaxInt64, 2*math.MaxInt64)
	rng := randomSource(t)
	for range 2000 {
		d := rng.Uint64()>>rng.IntN(64) | 2<<rng.IntN(10)
		inverse, shift := inverseOf(d)
		q := rng.Uint64N(math.MaxUint64/d + 1)
		f(d, d, q*d)
		if v := q * d; bits.RotateLeft64(v*inverse, -shift) != q {
			t.Fatalf("%d / %d", v, d)
		}
	}
}

// TestWordForms says which form a word takes, and that it comes back.
func TestWordForms(t *testing.T) {
	float := func(v float64) uint64 { return math.Float64bits(v) }
	f := func(kind, exponent uint8, most int, make func(i int) uint64) {
		t.Helper()
		var e encoder
		for i := range 1000 {
			e.values = append(e.values, make(i))
		}
		e.appendWord()
		p := frontParser{headers: e.columnHeaders,
			data: append(slices.Clone(e.columnData), 0, 0, 0, 0, 0, 0, 0, 0),
			end:  uint64(len(e.columnData)), rows: 1000, block: &Block{}}
		var c column
		if p.wordColumn(&c); p.bad || p.at != p.end || len(p.headers) != 0 {
			t.Fatal("does not parse")
		}
		if c.kind != kind || c.exponent != exponent || len(e.columnData) > most {
			t.Errorf("kind %d, exponent %d, %d bytes; want %d, %d, %d",
				c.kind, c.exponent, len(e.columnData), kind, exponent, most)
		}
		for i := range 1000 {
			if c.value(i) != make(i) {
				t.Fatalf("word %d: got %x, want %x", i, c.value(i), make(i))
			}
		}
	}
	f(columnFOR, 0, 0, func(i int) uint64 { return 77 })
	f(columnFOR, 0, 1250, func(i int) uint64 { return uint64(i) })
	f(columnFOR, 0, 1250, func(i int) uint64 { return uint64(i - 500) })       // signed
	f(columnFOR, 0, 1250, func(i int) uint64 { return uint64(i-500) + 1<<63 }) // unsigned
	f(columnFOR, 0, 1250, func(i int) uint64 { return uint64(i) * 1e9 })       // gcd
	f(columnFOR, 0, 125, func(i int) uint64 { return uint64(i%2) * 1 << 63 })  // one bit
	f(columnDec, 0, 1250, func(i int) uint64 { return float(float64(i * 3)) }) // gcd, too
	f(columnDec, 1, 1250, func(i int) uint64 { return float(float64(i-500) / 10) })
	f(columnDec, 2, 2500, func(i int) uint64 { return float(float64(i*i) / 100) })
	f(columnDec, 4, 1250, func(i int) uint64 { return float(float64(i) / 1e4) })
	f(columnDec, 3, 1500, func(i int) uint64 { return float(float64(i/999+i*4) / 1e3) })
	three := []uint64{float(math.Pi), float(math.E), 5}
	f(columnDict, 0, 274, func(i int) uint64 { return three[i%3] })
	f(columnDict, 0, 4000, func(i int) uint64 { return uint64(i%250) * 0x9e3779b97f4a7c15 })
	f(columnFOR, 0, 8000, func(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 })
	f(columnFOR, 0, 8000, func(i int) uint64 { return float(float64(i) / 7) })
	nan := []uint64{float(math.NaN()), float(math.Inf(1)), float(math.Copysign(0, -1)), 0}
	f(columnDict, 0, 300, func(i int) uint64 { return nan[i%4] })
}

// Payloads choose chunks when words do not help them and LZ4 does.
func TestPayloadKinds(t *testing.T) {
	rng := randomSource(t)
	f := func(kind uint8, payload payloadMaker) {
		t.Helper()
		in := &SealedInput{Rows: &record.Batch{}, BlockEnds: []uint32{1500}}
		for i := range 1500 {
			in.Rows.Append(record.Key{}, payload(rng, i))
			in.Order = append(in.Order, uint32(i))
		}
		s := mustSeal(t, in)
		b := firstBlock(t, s)
		if b.kind != kind {
			t.Errorf("kind %d, want %d", b.kind, kind)
		}
		var dst record.Batch
		if err := b.GatherSpan(0, 1500, false, &dst); err != nil {
			t.Fatal(err)
		}
		for i := range 1500 {
			wantRow(t, in, &dst, i, uint32(i), false)
		}
	}
	f(payloadEmpty, func(*rand.Rand, int) []byte { return nil })
	f(payloadFixedColumns, func(_ *rand.Rand, i int) []byte {
		return appendWords(nil, uint64(i), 5)
	})
	f(payloadFixedColumns, randomPayload(16, 0)) // nothing helps; words are found faster
	f(payloadFixedChunks, randomPayload(15, 0))
	f(payloadFixedChunks, func(*rand.Rand, int) []byte { return []byte("text of 23 bytes: xxxxx") })
	// One byte in eight is noise, at either end.
	f(payloadFixedChunks, func(_ *rand.Rand, i int) []byte {
		return appendWords(nil, uint64(rng.IntN(256))<<56|uint64(rng.IntN(4)))
	})
	f(payloadVariableChunks, randomPayload(0, 9))
	f(payloadFixedChunks, randomPayload(8*maxPayloadWords+8, 0))
}

// Payloads of up to a mebibyte, among small and empty ones, in one block.
func TestLargePayloads(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes and reads")
	rng := randomSource(t)
	b := &record.Batch{}
	for i := range 300 {
		size := 0
		switch rng.IntN(10) {
		case 0:
			size = 1 << 20
		case 1:
			size = rng.IntN(200_000)
		default:
			size = rng.IntN(100)
		}
		payload := bytes.Repeat([]byte{byte(i)}, size)
		if rng.IntN(2) == 0 {
			payload = randomPayload(size, 0)(rng, i)
		}
		b.Append(record.Key{MID: int64(i)}, payload)
	}
	in := &SealedInput{Rows: b, BlockEnds: []uint32{300}}
	for i := range 300 {
		in.Order = append(in.Order, uint32(i))
	}
	s := mustSeal(t, in)
	if err := checkAll(s); err != nil {
		t.Fatal(err)
	}
	offsets, sizes, err := s.Locate()
	if err != nil {
		t.Fatal(err)
	}
	var blk Block
	if err := s.Block(0, offsets[0], sizes[0], &blk); err != nil {
		t.Fatal(err)
	}
	const limit = 3 << 20
	for lo := 0; lo < 300; {
		hi := blk.FitSpan(lo, 300, limit)
		sel := blk.FilterSpan(record.MID, nil, lo, 300, nil)
		if hi <= lo || blk.Fit(sel, limit) != hi-lo {
			t.Fatalf("portion [%d, %d), Fit %d", lo, hi, blk.Fit(sel, limit))
		}
		var dst record.Batch
		if err := blk.Gather(sel[:hi-lo], false, &dst); err != nil {
			t.Fatal(err)
		}
		if len(dst.Data) > limit && hi-lo > 1 {
			t.Fatalf("%d bytes in a portion", len(dst.Data))
		}
		for k := range hi - lo {
			wantRow(t, in, &dst, k, uint32(lo+k), false)
		}
		lo = hi
	}
}

func TestFitFixed(t *testing.T) {
	s := mustSeal(t, smallInputs(randomSource(t))["words"]) // 24 bytes
	b := firstBlock(t, s)
	f := func(limit, want int) {
		t.Helper()
		sel := b.FilterSpan(record.MID, nil, 0, b.Rows(), nil)
		if got := b.Fit(sel, limit); got != want || b.FitSpan(0, b.Rows(), limit) != want {
			t.Errorf("limit %d: %d and %d, want %d",
				limit, got, b.FitSpan(0, b.Rows(), limit), want)
		}
	}
	f(0, 1)
	f(47, 1)
	f(48, 2)
	f(1<<30, 45)
}

func TestSearchMIDs(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes and reads")
	rng := randomSource(t)
	for range 50 {
		in := &SealedInput{Rows: &record.Batch{}}
		n, mid := 1+rng.IntN(600), anyGenerator(rng)
		mids := make([]int64, n)
		for i := range mids {
			mids[i] = mid(rng)
		}
		slices.Sort(mids)
		for i, m := range mids {
			in.Rows.Append(record.Key{MID: m}, nil)
			in.Order = append(in.Order, uint32(i))
		}
		in.BlockEnds = []uint32{uint32(n)}
		s := mustSeal(t, in)
		b := firstBlock(t, s)
		for range 100 {
			lo := rng.IntN(n + 1)
			hi := lo + rng.IntN(n-lo+1)
			from, to := mids[rng.IntN(n)]+rng.Int64N(3), mids[rng.IntN(n)]
			first, end := b.SearchMIDs(lo, hi,
				b.FindMIDs(from, to, mids[rng.IntN(n)]))
			var want []uint32
			if from < to {
				want = b.FilterSpan(record.MID, record.RangeSet{{From: from, To: to}}, lo, hi, nil)
			}
			if first < lo || end > hi || max(0, end-first) != len(want) ||
				len(want) > 0 && int(want[0]) != first {
				t.Fatalf("[%d, %d) in rows [%d, %d): got [%d, %d), want %v",
					from, to, lo, hi, first, end, want)
			}
		}
	}
}

func TestSearchReading(t *testing.T) {
	rng := randomSource(t)
	for range 30 {
		in := &SealedInput{Rows: &record.Batch{}}
		n, mid, capOf := 1+rng.IntN(600), anyGenerator(rng), anyGenerator(rng)
		values := make([]int64, 0, 40)
		for range 20 {
			values = append(values, mid(rng), capOf(rng))
		}
		values = append(values, math.MinInt64, math.MaxInt64)[rng.IntN(3):]
		draw := func(at int) int64 { return values[rng.IntN(len(values)/2)*2+at] }
		keys := make([]record.Key, n)
		kinds := 1 + rng.Int32N(2)
		for i := range keys {
			keys[i] = record.Key{CID: rng.Int32N(kinds), MOID: rng.Int32N(kinds) - 1, MID: draw(0),
				CapNs: draw(1)}
		}
		slices.SortFunc(keys, compareReadings)
		for i, k := range keys {
			in.Rows.Append(k, nil)
			in.Order = append(in.Order, uint32(i))
		}
		in.BlockEnds = []uint32{uint32(n)}
		b := firstBlock(t, mustSeal(t, in))
		for range 100 {
			lo := rng.IntN(n + 1)
			hi := lo + rng.IntN(n-lo+1)
			k := keys[rng.IntN(n)]
			switch rng.IntN(4) {
			case 0:
				k.MID += 1 - rng.Int64N(3)
			case 1:
				k.CapNs += 1 - rng.Int64N(3)
			case 2:
				k = record.Key{CID: k.MOID, MOID: k.CID, MID: draw(0), CapNs: draw(1)}
			}
			first, end := b.SearchReading(lo, hi, k)
			want := 0
			for i := lo; i < hi; i++ {
				if compareReadings(keys[i], k) == 0 {
					want++
				}
			}
			if first < lo || end > hi || end-first != want ||
				want > 0 && (compareReadings(keys[first], k) != 0 ||
					compareReadings(keys[end-1], k) != 0) {
				t.Fatalf("%v in rows [%d, %d): got [%d, %d), want %d", k, lo, hi, first, end, want)
			}
		}
	}
}

func compareReadings(a, b record.Key) int {
	return cmp.Or(cmp.Compare(a.CID, b.CID), cmp.Compare(a.MOID, b.MOID),
		cmp.Compare(a.MID, b.MID), cmp.Compare(a.CapNs, b.CapNs))
}

// Many goroutines open the same blocks for the first time at once.
func TestBlocksConcurrently(t *testing.T) {
	rng := randomSource(t)
	in := randomInput(rng, 5000)
	s := mustSeal(t, in)
	offsets, sizes, err := s.Locate()
	if err != nil {
		t.Fatal(err)
	}
	clear(s.verified)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var b Block
			var dst record.Batch
			for i := range offsets {
				if err := s.Block(i, offsets[i], sizes[i], &b); err != nil {
					t.Error(err)
				}
				if err := b.GatherSpan(0, b.Rows(), false, &dst); err != nil {
					t.Error(err)
				}
			}
			if dst.Len() != 5000 {
				t.Errorf("%d rows", dst.Len())
			}
		})
	}
	wg.Wait()
}

// A gather that fails leaves what was gathered before as it was.
func TestGatherDamagedChunk(t *testing.T) {
	data := sealBytes(t, smallInputs(randomSource(t))["varied"])
	s, err := parseSealed("1.seg", data)
	if err != nil {
		t.Fatal(err)
	}
	offsets, sizes, err := s.Locate()
	if err != nil {
		t.Fatal(err)
	}
	var b Block
	var dst record.Batch
	for i := range offsets {
		if err := s.Block(i, offsets[i], sizes[i], &b); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			data[offsets[1]+uint64(sizes[1])-1] ^= 1
		}
		err = b.GatherSpan(0, b.Rows(), false, &dst)
	}
	if err == nil || dst.Len() != 45 || dst.CheckShape() != nil {
		t.Fatalf("%d rows, %v, %v", dst.Len(), err, dst.CheckShape())
	}
	if err := b.GatherSpan(0, b.Rows(), true, &dst); err != nil || dst.CheckShape() != nil {
		t.Fatalf("keys: %v", err)
	}
}
