package segment

import "github.com/pentad-db/pentad/sdk/where"

// Rule returns the rule of all rows of the block, nil if there are several or none.
func (f *PayloadFilter) Rule() *where.Rule { return f.rule }

// Learn lets the next call of Rows, with all rows of the rule, find the bounds of its fields.
func (f *PayloadFilter) Learn() {
	f.learning = len(f.rule.Fields) > 0 && f.outcome == someRows
	f.bounds = f.bounds[:0]
	for range f.rule.Fields {
		f.bounds = append(f.bounds, where.NoBounds())
	}
}

// Learned returns the bounds that Rows found; not ok if it did not. They are valid until the next
// block begins.
func (f *PayloadFilter) Learned() (bounds []where.Bounds, ok bool) { return f.bounds, f.learning }

// learnColumns finds the bounds where payloads are columns of words, unless rows met the condition:
// only a block that was read in vain pays for them.
func (f *PayloadFilter) learnColumns(sel []uint32, met int) {
	if f.learning = f.learning && met == 0; !f.learning {
		return
	}
	for i := range f.rule.Fields {
		field := &f.rule.Fields[i]
		at := field.Offset % wordBytes
		if field.Bits == 0 || at+uint32(field.Bits/8) > wordBytes {
			f.learning = false
			return
		}
		c, shift := &f.block.wordColumns[field.Offset/wordBytes], at*8
		for _, row := range sel {
			bits := c.value(int(row)) >> shift
			if field.Bits == 32 {
				bits = uint64(uint32(bits))
			}
			field.Add(&f.bounds[i], bits)
		}
	}
}
