package segment

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// exampleRows are the rows of the examples in FORMAT.md: two devices, temperatures and a status.
func exampleRows() *record.Batch {
	b := &record.Batch{}
	for _, r := range []struct {
		mid, capMs int64
		celsius    float64
		status     uint64
	}{{1001, 500, 21.5, 0}, {1000, 0, 20.1, 0}, {1000, 1000, 20.2, 0}, {1000, 500, 20.3, 1}} {
		payload := binary.LittleEndian.AppendUint64(nil, math.Float64bits(r.celsius))
		payload = binary.LittleEndian.AppendUint64(payload, r.status)
		b.Append(record.Key{CID: 7, MID: r.mid, MOID: 3, CapNs: r.capMs * 1e6}, payload)
	}
	return b
}

var exampleHeader = RowsHeader{Writer: [16]byte{0xaa, 15: 0xbb}, Seq: 3, FirstAcqNs: 1000,
	BatchFirstAcqNs: 990, BatchRecords: 14, BatchEntries: 2}

func exampleInput() *SealedInput {
	return &SealedInput{Rows: exampleRows(), Order: []uint32{1, 3, 2, 0}, BlockEnds: []uint32{3, 4},
		Flags: []uint64{1 << 3}, Meta: []byte("{}"),
		Sections: func([]uint64, []uint32) ([]Section, error) {
			return []Section{{ID: 1, Data: []byte("index")}}, nil
		}}
}

// exampleTexts are payloads that LZ4 makes smaller: one of them and its size vary.
func exampleTexts() *SealedInput {
	b := &record.Batch{}
	for _, text := range []string{"on on on on on on on on on on", "", "on on on on on on on on"} {
		b.Append(record.Key{CID: 7, MID: 1000, MOID: 4}, []byte(text))
	}
	return &SealedInput{Rows: b, Order: []uint32{0, 1, 2}, BlockEnds: []uint32{3}}
}

// exampleTombs are two readings, the first of which is deleted.
func exampleTombs() *SealedInput {
	b := &record.Batch{}
	b.Append(record.Key{CID: 7, MID: 1000, MOID: 4}, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	b.Append(record.Key{CID: 7, MID: 1001, MOID: 4}, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	b.AppendTomb(record.Key{CID: 7, MID: 1000, MOID: 4})
	return &SealedInput{Rows: b, Order: []uint32{0, 2, 1}, BlockEnds: []uint32{3},
		Flags: []uint64{1 << 2}}
}

// exampleRuns are two devices that send every 10 s, each second reading half a second late, and
// the second device after a pause of a minute.
func exampleRuns() *SealedInput {
	in := &SealedInput{Rows: &record.Batch{}, Order: make([]uint32, 320), BlockEnds: []uint32{320}}
	for rank := range 320 {
		mid, i := rank%2, rank/2
		capMs := i*10_000 + i%2*500
		if mid == 1 && i >= 80 {
			capMs += 60_000
		}
		position, value := mid*160+i, 0
		if position >= 256 {
			value = 1000 + i%2*3
		}
		in.Order[position] = uint32(rank)
		in.Rows.Append(record.Key{CID: 7, MID: 1000 + int64(mid), MOID: 3,
			CapNs: int64(capMs) * 1e6}, binary.LittleEndian.AppendUint64(nil, uint64(value)))
	}
	return in
}

// exampleClock is two readings of four devices, some seconds after a quarter of an hour and the
// next.
func exampleClock() *SealedInput {
	in := &SealedInput{Rows: &record.Batch{}, BlockEnds: []uint32{8}}
	const quarter = int64(15 * time.Minute)
	for tick := range int64(2) {
		for mid := range int64(4) {
			k := record.Key{CID: 7, MID: 1000 + mid, MOID: 3,
				CapNs: tick*quarter + (5*mid+tick)%4*int64(time.Second)}
			in.Rows.Append(k, nil)
		}
	}
	in.Order = []uint32{0, 4, 1, 5, 2, 6, 3, 7}
	return in
}

// exampleSubRuns is twelve readings of three devices, and six of a fourth one, some seconds after
// each quarter of an hour, of which six follow 20 days after the others. They are in two sub-runs
// of six quarters each.
func exampleSubRuns() *SealedInput {
	in := &SealedInput{Rows: &record.Batch{}, BlockEnds: []uint32{42}}
	const quarter = int64(15 * time.Minute)
	for i, from := range []int64{0, 20 * 24 * 4} {
		devices := int64(4 - i)
		first := uint32(in.Rows.Len())
		for tick := range int64(6) {
			for d := range devices {
				in.Rows.Append(record.Key{CID: 7, MID: 1000 + d, MOID: 3,
					CapNs: (from+tick)*quarter + d*int64(time.Second)}, nil)
			}
		}
		for d := range uint32(devices) {
			for tick := range uint32(6) {
				in.Order = append(in.Order, first+tick*uint32(devices)+d)
			}
		}
	}
	return in
}

// exampleLines is a reading of each of 64 devices, every second of which has a number that is by
// one greater than three times its place. The fifth one replaces an older one.
func exampleLines() *SealedInput {
	in := &SealedInput{Rows: &record.Batch{}, BlockEnds: []uint32{64}, Flags: []uint64{1 << 4}}
	for i := range 64 {
		in.Order = append(in.Order, uint32(i))
		in.Rows.Append(record.Key{CID: 7, MID: 1000 + int64(3*i+i%2), MOID: 3}, nil)
	}
	return in
}
