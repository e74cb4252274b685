package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// parseRanks reads what AppendRanks wrote of a number of rows. It keeps a copy of src.
//
// Cost: about 3 ns for each row of a group whose acqs are not consecutive.
func parseRanks(src []byte, rows uint32) (rankTable, error) {
	t := rankTable{rows: rows}
	if len(src) < ranksHeaderBytes {
		return t, fmt.Errorf("%d bytes are no table", len(src))
	}
	if v := binary.LittleEndian.Uint32(src); v != ranksVersion {
		return t, &VersionError{v, ranksVersion}
	}
	if n := binary.LittleEndian.Uint32(src[4:]); n != rows || rows == 0 {
		return t, fmt.Errorf("table of %d ranks, there are %d rows", n, rows)
	}
	at := uint64(ranksHeaderBytes) + (uint64(t.groups())+1)*rankEntryBytes
	if uint64(len(src)) < at+ranksPadding || uint64(len(src)) > math.MaxUint32 {
		return t, fmt.Errorf("%d rows in %d bytes", rows, len(src))
	}
	t.src = bytes.Clone(src)
	for _, b := range t.src[len(src)-ranksPadding:] {
		if b != 0 {
			return t, errors.New("the padding is not zero")
		}
	}
	lastNs := int64(math.MinInt64)
	for group := range t.groups() {
		firstNs, _ := t.entry(group)
		if firstNs < lastNs {
			return t, fmt.Errorf("group %d starts before group %d ends", group, group-1)
		}
		t.shared = t.shared || group > 0 && firstNs == lastNs
		var err error
		if lastNs, at, err = t.checkGroup(group, at); err != nil {
			return t, fmt.Errorf("group %d: %w", group, err)
		}
	}
	if acqNs, offset := t.entry(t.groups()); acqNs != lastNs || uint64(offset) != at ||
		at != uint64(len(src)-ranksPadding) {
		return t, fmt.Errorf("the last group ends at %d with acq %d; the table at %d with %d", at,
			lastNs, len(src)-ranksPadding, acqNs)
	}
	return t, nil
}

// checkGroup checks the data of a group, which begins at an offset, and returns the last acq and
// where the data ends.
func (t *rankTable) checkGroup(group uint32, at uint64) (lastNs int64, end uint64, err error) {
	firstNs, offset := t.entry(group)
	_, next := t.entry(group + 1)
	if uint64(offset) != at || next < offset || uint64(next) > uint64(len(t.src)-ranksPadding) {
		return 0, 0, fmt.Errorf("it is stored from %d to %d; the one before ends at %d", offset,
			next, at)
	}
	// The greatest acq is reserved.
	n, limit := t.groupLen(group), uint64(math.MaxInt64-1)-uint64(firstNs)
	if firstNs == math.MaxInt64 {
		return 0, 0, errors.New("its first row has no acq")
	}
	ahead := uint64(n - 1)
	if next > offset {
		if err := checkRankGroup(t.src[offset:next], n); err != nil {
			return 0, 0, err
		}
		g := openRankGroup(t.src[offset:], n)
		if ahead, err = g.check(limit); err != nil {
			return 0, 0, err
		}
		t.shared = t.shared || g.step() == 0
	}
	if ahead > limit {
		return 0, 0, fmt.Errorf("the last of its %d rows has no acq", n)
	}
	return firstNs + int64(ahead), uint64(next), nil
}

// checkRankGroup checks that all of the group whose data is src is there.
func checkRankGroup(src []byte, n uint32) error {
	if len(src) < groupHeadBytes {
		return fmt.Errorf("%d bytes are no group", len(src))
	}
	jumps, step := uint32(binary.LittleEndian.Uint16(src)), src[2]
	jumpWidth, lowWidth := src[3], src[4]
	highBits := uint32(binary.LittleEndian.Uint16(src[6:]))
	if step > 1 || src[5] != 0 || jumps >= n {
		return fmt.Errorf("step %d, %d jumps in %d ranks", step, jumps, n)
	}
	if jumpWidth > maxPackedWidth && jumpWidth != 64 || lowWidth > maxPackedWidth ||
		highBits == 0 && lowWidth > 0 {
		return fmt.Errorf("values of %d and %d bits", jumpWidth, lowWidth)
	}
	size := groupHeadBytes + 2*jumps + packedBytes(jumps, jumpWidth)
	if highBits > 0 {
		size += packedBytes(n, lowWidth) + (highBits+7)/8
	}
	if uint64(len(src)) != uint64(size) {
		return fmt.Errorf("%d bytes, it takes %d", len(src), size)
	}
	return nil
}

// check checks that acqs ascend and are ahead of the first by no more than a limit. It returns how
// far the last one is.
func (g *rankGroup) check(limit uint64) (last uint64, err error) {
	position, jumped := uint32(0), uint64(0)
	for jump := range g.jumps() {
		at, to := g.position(jump), g.jumped(jump)
		if at <= position || at >= g.n || to <= jumped {
			return 0, fmt.Errorf("jump %d by %d at %d does not come after %d at %d", jump, to, at,
				jumped, position)
		}
		position, jumped = at, to
	}
	gaps, err := g.checkGaps(limit)
	if err != nil {
		return 0, err
	}
	steps := g.step() * uint64(g.n-1)
	if gaps > limit || jumped > limit-gaps || steps > limit-gaps-jumped {
		return 0, errors.New("rows at its end have no acq")
	}
	return gaps + jumped + steps, nil
}

// checkGaps checks that the sums of gaps ascend, and returns the last one.
func (g *rankGroup) checkGaps(limit uint64) (sum uint64, err error) {
	rank := uint32(0)
	for at := uint32(0); at < g.highBits(); at += 64 {
		word := binary.LittleEndian.Uint64(g.src[g.highs()+at/8:])
		if left := g.highBits() - at; left < 64 {
			if word&(1<<((left+7)&^7)-1)>>left != 0 {
				return 0, errors.New("ones follow its highs")
			}
			word &= 1<<left - 1
		}
		for ; word != 0; word &= word - 1 {
			high := at + uint32(bits.TrailingZeros64(word)) - rank
			if rank == g.n || uint64(high) > limit>>g.lowWidth() {
				return 0, fmt.Errorf("its highs have more than %d ones, or are too high", g.n)
			}
			to := g.gaps(rank, high)
			if to < sum {
				return 0, fmt.Errorf("rank %d comes before rank %d", rank, rank-1)
			}
			sum, rank = to, rank+1
		}
	}
	if g.highBits() > 0 && rank != g.n {
		return 0, fmt.Errorf("its highs have %d ones for %d ranks", rank, g.n)
	}
	return sum, nil
}
