package record

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// TestShapeOfLies refuses batches whose numbers only seem to fit together.
func TestShapeOfLies(t *testing.T) {
	f := func(want string, change func(b *Batch)) {
		t.Helper()
		const rows = 1 << 16
		b := Batch{CID: make([]int32, rows), MID: make([]int64, rows), MOID: make([]int32, rows),
			CapNs: make([]int64, rows)}
		change(&b)
		refused(t, want, b.CheckShape(), "payload", Inconsistent, want)
		refused(t, want, b.Validate(), "payload", Inconsistent, want)
	}
	// 2^48 times 2^16 is 2^64, which is 0 in 64 bits; as is 2^16 times 2^16 in 32 bits.
	const zero = math.MaxInt>>15 + 1
	f(fmt.Sprintf("are not 65536 payloads of %d", zero), func(b *Batch) { b.Stride = zero })
	f("are not 65536 payloads", func(b *Batch) { b.Stride = math.MaxInt })
	f("are not 65536 payloads of -1", func(b *Batch) { b.Stride = -1 })
	f("are not 65536 payloads of 0", func(b *Batch) { b.Data = make([]byte, 1<<16) })
	f("with offsets the stride is 0, not 8", func(b *Batch) {
		b.Stride, b.Offsets = 8, make([]uint32, 1<<16+1)
	})
	f("do not span", func(b *Batch) { b.Offsets = make([]uint32, 1<<16) })
	f("do not span", func(b *Batch) {
		b.Offsets = slices.Repeat([]uint32{1}, 1<<16+1)
		b.Data = []byte{0}
	})
}

// TestEmptyShapes are batches without records.
func TestEmptyShapes(t *testing.T) {
	f := func(b Batch, want bool) {
		t.Helper()
		if err := b.CheckShape(); (err == nil) != want {
			t.Errorf("%+v: %v", b, err)
		}
		if b.Validate() == nil {
			t.Errorf("%+v may be stored", b)
		}
	}
	f(Batch{}, true)
	f(Batch{AcqNs: []int64{}}, true)
	f(Batch{Stride: 8}, true)
	f(Batch{Offsets: []uint32{0}}, true)
	f(Batch{Offsets: []uint32{}}, false)
	f(Batch{Offsets: []uint32{0, 0}}, false)
	f(Batch{Data: []byte{0}}, false)
	f(Batch{Stride: 1, Data: []byte{0}}, false)
	f(Batch{AcqNs: []int64{1}}, false)
}

// TestResetForgetsStamps fills a batch that was stamped with records that are not, and back.
func TestResetForgetsStamps(t *testing.T) {
	var b Batch
	for i := range 6 {
		b.Reset()
		if i%2 == 0 {
			b.AppendStamped(Key{MID: 1, AcqNs: 7}, []byte("x"))
			b.AppendStamped(Key{MID: 2, AcqNs: 8}, nil)
		} else {
			b.Append(Key{MID: 1}, []byte("x"))
			b.Append(Key{MID: 2}, nil)
		}
		if err := b.Validate(); err != nil || (b.AcqNs != nil) != (i%2 == 0) || b.Len() != 2 {
			t.Fatalf("use %d: %+v, %v", i, b, err)
		}
	}
	b.AppendStamped(Key{AcqNs: 9}, nil)
	if b.CheckShape() == nil {
		t.Error("a batch takes stamped and unstamped records")
	}
}

// TestBatchReuse fills the memory of a batch again.
func TestBatchReuse(t *testing.T) {
	payload := []byte("12345678")
	var b Batch
	fill := func() {
		b.Reset()
		for i := range int64(100) {
			b.AppendStamped(Key{MID: i, AcqNs: i}, payload)
		}
	}
	fill()
	if n := testing.AllocsPerRun(20, fill); n > 0 {
		t.Errorf("filling a batch again allocates %v times", n)
	}
	if n := testing.AllocsPerRun(20, func() {
		if b.Validate() != nil || b.Key(7).MID != 7 || len(b.Payload(9)) != 8 {
			t.Error("wrong")
		}
	}); n > 0 {
		t.Errorf("validating and reading allocate %v times", n)
	}
}

// TestStampsLaidReady appends keys to a batch whose stamps are filled in later.
func TestStampsLaidReady(t *testing.T) {
	b := Batch{AcqNs: make([]int64, 2)}
	b.Append(Key{MID: 1}, nil)
	b.Append(Key{MID: 2}, nil)
	if err := b.CheckShape(); err != nil || len(b.AcqNs) != 2 {
		t.Errorf("%+v, %v", b, err)
	}
}
