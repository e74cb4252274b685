package slots

import (
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestOf pins slots, which must never change: they say where records lie.
func TestOf(t *testing.T) {
	f := func(cid int32, mid int64, want uint32) {
		t.Helper()
		if got := Of(cid, mid); got != want {
			t.Errorf("Of(%d, %d) = %d, want %d", cid, mid, got, want)
		}
	}
	f(0, 0, 9456)
	f(0, 255, 9456) // 256 devices share one
	f(0, 256, 1602)
	f(1, 0, 3864)
	f(1<<31-1, 1<<63-1, 7214)
	f(0, -1, 14238)
}

func TestMemo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var memo Memo
	for range 100_000 {
		cid, mid := rng.Int32N(40), rng.Int64N(1<<20)
		if rng.IntN(4) == 0 {
			cid, mid = int32(rng.Uint32()), int64(rng.Uint64())
		}
		if got, want := memo.Of(cid, mid), Of(cid, mid); got != want {
			t.Fatalf("the slot of %d, %d is %d, want %d", cid, mid, got, want)
		}
	}
	if got := new(Memo).Of(0, 0); got != Of(0, 0) {
		t.Errorf("an empty memo says %d", got)
	}
}

func TestSpansCoverAllSlots(t *testing.T) {
	for _, parts := range []int{1, 2, 3, 7, 16, 100, 4096, Count} {
		next := uint32(0)
		for p := range parts {
			from, to := Span(p, parts)
			if from != next || to <= from {
				t.Fatalf("%d parts: part %d owns [%d, %d), want from %d", parts, p, from, to, next)
			}
			for s := from; s < to; s++ {
				if OwnerOf(s, parts) != p {
					t.Fatalf("%d parts: slot %d is not of part %d", parts, s, p)
				}
			}
			next = to
		}
		if next != Count {
			t.Fatalf("%d parts end at slot %d", parts, next)
		}
	}
}

// TestParts holds the parts of boxes against every device in them.
func TestParts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	few := 0
	for range 2000 {
		parts := 2 << r.IntN(12)
		var box record.Box
		cid, mid := r.Int64N(100), r.Int64N(1<<40)-1<<39
		cids, mids := 1+r.Int64N(2), 1+r.Int64N(6000)
		box[record.CID] = record.RangeSet{{From: cid, To: cid + cids}}
		box[record.MID] = record.RangeSet{{From: mid, To: mid + mids}}
		got := Owners(&box, parts)
		if got == nil {
			t.Fatalf("%v: all of %d parts", box, parts)
		}
		want := make([]bool, parts)
		for c := cid; c < cid+cids; c++ {
			for m := mid; m < mid+mids; m++ {
				want[OwnerOf(Of(int32(c), m), parts)] = true
			}
		}
		for p := range want {
			if got[p] != want[p] {
				t.Fatalf("%v: part %d of %d is %v, want %v", box, p, parts, got[p], want[p])
			}
			if !want[p] {
				few++
			}
		}
	}
	if few == 0 {
		t.Fatal("no box left a part out")
	}
}

func TestUnboundedBoxesMeetAllParts(t *testing.T) {
	f := func(cids, mids record.RangeSet) {
		t.Helper()
		var box record.Box
		box[record.CID], box[record.MID] = cids, mids
		if got := Owners(&box, 16); got != nil {
			t.Errorf("cids %v, mids %v: %v, want all", cids, mids, got)
		}
	}
	one := record.RangeSet{record.At(1)}
	f(nil, nil)
	f(one, nil)
	f(nil, one)
	f(one, record.RangeSet{record.All(record.MID)})
	f(record.RangeSet{record.All(record.CID)}, one)
	f(one, record.RangeSet{{From: 0, To: (maxDeviceRanges + 1) << DeviceRangeBits}})
}

func TestOnePartHoldsAll(t *testing.T) {
	box := record.Box{record.CID: {record.At(1)}, record.MID: {record.At(7)}}
	if got := Owners(&box, 1); got != nil {
		t.Errorf("%v of one part", got)
	}
}
