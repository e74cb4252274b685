package index

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// rankBuilder makes a rank table of acqs that ascend. The zero value is ready.
type rankBuilder struct {
	rows      uint32
	lastNs    int64
	shared    bool
	directory []byte  // its offsets count from the beginning of data
	data      []byte  // of the groups
	group     []int64 // acqs of the group that is being filled
}

// add takes the acqs of the next ranks.
//
// Cost: about 2 ns a row.
func (b *rankBuilder) add(acqs ...int64) {
	for len(acqs) > 0 {
		n := min(len(acqs), groupRanks-len(b.group))
		b.shared = b.shared || b.rows > 0 && acqs[0] == b.lastNs
		b.group = append(b.group, acqs[:n]...)
		b.rows += uint32(n)
		b.lastNs, acqs = acqs[n-1], acqs[n:]
		if len(b.group) == groupRanks {
			b.endGroup()
		}
	}
}

func (b *rankBuilder) endGroup() {
	b.enter(b.group[0])
	var shared bool
	b.data, shared = appendRankGroup(b.data, b.group)
	b.shared = b.shared || shared
	b.group = b.group[:0]
}

func (b *rankBuilder) enter(acqNs int64) {
	b.directory = binary.LittleEndian.AppendUint64(b.directory, uint64(acqNs))
	b.directory = binary.LittleEndian.AppendUint32(b.directory, uint32(len(b.data)))
}

// finish returns the table, which is empty without rows. The builder takes no more.
func (b *rankBuilder) finish() rankTable {
	if b.rows == 0 {
		return rankTable{}
	}
	if len(b.group) > 0 {
		b.endGroup()
	}
	b.enter(b.lastNs)
	before := ranksHeaderBytes + len(b.directory)
	src := make([]byte, 0, before+len(b.data)+ranksPadding)
	src = binary.LittleEndian.AppendUint32(src, ranksVersion)
	src = binary.LittleEndian.AppendUint32(src, b.rows)
	src = append(src, b.directory...)
	for at := ranksHeaderBytes + 8; at < before; at += rankEntryBytes {
		offset := binary.LittleEndian.Uint32(src[at:])
		binary.LittleEndian.PutUint32(src[at:], offset+uint32(before))
	}
	src = append(append(src, b.data...), make([]byte, ranksPadding)...)
	return rankTable{src: src, rows: b.rows, shared: b.shared}
}

// appendRankGroup appends the data of a group, none where acqs are consecutive, and reports whether
// rows share acqs.
func appendRankGroup(dst []byte, acqs []int64) (out []byte, shared bool) {
	n, step := len(acqs), stepOf(acqs)
	if step == 1 && uint64(acqs[n-1])-uint64(acqs[0]) == uint64(n-1) {
		return dst, false
	}
	var memory [groupRanks]uint64
	gaps := memory[:n] // before each rank, beyond a step
	for i := 1; i < n; i++ {
		gaps[i] = uint64(acqs[i]) - uint64(acqs[i-1]) - step
	}
	longest := longestGap(gaps)
	var positions []byte
	var jumps []uint64 // added up
	gapSum, jumpSum := uint64(0), uint64(0)
	for i, gap := range gaps {
		if bits.Len64(gap) <= longest {
			gapSum += gap
		} else {
			jumpSum += gap
			positions = binary.LittleEndian.AppendUint16(positions, uint16(i))
			jumps = append(jumps, jumpSum)
		}
		gaps[i] = gapSum
	}
	jumpWidth, lowWidth, highBits := packedWidth(jumpSum), lowWidthOf(n, gapSum), 0
	if gapSum > 0 {
		highBits = n + int(gapSum>>lowWidth)
	}
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(jumps)))
	dst = append(dst, uint8(step), jumpWidth, lowWidth, 0)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(highBits))
	dst = appendPacked(append(dst, positions...), jumps, jumpWidth)
	if gapSum > 0 {
		dst = appendGaps(dst, gaps, lowWidth, highBits)
	}
	return dst, step == 0
}

// stepOf returns how far a rank is ahead of the one before at least.
func stepOf(acqs []int64) uint64 {
	for i := 1; i < len(acqs); i++ {
		if acqs[i] == acqs[i-1] {
			return 0
		}
	}
	return 1
}

// longestGap returns up to how many bits gaps have that are best added up for each rank. Each of
// the longer ones is a jump.
func longestGap(gaps []uint64) (longest int) {
	var sizes [65]struct {
		count int
		sum   uint64
	}
	jumpSum, gapSum := uint64(0), uint64(0)
	for _, gap := range gaps {
		size := &sizes[bits.Len64(gap)]
		size.count++
		size.sum += gap
		jumpSum += gap
	}
	jumps, best := len(gaps), math.MaxInt
	for size := range sizes {
		jumps -= sizes[size].count
		jumpSum -= sizes[size].sum
		gapSum += sizes[size].sum
		cost := jumps * (16 + int(packedWidth(jumpSum)))
		if gapSum > 0 {
			low := lowWidthOf(len(gaps), gapSum)
			cost += len(gaps)*(1+int(low)) + int(gapSum>>low)
		}
		if cost < best {
			longest, best = size, cost
		}
	}
	return longest
}

// lowWidthOf returns how many bits of the sum of gaps are packed for each of n ranks, so that the
// zeros that stand for the rest are at most two a rank; with gaps beyond centuries, 255.
func lowWidthOf(n int, gapSum uint64) uint8 {
	return uint8(min(maxPackedWidth, bits.Len64(gapSum/uint64(2*n))))
}

// appendGaps appends sums of gaps that ascend: their low bits, and a one for each after as many
// zeros as its high bits say.
func appendGaps(dst []byte, sums []uint64, lowWidth uint8, highBits int) []byte {
	highs := make([]byte, (highBits+7)/8)
	for i, sum := range sums {
		at := i + int(sum>>lowWidth)
		highs[at/8] |= 1 << (at % 8)
		sums[i] = sum & (1<<lowWidth - 1)
	}
	return append(appendPacked(dst, sums, lowWidth), highs...)
}
