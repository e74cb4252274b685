package record

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestBatch holds a batch against a slice of records.
func TestBatch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var b Batch
	for range 300 {
		b.Reset()
		stamped := rng.IntN(2) == 0
		var want []Record
		ragged := rng.IntN(2) == 0
		size := rng.IntN(20)
		for range rng.IntN(60) {
			if ragged && rng.IntN(4) == 0 {
				size = rng.IntN(20)
			}
			r := Record{Key: Key{rng.Int32(), rng.Int64(), -rng.Int32(), -rng.Int64(), 0},
				Payload: make([]byte, size)}
			for i := range r.Payload {
				r.Payload[i] = byte(rng.Uint32())
			}
			if stamped {
				r.AcqNs = rng.Int64()
				b.AppendStamped(r.Key, r.Payload)
			} else {
				b.Append(r.Key, r.Payload)
			}
			want = append(want, r)
		}
		if err := b.CheckShape(); err != nil || b.Len() != len(want) {
			t.Fatalf("%d records, want %d, %v", b.Len(), len(want), err)
		}
		for i, r := range want {
			got := b.Record(i)
			if got.Key != r.Key || b.Key(i) != r.Key || !slices.Equal(got.Payload, r.Payload) {
				t.Fatalf("record %d is %+v, want %+v", i, got, r)
			}
			if cap(got.Payload) != len(got.Payload) {
				t.Fatalf("appending to payload %d would change the next", i)
			}
		}
	}
}

func TestDensePayloads(t *testing.T) {
	var b Batch
	for range 3 {
		b.Append(Key{}, []byte("12345678"))
	}
	if b.Offsets != nil || b.Stride != 8 {
		t.Errorf("equal payloads are not dense: stride %d, offsets %v", b.Stride, b.Offsets)
	}
	b.Append(Key{}, nil)
	if want := []uint32{0, 8, 16, 24, 24}; !slices.Equal(b.Offsets, want) || b.Stride != 0 {
		t.Errorf("offsets %v, want %v", b.Offsets, want)
	}
}

func TestValidate(t *testing.T) {
	f := func(part string, reason Reason, want string, change func(b *Batch)) {
		t.Helper()
		var b Batch
		for range 3 {
			b.Append(Key{CID: 1, MID: 2, MOID: 3, CapNs: 4}, []byte("x"))
		}
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&b)
		refused(t, want, b.Validate(), part, reason, want)
	}
	f("cid", ReservedMaximum, "row 1: cid", func(b *Batch) { b.CID[1] = math.MaxInt32 })
	f("cid", OutOfRange, "row 2: cid: out of range: -1", func(b *Batch) { b.CID[2] = -1 })
	f("mid", ReservedMaximum, "row 0: mid", func(b *Batch) { b.MID[0] = math.MaxInt64 })
	f("moid", ReservedMaximum, "row 1: moid", func(b *Batch) { b.MOID[1] = math.MaxInt32 })
	f("cap", ReservedMaximum, "row 1: cap", func(b *Batch) { b.CapNs[1] = math.MaxInt64 })
	f("batch", EmptyRange, "holds no records", func(b *Batch) { b.Reset() })
	f("batch", TooMany, "65537 records", func(b *Batch) {
		*b = Batch{CID: make([]int32, MaxBatchRecords+1)}
	})
	f("batch", Inconsistent, "columns differ", func(b *Batch) { b.MID = b.MID[:2] })
	f("batch", Inconsistent, "columns differ", func(b *Batch) { b.AcqNs = make([]int64, 2) })
	f("payload", Inconsistent, "are not 3 payloads", func(b *Batch) { b.Data = b.Data[:2] })
	f("payload", Inconsistent, "are not 3 payloads", func(b *Batch) { b.Stride = -1 })
	f("payload", Inconsistent, "do not span", func(b *Batch) {
		b.Offsets, b.Stride = []uint32{0, 1, 2}, 0
	})
	f("payload", Inconsistent, "row 1 run backwards", func(b *Batch) {
		b.Offsets, b.Stride = []uint32{0, 2, 1, 3}, 0
	})
	f("payload", TooLarge, "33554433 bytes, at most 33554432", func(b *Batch) {
		b.Append(Key{}, make([]byte, MaxPayloadBytes+1))
	})
	f("payload", TooLarge, "batch holds 67108865 payload bytes", func(b *Batch) {
		*b = Batch{}
		for _, size := range []int{MaxPayloadBytes, MaxPayloadBytes, 1} {
			b.Append(Key{}, make([]byte, size))
		}
	})
	var b Batch
	b.Append(Key{MID: math.MinInt64, MOID: math.MinInt32, CapNs: math.MinInt64},
		make([]byte, MaxPayloadBytes))
	b.Append(Key{CID: math.MaxInt32 - 1, MID: math.MaxInt64 - 1, MOID: math.MaxInt32 - 1,
		CapNs: math.MaxInt64 - 1}, nil)
	if err := b.Validate(); err != nil {
		t.Errorf("the extremes: %v", err)
	}
}

func TestKeys(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		pick := func() Key {
			return Key{rng.Int32N(2), rng.Int64N(2) - 1, rng.Int32N(2), rng.Int64N(2),
				rng.Int64N(2)}
		}
		a, b := pick(), pick()
		want := 0
		for d := range Dim(NumDims) {
			want = cmp.Or(want, cmp.Compare(a.Part(d), b.Part(d)))
		}
		if got := a.Compare(b); got != want {
			t.Fatalf("%v against %v: %d, want %d", a, b, got, want)
		}
	}
	names := make([]string, 0, NumDims)
	for d := range Dim(NumDims) {
		names = append(names, d.String())
	}
	if got := strings.Join(names, " ") + " " + Dim(9).String(); got != "cid mid moid cap acq dim?" {
		t.Errorf("dimensions are called %s", got)
	}
}

func TestFormatNs(t *testing.T) {
	f := func(ns int64, want string) {
		t.Helper()
		if got := FormatNs(ns); got != want {
			t.Errorf("%d: %s, want %s", ns, got, want)
		}
	}
	f(0, "1970-01-01T00:00:00.000000000Z")
	f(-1, "1969-12-31T23:59:59.999999999Z")
	f(1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456789Z")
	f(math.MaxInt64, "2262-04-11T23:47:16.854775807Z")
	f(math.MinInt64, "1677-09-21T00:12:43.145224192Z")
}
