package segment

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
)

// PayloadFilter chooses rows of a block by their payloads. Where these are columns of words, the
// bounds of a condition become bounds of packed values once for a block; the header of a column,
// or its dictionary may say that no row meets it. The zero filter with a program can begin. It
// keeps its memory, and is used by one goroutine.
type PayloadFilter struct {
	Program *where.Program

	block   *Block
	rule    *where.Rule // of all rows; nil if several rules are
	leaves  []leaf      // of the rule
	matches []match     // of leaves
	entries []byte      // of leaves, one for each packed value: 1 if it meets the condition
	outcome outcome     // of the rule
	payload []byte      // of words that are looked at as bytes
	spare   [][]uint32

	fewRows  bool           // dictionaries are not looked through unless Rows gets many
	learning bool           // see Learn
	bounds   []where.Bounds // of the rule's fields
}

// outcome says which rows of a block meet a condition.
type outcome uint8

const (
	someRows outcome = iota
	noRow
	everyRow
)

// leaf is how a comparison is made in the block.
type leaf struct {
	outcome outcome
	test    leafTest
	column  *column
	shift   uint // of the field in the word
	mask    uint64
	// matches [from, to), or entries [from, to).
	from, to int
}

type leafTest uint8

const (
	testPayload leafTest = iota // the bytes are looked at
	testWord                    // the word is decoded
	testMatches                 // packed values are in matches
	testEntries                 // the entry of the dictionary is looked up
)

// fewTested rows are tested by themselves: to test each entry of a dictionary takes longer.
const fewTested = 64

// Begin begins the choice among rows of an open block whose quantities are between two, and reports
// that none of them can meet the condition. Where few of the rows will be asked for, it does not
// look at all entries of a dictionary.
func (f *PayloadFilter) Begin(b *Block, least, greatest int64, few bool) (none bool) {
	f.block, f.rule, f.fewRows, f.learning = b, nil, few, false
	rule, one := f.ruleOf(least, greatest)
	if !one || rule == nil {
		return one
	}
	f.begin(rule)
	return f.outcome == noRow
}

// ruleOf returns the rule of all quantities between two, nil if none speaks of them; not one if
// there are several.
func (f *PayloadFilter) ruleOf(least, greatest int64) (rule *where.Rule, one bool) {
	if least == greatest {
		return f.Program.Rule(int32(least)), true
	}
	for i := range f.Program.Rules {
		r := &f.Program.Rules[i]
		if r.MOIDs == nil {
			return r, true
		}
		for _, s := range r.MOIDs {
			if s[0] <= least && greatest < s[1] {
				return r, true
			}
			if s[0] <= greatest && least < s[1] {
				return nil, false
			}
		}
	}
	return nil, true
}

// begin prepares a rule for the block.
func (f *PayloadFilter) begin(rule *where.Rule) {
	f.rule = rule
	f.matches, f.entries = f.matches[:0], f.entries[:0]
	f.leaves = slices.Grow(f.leaves[:0], rule.Leaves)[:rule.Leaves]
	clear(f.leaves)
	b := f.block
	switch {
	case b.kind == payloadVariableChunks:
		f.outcome = someRows
	case rule.Unreadable:
		if f.outcome = noRow; !rule.Fits(b.stride) {
			f.outcome = everyRow
		}
	case !rule.Fits(b.stride): // the stride of empty payloads is 0
		f.outcome = noRow
	case b.kind == payloadEmpty:
		if f.outcome = noRow; rule.Node.Match(nil) {
			f.outcome = everyRow
		}
	case b.kind == payloadFixedColumns:
		f.outcome = f.prepare(&rule.Node)
	default:
		f.outcome = someRows
	}
}

// prepare prepares a node for payloads that are columns of words.
func (f *PayloadFilter) prepare(n *where.Node) outcome {
	var settles outcome // what one of the nodes below makes the outcome of all
	switch n.Kind {
	case where.AllOf:
		settles = noRow
	case where.AnyOf:
		settles = everyRow
	case where.NumberIn:
		l := f.numberLeaf(n)
		f.leaves[n.Leaf] = l
		return l.outcome
	default:
		return someRows
	}
	settled, open := false, false
	for i := range n.Subs {
		switch f.prepare(&n.Subs[i]) {
		case settles:
			settled = true
		case someRows:
			open = true
		}
	}
	switch {
	case settled:
		return settles
	case open:
		return someRows
	}
	return noRow + everyRow - settles
}

// numberLeaf prepares a comparison of a number.
func (f *PayloadFilter) numberLeaf(n *where.Node) leaf {
	at, size := n.Offset%wordBytes, uint32(n.Bits/8)
	if at+size > wordBytes {
		return leaf{}
	}
	l := leaf{test: testWord, column: &f.block.wordColumns[n.Offset/wordBytes],
		shift: uint(at) * 8, mask: math.MaxUint64 >> (64 - n.Bits), from: len(f.matches)}
	c := l.column
	switch {
	case c.kind == columnDict:
		return f.dictionaryLeaf(n, l)
	case c.width == 0:
		l.outcome = noRow
		if n.HasWord(c.value(0) >> l.shift & l.mask) {
			l.outcome = everyRow
		}
		return l
	case c.kind == columnDec && size == wordBytes && n.Float:
		f.matches = c.translateDecimals(n, f.matches)
	case c.kind == columnFOR && at+size == wordBytes:
		f.matches = c.translateWords(n.Words, l.shift, 0, f.matches)
	case c.kind == columnFOR && at == 0 && c.isUpper():
		f.matches = c.translateWords(n.Words, 0, c.base>>32<<32, f.matches)
	default:
		return l
	}
	l.test, l.to = testMatches, len(f.matches)
	switch all := f.matches[l.from:]; {
	case len(all) == 0:
		l.outcome = noRow
	case len(all) == 1 && all[0] == match{0, c.last()}:
		l.outcome = everyRow
	}
	return l
}

// last returns the greatest packed value that the column can have.
func (c *column) last() uint64 {
	if c.kind == columnDec {
		return min(c.maxPacked, (math.MaxInt64-c.base)/c.gcd)
	}
	return min(c.maxPacked, math.MaxUint64/c.gcd)
}

// isUpper reports whether all words have the same upper half.
func (c *column) isUpper() bool {
	return c.last() <= ((c.base|math.MaxUint32)-c.base)/c.gcd
}

// translateWords appends what ranges of numbers are in packed values. The number is the upper bits
// of a word, from shift on, or the lower half of one that has an upper half.
func (c *column) translateWords(
	words []where.Range, shift uint, upper uint64, dst []match,
) []match {
	start, last := len(dst), c.last()
	add := func(from, to uint64) {
		low, high := from/c.gcd+min(from%c.gcd, 1), min(to/c.gcd, last)
		if low <= high {
			dst = append(dst, match{low, high - low})
		}
	}
	for _, r := range words {
		low, high := upper|r.Low<<shift, upper|r.High<<shift|(1<<shift-1)
		from, to := low-c.base, high-c.base
		if from <= to {
			add(from, to)
		} else { // the base is in the range
			add(from, math.MaxUint64)
			add(0, to)
		}
	}
	return joinMatches(dst, start)
}

// joinMatches sorts the matches from start on, and joins those that touch.
func joinMatches(dst []match, start int) []match {
	all := dst[start:]
	if len(all) < 2 {
		return dst
	}
	slices.SortFunc(all, func(a, b match) int { return cmp.Compare(a.low, b.low) })
	k := 0
	for _, m := range all[1:] {
		if end := all[k].low + all[k].span; m.low <= end+1 {
			all[k].span = max(end, m.low+m.span) - all[k].low
			continue
		}
		k++
		all[k] = m
	}
	return dst[:start+k+1]
}

// translateDecimals appends what ranges of decimals are in packed values, which ascend with them.
func (c *column) translateDecimals(n *where.Node, dst []match) []match {
	start, end := len(dst), c.last()+1 // no overflow: base is an int64
	place := func(p uint64) uint64 {
		return n.Place(fromDecimal(int64(c.base+c.gcd*p), powersOf10[c.exponent]))
	}
	from := func(least uint64) uint64 { // the first packed value whose place is at least that
		low, high := uint64(0), end
		for low < high {
			if mid := low + (high-low)/2; place(mid) < least {
				low = mid + 1
			} else {
				high = mid
			}
		}
		return low
	}
	for _, r := range n.Places {
		low, high := from(r.Low), end
		if r.High != math.MaxUint64 {
			high = from(r.High + 1)
		}
		if low < high {
			dst = append(dst, match{low, high - 1 - low})
		}
	}
	return joinMatches(dst, start)
}

// dictionaryLeaf prepares a comparison with the entries of a dictionary, each of which is tested
// once.
func (f *PayloadFilter) dictionaryLeaf(n *where.Node, l leaf) leaf {
	c := l.column
	entries, from := len(c.dict)/8, len(f.entries)
	if f.fewRows || entries > 1<<c.width || c.width > maxEntryWidth { // the last is a damaged one
		return l
	}
	f.entries = slices.Grow(f.entries, 1<<c.width)[:from+1<<c.width]
	keep := f.entries[from:]
	clear(keep)
	first, last, count := 0, 0, 0
	for i := range entries {
		if !n.HasWord(binary.LittleEndian.Uint64(c.dict[8*i:]) >> l.shift & l.mask) {
			continue
		}
		if keep[i] = 1; count == 0 {
			first = i
		}
		last = i
		count++
	}
	switch {
	case count == 0:
		l.outcome = noRow
	case count == entries:
		l.outcome = everyRow
	case count == last-first+1:
		f.matches = append(f.matches, match{uint64(first), uint64(last - first)})
		l.test, l.to = testMatches, len(f.matches)
	default:
		l.test, l.from, l.to = testEntries, from, len(f.entries)
	}
	return l
}

// Rows keeps those positions of sel, which ascend, whose payload meets the condition, in place.
//
// Errors: damage of a payload chunk, a *durable.CorruptError.
func (f *PayloadFilter) Rows(sel []uint32) ([]uint32, error) {
	if f.rule != nil {
		return f.ofRule(sel)
	}
	rest, out := append(f.take(), sel...), f.take()
	for i := range f.Program.Rules {
		rule := &f.Program.Rules[i]
		mine := f.take()
		for _, at := range rest {
			moid := int32(f.block.key(record.MOID, int(at)))
			if f.Program.Rule(moid) == rule {
				mine = append(mine, at)
			}
		}
		if len(mine) > 0 {
			f.begin(rule)
			kept, err := f.ofRule(mine)
			if err != nil {
				return nil, err
			}
			out = append(out, kept...)
		}
		f.give(mine)
	}
	f.rule = nil
	slices.Sort(out)
	sel = append(sel[:0], out...)
	f.give(rest)
	f.give(out)
	return sel, nil
}

// ofRule is Rows for rows of the rule.
func (f *PayloadFilter) ofRule(sel []uint32) ([]uint32, error) {
	if f.fewRows && len(sel) > fewTested {
		f.fewRows = false
		f.begin(f.rule)
	}
	switch {
	case f.outcome == noRow || len(sel) == 0:
		return sel[:0], nil
	case f.outcome == everyRow:
		return sel, nil
	case f.block.kind == payloadFixedColumns && f.learning:
		all := append(f.take(), sel...)
		kept := f.filter(&f.rule.Node, sel)
		f.learnColumns(all, len(kept))
		f.give(all)
		return kept, nil
	case f.block.kind == payloadFixedColumns:
		return f.filter(&f.rule.Node, sel), nil
	}
	return f.filterChunks(sel)
}

// filter is Rows for a node, where payloads are columns of words.
func (f *PayloadFilter) filter(n *where.Node, sel []uint32) []uint32 {
	switch n.Kind {
	case where.AllOf:
		for i := range n.Subs {
			if sel = f.filter(&n.Subs[i], sel); len(sel) == 0 {
				break
			}
		}
		return sel
	case where.AnyOf:
		rest := append(f.take(), sel...)
		for i := range n.Subs {
			got := f.filter(&n.Subs[i], append(f.take(), rest...))
			rest = without(rest, got)
			f.give(got)
			if len(rest) == 0 {
				break
			}
		}
		sel = without(sel, rest)
		f.give(rest)
		return sel
	}
	switch l := &f.leaves[n.Leaf]; l.outcome {
	case noRow:
		return sel[:0]
	case everyRow:
		return sel
	default:
		return f.compare(n, l, sel)
	}
}

// compare is filter for a comparison.
func (f *PayloadFilter) compare(n *where.Node, l *leaf, sel []uint32) []uint32 {
	c, k := l.column, 0
	switch {
	case l.test == testMatches && l.to-l.from == 1:
		m := f.matches[l.from]
		if isSpan(sel) {
			return sel[:c.filterSpan(m, int(sel[0]), sel)]
		}
		return sel[:c.filter(m, sel)]
	case l.test == testMatches:
		for _, at := range sel {
			sel[k] = at
			if matchesAny(f.matches[l.from:l.to], c.number(int(at))) {
				k++
			}
		}
	case l.test == testEntries:
		return sel[:c.filterEntries(f.entries[l.from:l.to], sel)]
	case l.test == testWord:
		for _, at := range sel {
			sel[k] = at
			if n.HasWord(c.value(int(at)) >> l.shift & l.mask) {
				k++
			}
		}
	default:
		for _, at := range sel {
			sel[k] = at
			f.payload = f.payload[:0]
			for w := range f.block.wordColumns {
				f.payload = binary.LittleEndian.AppendUint64(f.payload,
					f.block.wordColumns[w].value(int(at)))
			}
			if n.Match(f.payload) {
				k++
			}
		}
	}
	return sel[:k]
}

// isSpan reports whether nothing is missing between positions.
func isSpan(sel []uint32) bool { return int(sel[len(sel)-1]-sel[0]) == len(sel)-1 }

// without removes from a the positions of b, which are all in it, in place.
func without(a, b []uint32) []uint32 {
	k := 0
	for _, at := range a {
		if len(b) > 0 && b[0] == at {
			b = b[1:]
			continue
		}
		a[k] = at
		k++
	}
	return a[:k]
}

// take returns memory for positions, which give returns.
func (f *PayloadFilter) take() []uint32 {
	n := len(f.spare)
	if n == 0 {
		return nil
	}
	out := f.spare[n-1]
	f.spare = f.spare[:n-1]
	return out[:0]
}

func (f *PayloadFilter) give(positions []uint32) { f.spare = append(f.spare, positions) }

// End ends the use of the block.
func (f *PayloadFilter) End() {
	f.block = nil
	for i := range f.leaves {
		f.leaves[i].column = nil
	}
}
