package index

import (
	"encoding/binary"
	"math/bits"
)

// Layout of a rank table, node/segment/FORMAT.md section 8.
const (
	ranksVersion     = 2     // 1: 12 bytes for each run of consecutive acqs; 2: packed groups
	ranksHeaderBytes = 4 + 4 // version, rows
	rankEntryBytes   = 8 + 4 // of the directory: first acq, offset
	groupHeadBytes   = 8     // jumps, step, width of jumps, width of lows, zero, bits of highs
	ranksPadding     = 8     // zeros at the end, so that loads stay inside

	// groupShift: 512 ranks in a group. Fewer make the directory longer, more make a search in a
	// group slower.
	groupShift = 9
	groupRanks = 1 << groupShift
)

// rankTable turns ranks into acquisition times and back. It keeps them as the file does: a group of
// 512 ranks whose acqs are consecutive is an entry of the directory and nothing else.
type rankTable struct {
	src    []byte // that was checked
	rows   uint32
	shared bool // there are rows with the same acquisition time
}

// entry returns the first acq of a group, the last one of the table for what follows the last
// group, and where its data begins.
func (t *rankTable) entry(group uint32) (firstNs int64, offset uint32) {
	e := t.src[ranksHeaderBytes+int(group)*rankEntryBytes:]
	return int64(binary.LittleEndian.Uint64(e)), binary.LittleEndian.Uint32(e[8:])
}

func (t *rankTable) groups() uint32 {
	return uint32((uint64(t.rows) + groupRanks - 1) >> groupShift)
}

// groupLen returns the number of ranks in a group.
func (t *rankTable) groupLen(group uint32) uint32 {
	return min(groupRanks, t.rows-group<<groupShift)
}

func (t *rankTable) acqOf(rank uint32) int64 {
	group, i := rank>>groupShift, rank&(groupRanks-1)
	e := t.src[ranksHeaderBytes+int(group)*rankEntryBytes:][:2*rankEntryBytes] // with the next
	firstNs, offset := int64(binary.LittleEndian.Uint64(e)), binary.LittleEndian.Uint32(e[8:])
	if offset == binary.LittleEndian.Uint32(e[rankEntryBytes+8:]) {
		return firstNs + int64(i)
	}
	g := openRankGroup(t.src[offset:], t.groupLen(group))
	return firstNs + int64(g.ahead(i))
}

// replaceByAcqs is acqOf of many ranks.
func (t *rankTable) replaceByAcqs(ranks []int64) {
	directory := t.src[ranksHeaderBytes:]
	for i, rank := range ranks {
		e := directory[int(rank>>groupShift)*rankEntryBytes:][:2*rankEntryBytes]
		if binary.LittleEndian.Uint32(e[8:]) != binary.LittleEndian.Uint32(e[rankEntryBytes+8:]) {
			ranks[i] = t.acqOf(uint32(rank))
			continue
		}
		ranks[i] = int64(binary.LittleEndian.Uint64(e)) + rank&(groupRanks-1)
	}
}

// below returns how many of the rows have an acq below an acq.
func (t *rankTable) below(acqNs int64) uint32 {
	lo, hi := uint32(0), t.groups() // groups before lo begin below it, those from hi on do not
	for lo < hi {
		middle := (lo + hi) / 2
		if firstNs, _ := t.entry(middle); firstNs < acqNs {
			lo = middle + 1
		} else {
			hi = middle
		}
	}
	if lo == 0 {
		return 0
	}
	group := lo - 1
	firstNs, offset := t.entry(group)
	n, ahead := t.groupLen(group), uint64(acqNs)-uint64(firstNs)
	if _, end := t.entry(group + 1); offset == end {
		return group<<groupShift + uint32(min(uint64(n), ahead))
	}
	g := openRankGroup(t.src[offset:], n)
	return group<<groupShift + g.below(ahead)
}

// appendAcqs appends the acqs of a group.
func (t *rankTable) appendAcqs(dst []int64, group uint32) []int64 {
	firstNs, offset := t.entry(group)
	n := t.groupLen(group)
	if _, end := t.entry(group + 1); offset != end {
		g := openRankGroup(t.src[offset:], n)
		return g.appendAcqs(dst, firstNs)
	}
	for i := range n {
		dst = append(dst, firstNs+int64(i))
	}
	return dst
}

// rankGroup is a group whose acqs are not consecutive. How far a rank is ahead of the first one is
// the sum of a step for each rank, of the jumps up to it, and of the gaps up to it.
type rankGroup struct {
	src  []byte // header, u16 position of each jump, sums of jumps, lows, highs
	head uint64
	n    uint32
}

// openRankGroup opens a group of n ranks, which checkRankGroup has seen.
func openRankGroup(src []byte, n uint32) rankGroup {
	return rankGroup{src: src, head: binary.LittleEndian.Uint64(src), n: n}
}

// jumps returns the number of jumps.
func (g *rankGroup) jumps() uint32 { return uint32(uint16(g.head)) }

// step returns 0 where rows share acqs, else 1.
func (g *rankGroup) step() uint64 { return g.head >> 16 & 0xff }

func (g *rankGroup) jumpWidth() uint8 { return uint8(g.head >> 24) }

func (g *rankGroup) lowWidth() uint8 { return uint8(g.head >> 32) }

// highBits returns how many bits the highs have, 0 where there are no gaps.
func (g *rankGroup) highBits() uint32 { return uint32(g.head >> 48) }

// sums returns where the sums of jumps begin.
func (g *rankGroup) sums() uint32 { return groupHeadBytes + 2*g.jumps() }

// lows returns where the low bits of the sums of gaps begin.
func (g *rankGroup) lows() uint32 { return g.sums() + packedBytes(g.jumps(), g.jumpWidth()) }

// highs returns where the high bits of the sums of gaps begin.
func (g *rankGroup) highs() uint32 { return g.lows() + packedBytes(g.n, g.lowWidth()) }

// packedBytes returns the size of a column of packed values.
func packedBytes(values uint32, width uint8) uint32 { return (values*uint32(width) + 7) / 8 }

// unpack returns a value of a packed column.
func unpack(column []byte, i uint32, width uint8) uint64 {
	at := i * uint32(width)
	return binary.LittleEndian.Uint64(column[at>>3:]) >> (at & 7) & (1<<width - 1)
}

// position returns the rank that a jump is before.
func (g *rankGroup) position(jump uint32) uint32 {
	return uint32(binary.LittleEndian.Uint16(g.src[groupHeadBytes+2*jump:]))
}

// jumped returns the sum of the jumps up to and with one.
func (g *rankGroup) jumped(jump uint32) uint64 {
	return unpack(g.src[g.sums():], jump, g.jumpWidth())
}

// gaps returns the sum of the gaps up to a rank, whose high bits are given.
func (g *rankGroup) gaps(i, high uint32) uint64 {
	width := g.lowWidth()
	return uint64(high)<<width | unpack(g.src[g.lows():], i, width)
}

// ahead returns how far a rank of the group is ahead of the first acq.
func (g *rankGroup) ahead(i uint32) uint64 {
	sum := g.step() * uint64(i)
	if g.highBits() > 0 {
		sum += g.gaps(i, g.high(i))
	}
	jumps := g.jumps()
	jump := jumps * i >> groupShift // a guess, which is right for batches of one size
	for jump < jumps && g.position(jump) <= i {
		jump++
	}
	for jump > 0 && g.position(jump-1) > i {
		jump--
	}
	if jump > 0 {
		sum += g.jumped(jump - 1)
	}
	return sum
}

// high returns the high bits of the gaps up to a rank: how many zeros of the highs, which have a
// one for each rank, are before its one.
func (g *rankGroup) high(i uint32) uint32 {
	highs, left := g.src[g.highs():], int(i) // ones before it
	for at := uint32(0); ; at += 64 {
		word := binary.LittleEndian.Uint64(highs[at/8:])
		ones := bits.OnesCount64(word)
		if left < ones {
			return at + selectBit(word, left) - i
		}
		left -= ones
	}
}

// selectBit returns the position of the one in a word that has a number of ones before it.
func selectBit(word uint64, before int) (bit uint32) {
	for half := uint32(32); half > 0; half /= 2 {
		if ones := bits.OnesCount64(word & (1<<half - 1)); before >= ones {
			before -= ones
			word >>= half
			bit += half
		}
	}
	return bit
}

// below returns how many ranks of the group are less far ahead of the first acq.
func (g *rankGroup) below(ahead uint64) uint32 {
	lo, hi := uint32(1), g.n // ranks before lo are less, those from hi on are not
	for lo < hi {
		if middle := (lo + hi) / 2; g.ahead(middle) < ahead {
			lo = middle + 1
		} else {
			hi = middle
		}
	}
	return lo
}

// appendAcqs appends the acqs of the group.
func (g *rankGroup) appendAcqs(dst []int64, firstNs int64) []int64 {
	start, step, jump, jumped := len(dst), int64(g.step()), uint32(0), uint64(0)
	for i := range g.n {
		if jump < g.jumps() && g.position(jump) == i {
			jumped = g.jumped(jump)
			jump++
		}
		dst = append(dst, firstNs+int64(jumped)+step*int64(i))
	}
	if g.highBits() == 0 {
		return dst
	}
	acqs, highs, i := dst[start:], g.src[g.highs():], uint32(0)
	for at := uint32(0); i < g.n; at += 64 {
		word := binary.LittleEndian.Uint64(highs[at/8:])
		for ; word != 0 && i < g.n; word &= word - 1 {
			acqs[i] += int64(g.gaps(i, at+uint32(bits.TrailingZeros64(word))-i))
			i++
		}
	}
	return dst
}
