package segment

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// randomBatch makes an unstamped batch of a random shape.
func randomBatch(t testing.TB) *record.Batch { return randomInput(randomSource(t), 300).Rows }

func TestRowsEntryModel(t *testing.T) {
	rng := randomSource(t)
	var got record.Batch
	for range 200 {
		b := randomInput(rng, rng.IntN(200)).Rows
		var rows []uint32
		want := rows
		for i := range b.Len() {
			want = append(want, uint32(i))
		}
		if rng.IntN(2) == 0 {
			rows = []uint32{}
			for range rng.IntN(30) {
				if b.Len() > 0 {
					rows = append(rows, uint32(rng.IntN(b.Len())))
				}
			}
			want = rows
		}
		h := RowsHeader{Seq: rng.Uint64(), FirstAcqNs: rng.Int64(), BatchEntries: rng.Uint32(),
			BatchFirstAcqNs: rng.Int64(), BatchRecords: rng.Uint32(), Writer: [16]byte{1, 15: 9},
			Persistent: rng.IntN(2) == 0}
		if rows == nil && rng.IntN(2) == 0 {
			h.HasAcqs, b.AcqNs = true, make([]int64, b.Len())
			for i, acq := 0, h.FirstAcqNs; i < b.Len(); i++ {
				b.AcqNs[i] = acq
				acq += 1 + rng.Int64N(3)
			}
			if h.EqualAcqs = rng.IntN(2) == 0 && b.Len() > 2; h.EqualAcqs {
				b.AcqNs[1] = b.AcqNs[0]
			}
		}
		h.Packed = !h.HasAcqs && len(want) > 0 && rng.IntN(2) == 0
		entry := AppendRowsEntry([]byte("before"), &h, b, rows)
		var gotHeader RowsHeader
		if err := ParseRowsEntry(entry[6:], &gotHeader, &got); err != nil {
			t.Fatal(err)
		}
		if gotHeader != h || got.Len() != len(want) || got.CheckShape() != nil {
			t.Fatalf("got %d rows, %+v, %v; want %d, %+v",
				got.Len(), gotHeader, got.CheckShape(), len(want), h)
		}
		for k, i := range want {
			key := b.Key(int(i))
			if !h.HasAcqs {
				key.AcqNs = h.FirstAcqNs + int64(k)
			}
			if got.Key(k) != key || got.Tomb(k) != b.Tomb(int(i)) ||
				!bytes.Equal(got.Payload(k), b.Payload(int(i))) {
				t.Fatalf("row %d differs", k)
			}
		}
	}
}

// An entry that is cut anywhere, or longer than it says, is refused.
func TestRowsEntryCut(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	for i := range 40 {
		b := randomBatch(t)
		entry := AppendRowsEntry(nil, &RowsHeader{Packed: i%2 == 1}, b, nil)
		var h RowsHeader
		var got record.Batch
		for cut := range entry {
			if ParseRowsEntry(entry[:cut], &h, &got) == nil {
				t.Fatalf("entry of %d bytes parses when cut at %d", len(entry), cut)
			}
		}
		if ParseRowsEntry(append(entry, 0), &h, &got) == nil {
			t.Fatal("one byte more parses")
		}
	}
}

func TestRowsEntryHostile(t *testing.T) {
	b := &record.Batch{}
	for i := range 3 {
		b.Append(record.Key{CID: int32(i)}, []byte("four"))
	}
	f := func(offset int, value uint32) {
		t.Helper()
		entry := AppendRowsEntry(nil, &RowsHeader{}, b, nil)
		binary.LittleEndian.PutUint32(entry[offset:], value)
		var h RowsHeader
		var got record.Batch
		if err := ParseRowsEntry(entry, &h, &got); err == nil {
			t.Errorf("%#x at %d parses", value, offset)
		}
	}
	f(0, 1)               // version
	f(0, 3)               // version
	f(4, 4)               // rows
	f(4, 2)               // rows
	f(4, 0xffffffff)      // rows
	f(56, 5)              // stride
	f(56, 0xfffffffe)     // stride
	f(56, variedPayloads) // sizes are missing
	f(60, 1)              // tombstones are missing
	f(60, 2)              // acquisition times are missing
	f(60, 4)              // acquisition times that are shared, without any
	f(60, 8)              // packed, of before decimals
	f(60, 64)             // flags
	f(64, 13)             // payload bytes
	f(68, 1)              // payload bytes
	late := AppendRowsEntry(nil, &RowsHeader{FirstAcqNs: math.MaxInt64 - 2}, b, nil)
	if ParseRowsEntry(late, &RowsHeader{}, &record.Batch{}) == nil {
		t.Error("acquisition times beyond the greatest parse")
	}
	stamped := func(acqs ...int64) {
		t.Helper()
		b.AcqNs = acqs
		entry := AppendRowsEntry(nil, &RowsHeader{FirstAcqNs: 5, HasAcqs: true}, b, nil)
		if ParseRowsEntry(entry, &RowsHeader{}, &record.Batch{}) == nil {
			t.Errorf("acquisition times %d parse", acqs)
		}
	}
	stamped(6, 7, 8)
	stamped(5, 5, 6)
	stamped(5, 7, 6)
	stamped(5, 6, math.MaxInt64)
	b.AcqNs = []int64{5, 6, 5}
	falling := AppendRowsEntry(nil,
		&RowsHeader{FirstAcqNs: 5, HasAcqs: true, EqualAcqs: true}, b, nil)
	if ParseRowsEntry(falling, &RowsHeader{}, &record.Batch{}) == nil {
		t.Error("shared acquisition times that fall parse")
	}
}

// Whatever a byte of a packed entry is changed to, what parses is in shape and takes little memory.
func TestPackedRowsBent(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	rng := randomSource(t)
	parsed := 0
	var h RowsHeader
	var got record.Batch
	for range 40 {
		entry := AppendRowsEntry(nil, &RowsHeader{Packed: true},
			randomInput(rng, 1+rng.IntN(40)).Rows, nil)
		for at := range entry {
			was := entry[at]
			for _, v := range []byte{0, 1, was ^ 1, was + 1, 0x80, 56, 57, 64, 65, 0xff} {
				entry[at] = v
				if ParseRowsEntry(entry, &h, &got) != nil {
					continue
				}
				parsed++
				if err := got.CheckShape(); err != nil || got.Len() > record.MaxBatchRecords ||
					len(got.Data) > record.MaxBatchRecords*packedWords*wordBytes {
					t.Fatalf("%d at %d: %d rows, %d bytes, %v", v, at, got.Len(), len(got.Data),
						err)
				}
			}
			entry[at] = was
		}
	}
	if parsed == 0 {
		t.Fatal("nothing parses")
	}
}

// Rows that are alike take next to nothing.
func TestPackedRowsAreSmall(t *testing.T) {
	f := func(rows, want int, row func(i int) (record.Key, []byte)) {
		t.Helper()
		b := &record.Batch{}
		for i := range rows {
			key, payload := row(i)
			b.Append(key, payload)
		}
		if got := len(AppendRowsEntry(nil, &RowsHeader{Packed: true}, b, nil)); got > want {
			t.Errorf("%d rows take %d bytes, more than %d", rows, got, want)
		}
	}
	f(1000, rowsHeaderBytes+200, func(int) (record.Key, []byte) {
		return record.Key{MID: 1 << 40, CapNs: 1e18}, make([]byte, 16)
	})
	f(1000, 4000, func(i int) (record.Key, []byte) { // 10 bits, and 10 of seconds
		return record.Key{MID: int64(i) << 40, CapNs: int64(i%7) * 1e9}, []byte{byte(i)}
	})
	f(1000, 3600, func(i int) (record.Key, []byte) { // 10 bits, and 14 of a decimal
		return record.Key{MID: int64(i)}, decimalWords(float64(i*9)/1000, 0)
	})
}

func decimalWords(value float64, status uint64) []byte {
	return binary.LittleEndian.AppendUint64(
		binary.LittleEndian.AppendUint64(nil, math.Float64bits(value)), status)
}

// Words that look like decimals, or are almost some, come back bit by bit.
func TestPackedDecimals(t *testing.T) {
	rng := randomSource(t)
	odd := []float64{math.Copysign(0, -1), math.NaN(), math.Inf(1), 1e300, 1.0 / 3, 1 << 52,
		math.SmallestNonzeroFloat64}
	for run := range 400 {
		b := &record.Batch{}
		power := powersOf10[rng.IntN(len(powersOf10))]
		for range 1 + rng.IntN(300) {
			value := float64(rng.Int64N(1<<rng.IntN(50))-500) / power
			if run%2 == 1 && rng.IntN(100) == 0 {
				value = odd[rng.IntN(len(odd))]
			}
			b.Append(record.Key{}, decimalWords(value, rng.Uint64N(2)<<56))
		}
		var h RowsHeader
		var got record.Batch
		err := ParseRowsEntry(AppendRowsEntry(nil, &RowsHeader{Packed: true}, b, nil), &h, &got)
		if err != nil || !bytes.Equal(got.Data, b.Data) {
			t.Fatalf("run %d: %d payloads differ; %v", run, b.Len(), err)
		}
	}
}
