package segment

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// encoder holds the memory that encoding one block hands to the next.
type encoder struct {
	header        blockHeader
	rows          rowsOf // of the block, until it is written
	columnHeaders []byte
	columnData    []byte   // packed columns and what else follows the headers
	front         []byte   // the two put together
	values        []uint64 // the column being encoded
	best          []uint64 // packed values of the best encoding so far
	spare         []uint64
	dict          []uint64
	slots         [dictSlots]uint16 // hash table: 1 + entry of dict, 0 for free
	chunks        chunkEncoder
	runs          runEncoder
	subRuns       subRunEncoder
	hasRuns       bool // the block that is encoded
	clockHeader   []byte
	lines         lineEncoder
	flagList      []byte
	frameEnds     []uint16
	frameLeast    []uint64
}

const (
	// minWordWidth is a width that no other encoding can improve enough to be worth a try.
	minWordWidth = 3
	// decimalSamples is how many words are tried before all are.
	decimalSamples = 16
	// maxDict bounds a dictionary: a quarter of the largest block. The table is half empty.
	maxDict   = maxBlockRows / 4
	dictBits  = 12
	dictSlots = 1 << dictBits
)

// appendWord encodes values, one 64-bit word of every payload, in whatever of its three forms is
// smallest.
func (e *encoder) appendWord() {
	n := len(e.values)
	e.best = append(e.best[:0], e.values...)
	c := column{kind: columnFOR, forCoding: rebaseWords(e.best)}
	size := c.bytes(n)
	if c.width > minWordWidth {
		f, spare, exponent, ok := decimals(e.values, e.spare)
		if e.spare = spare; ok && f.width < c.width {
			c, size = column{kind: columnDec, exponent: exponent, forCoding: f}, f.bytes(n)
			e.best, e.spare = e.spare, e.best
		}
		if f, ok := e.dictionary(size); ok {
			c = column{kind: columnDict, forCoding: f}
			e.best, e.spare = e.spare, e.best
		}
	}
	e.columnHeaders = append(e.columnHeaders, c.kind)
	switch c.kind {
	case columnDec:
		e.columnHeaders = append(e.columnHeaders, c.exponent)
	case columnDict:
		e.columnHeaders = binary.LittleEndian.AppendUint32(e.columnHeaders, uint32(len(e.dict)))
		for _, v := range e.dict {
			e.columnData = binary.LittleEndian.AppendUint64(e.columnData, v)
		}
	}
	e.appendFramable(&c.forCoding, e.best)
}

// minDictionaryWidth is up to which width devices are not worth a dictionary.
const minDictionaryWidth = 16

// appendDictionary writes devices as numbers of a dictionary in ascending order, when that is
// smaller: ids that are random numbers take 8 bytes each otherwise. Order stays order of numbers.
func (e *encoder) appendDictionary() bool {
	f, ok := e.dictionary(8 * len(e.values))
	if !ok || f.width == 0 {
		return false
	}
	e.best = append(e.best[:0], e.dict...)
	slices.SortFunc(e.dict, func(a, b uint64) int { return cmp.Compare(int64(a), int64(b)) })
	for i, v := range e.best { // number by appearance -> number in order
		at, _ := slices.BinarySearchFunc(e.dict, v, func(a, b uint64) int {
			return cmp.Compare(int64(a), int64(b))
		})
		e.best[i] = uint64(at)
	}
	for i, number := range e.spare {
		e.spare[i] = e.best[number]
	}
	e.columnHeaders = binary.LittleEndian.AppendUint32(e.columnHeaders, uint32(len(e.dict)))
	e.columnHeaders = appendFOR(e.columnHeaders, &f)
	for _, v := range e.dict {
		e.columnData = binary.LittleEndian.AppendUint64(e.columnData, v)
	}
	e.columnData = appendPacked(e.columnData, e.spare, f.width)
	return true
}

// rebaseWords is rebase for words, whose order does not matter: they are taken as signed or
// unsigned, whichever spans less.
func rebaseWords(values []uint64) forCoding {
	first := values[0]
	slo, shi, ulo, uhi := int64(first), int64(first), first, first
	for _, v := range values {
		slo, shi = min(slo, int64(v)), max(shi, int64(v))
		ulo, uhi = min(ulo, v), max(uhi, v)
	}
	if uhi-ulo < uint64(shi)-uint64(slo) {
		return rebase(values, int64(ulo), int64(uhi))
	}
	return rebase(values, slo, shi)
}

// decimals tries to write words as float64 of few decimals: integers over a power of ten, whose
// quotients are the words bit by bit. It returns the packed integers, in the memory of spare.
func decimals(words, spare []uint64) (f forCoding, packed []uint64, exponent uint8, ok bool) {
	step := max(1, len(words)/decimalSamples)
	for i := 0; i < len(words); i += step {
		for !isDecimal(words[i], powersOf10[exponent]) {
			if exponent++; int(exponent) == len(powersOf10) {
				return forCoding{}, spare, 0, false
			}
		}
	}
	spare = slices.Grow(spare[:0], len(words))[:len(words)]
	for ; int(exponent) < len(powersOf10); exponent++ {
		if lo, hi, ok := toDecimals(words, spare, powersOf10[exponent]); ok {
			return rebase(spare, lo, hi), spare, exponent, true
		}
	}
	return forCoding{}, spare, 0, false
}

// toDecimals writes words times a power of ten into out; it fails at the first word that would not
// come back.
func toDecimals(words, out []uint64, power float64) (lo, hi int64, ok bool) {
	lo, hi = math.MaxInt64, math.MinInt64
	for i, word := range words {
		n, ok := toDecimal(word, power)
		if !ok {
			return 0, 0, false
		}
		out[i] = uint64(n)
		lo, hi = min(lo, n), max(hi, n)
	}
	return lo, hi, true
}

func isDecimal(word uint64, power float64) bool {
	_, ok := toDecimal(word, power)
	return ok
}

// toDecimal returns n with fromDecimal(n, power) == word.
func toDecimal(word uint64, power float64) (n int64, ok bool) {
	// Adding and subtracting 1.5 * 2^52 rounds to an integer. The conversion keeps compilers from
	// fusing product and sum, so that all machines write the same bytes.
	const rounder = 3 << 51
	scaled := float64(math.Float64frombits(word) * power)
	if !(scaled > -1<<50 && scaled < 1<<50) {
		return 0, false
	}
	n = int64(scaled + rounder - rounder)
	return n, fromDecimal(n, power) == word
}

// dictionary tries to number the distinct words; the numbers are left in spare. It gives up when
// it cannot come below size bytes.
func (e *encoder) dictionary(size int) (forCoding, bool) {
	n := len(e.values)
	limit := min(n/4, maxDict, size/8)
	e.spare, e.dict = slices.Grow(e.spare[:0], n)[:n], e.dict[:0]
	clear(e.slots[:])
	for i, v := range e.values {
		at := v * 0x9e3779b97f4a7c15 >> (64 - dictBits)
		for e.slots[at] != 0 && e.dict[e.slots[at]-1] != v {
			at = (at + 1) % dictSlots
		}
		if e.slots[at] == 0 {
			if len(e.dict) >= limit {
				return forCoding{}, false
			}
			e.dict = append(e.dict, v)
			e.slots[at] = uint16(len(e.dict))
		}
		e.spare[i] = uint64(e.slots[at] - 1)
	}
	f := forCoding{gcd: 1, width: uint8(bits.Len(uint(len(e.dict) - 1)))}
	return f, f.bytes(n)+8*len(e.dict) < size
}
