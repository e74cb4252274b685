package segment

import (
	"encoding/binary"
	"math"
	"reflect"
	"testing"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestPrefetchQueueNext: what is taken beside rows is all there is, part by part, and never
// beside more rows than are left, or so few that a call shows.
func TestPrefetchQueueNext(t *testing.T) {
	rng := randomSource(t)
	memory := make([]byte, 1<<16)
	for range 2000 {
		var l PrefetchQueue
		at, bytes := 0, 0
		for range 1 + rng.IntN(5) {
			p := byteRange{unsafe.Pointer(&memory[at]), 1 + rng.IntN(6000)}
			l.ranges = append(l.ranges, p)
			at, bytes = at+p.bytes+rng.IntN(100), bytes+p.bytes
		}
		pieces := append([]byteRange(nil), l.ranges...)
		covered, end := 0, uintptr(0)
		for left := 8 + rng.IntN(5000); left > 0 && l.pending(); {
			k := l.at
			from, step, rows := l.next(left)
			if rows < min(left, minInterleavedRows) || rows > left || rows < left && rows%8 != 0 ||
				step < 1 || step > cacheLineBytes {
				t.Fatalf("%d of %d rows, %d bytes with eight", rows, left, step)
			}
			start := uintptr(pieces[k].at)
			at, reach := uintptr(unsafe.Pointer(from)), step*(rows/8)
			if at < start || at > start && at != end {
				t.Fatalf("piece %d goes on at %#x, it ended at %#x", k, at, end)
			}
			covered += min(reach, int(start-at)+pieces[k].bytes)
			end, left = at+uintptr(reach), left-rows
		}
		for _, p := range l.ranges[l.at:] {
			covered += p.bytes
		}
		if covered != bytes {
			t.Fatalf("%d of %d bytes of %v: left are %v", covered, bytes, pieces, l.ranges[l.at:])
		}
		l.Finish()
		if l.pending() {
			t.Fatal("something is left")
		}
	}
}

// TestGatherWithPrefetchQueue: rows are the same whatever is loaded beside them.
func TestGatherWithPrefetchQueue(t *testing.T) {
	rng := randomSource(t)
	in := &SealedInput{Meta: []byte("{}"), Rows: &record.Batch{}}
	const rows = 4096
	for i := range rows {
		payload := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(i*i)/100))
		in.Rows.AppendStamped(record.Key{MID: int64(i * 7), AcqNs: int64(i)}, payload)
		in.Order = append(in.Order, uint32(i))
	}
	in.BlockEnds = []uint32{rows}
	b := firstBlock(t, mustSeal(t, in))
	var l PrefetchQueue
	for range 200 {
		var want, got record.Batch
		p := randomPositions(rng, rows)
		if err := b.GatherColumns(p.sel, p.spans, AllColumns, &want); err != nil {
			t.Fatal(err)
		}
		l.Set(b, randomPositions(rng, rows).spans, AllColumns)
		l.Attach(b)
		if err := b.GatherColumns(p.sel, p.spans, AllColumns, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("rows of %+v differ with loads", p)
		}
		l.Finish()
	}
}
