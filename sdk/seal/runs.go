package seal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// ErrDuplicate says that one record was added twice: partials overlap, or a node counted it twice.
var ErrDuplicate = errors.New("a record was added twice")

// run is a stretch of sequence numbers, both ends included.
type run struct{ from, to uint32 }

// runs are the sequence numbers of the records of a sum that are of one chain: ascending, and not
// touching.
type runs []run

// add adds one number; ascending ones are cheap.
func (r runs) add(seq uint32) (runs, error) {
	if n := len(r); n == 0 || r[n-1].to < seq {
		if n > 0 && r[n-1].to+1 == seq {
			r[n-1].to = seq
			return r, nil
		}
		return append(r, run{seq, seq}), nil
	}
	return r.union(runs{{seq, seq}})
}

// union returns the numbers of both.
func (r runs) union(o runs) (runs, error) {
	out := make(runs, 0, len(r)+len(o))
	for len(r) > 0 || len(o) > 0 {
		if len(r) == 0 || len(o) > 0 && o[0].from < r[0].from {
			r, o = o, r
		}
		next := r[0]
		r = r[1:]
		n := len(out)
		switch {
		case n > 0 && next.from <= out[n-1].to:
			return nil, ErrDuplicate
		case n > 0 && next.from == out[n-1].to+1:
			out[n-1].to = next.to
		default:
			out = append(out, next)
		}
	}
	return out, nil
}

// count is how many numbers there are.
func (r runs) count() (n uint64) {
	for _, one := range r {
		n += uint64(one.to-one.from) + 1
	}
	return n
}

// span is how many numbers there are from the first to the last.
func (r runs) span() uint64 { return uint64(r[len(r)-1].to-r[0].from) + 1 }

// Encodings of runs.
const (
	encodedRuns   = 0 // count, then gap since the run before and length-1 of each, as uvarints
	encodedBitmap = 1 // first number and number of bits as uvarints, then the bits
	// count, then of each run the step from the end of the one before it, as a varint, and
	// length-1: in any order, as a node has no time to sort
	encodedSteps = 2
)

// append appends the smaller of the two encodings.
func (r runs) append(dst []byte) []byte {
	from := len(dst)
	dst = append(dst, encodedRuns)
	dst = binary.AppendUvarint(dst, uint64(len(r)))
	before := uint64(0)
	for _, one := range r {
		dst = binary.AppendUvarint(dst, uint64(one.from)-before)
		dst = binary.AppendUvarint(dst, uint64(one.to-one.from))
		before = uint64(one.to) + 1
	}
	if uint64(len(dst)-from) <= r.span()/8+12 {
		return dst
	}
	dst = append(dst[:from], encodedBitmap)
	dst = binary.AppendUvarint(dst, uint64(r[0].from))
	dst = binary.AppendUvarint(dst, r.span())
	at := len(dst)
	dst = append(dst, make([]byte, (r.span()+7)/8)...)
	for _, one := range r {
		for bit := uint64(one.from - r[0].from); bit <= uint64(one.to-r[0].from); bit++ {
			dst[at+int(bit/8)] |= 1 << (bit % 8)
		}
	}
	return dst
}

// parser reads a partial. After an error it reads zeros.
type parser struct {
	rest []byte
	err  error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("partial: "+format, args...)
	}
	p.rest = nil
}

func (p *parser) take(n uint64) []byte {
	if n > uint64(len(p.rest)) {
		p.fail("it ends %d bytes too early", n-uint64(len(p.rest)))
	}
	if p.err != nil {
		return nil
	}
	out := p.rest[:n]
	p.rest = p.rest[n:]
	return out
}

func (p *parser) u8() uint8 {
	if b := p.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *parser) u16() uint16 {
	if b := p.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (p *parser) u32() uint32 {
	if b := p.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (p *parser) u64() uint64 {
	if b := p.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (p *parser) uvarint() uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 {
		p.fail("a number does not end")
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) varint() int64 {
	v, n := binary.Varint(p.rest)
	if n <= 0 {
		p.fail("a number does not end")
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

// runs reads the runs of a chain. What it allocates is bounded by the bytes that are there.
func (p *parser) runs() (out runs) {
	switch encoding := p.u8(); encoding {
	case encodedRuns:
		n := p.uvarint()
		next := uint64(0)
		for ; n > 0 && p.err == nil; n-- {
			from, length := p.uvarint(), p.uvarint()
			from += next
			to := from + length
			if from < next || to < from || from == 0 || to > maxChainSeq ||
				next > 0 && from == next {
				p.fail("runs are not ascending, or leave the numbers of a chain")
				return nil
			}
			out, next = append(out, run{uint32(from), uint32(to)}), to+1
		}
	case encodedSteps:
		out = p.steps()
	case encodedBitmap:
		first, n := p.uvarint(), p.uvarint()
		if first == 0 || first > maxChainSeq || n > maxChainSeq-first+1 {
			p.fail("a bitmap leaves the numbers of a chain")
			return nil
		}
		out = p.bitmap(uint32(first), n)
	default:
		p.fail("encoding %d of runs is not known", encoding)
	}
	if len(out) == 0 {
		p.fail("a chain without records")
	}
	return out
}

// steps reads runs that are in no order.
func (p *parser) steps() (out runs) {
	next := int64(0)
	for n := p.uvarint(); n > 0 && p.err == nil; n-- {
		step, length := p.varint(), p.uvarint()
		from := next + step
		if step < -maxChainSeq-1 || step > maxChainSeq || from < 1 || from > maxChainSeq ||
			length > uint64(maxChainSeq-from) {
			p.fail("runs leave the numbers of a chain")
			return nil
		}
		out = append(out, run{uint32(from), uint32(from + int64(length))})
		next = from + int64(length) + 1
	}
	slices.SortFunc(out, func(a, b run) int { return cmp.Compare(a.from, b.from) })
	all, err := out.union(nil)
	if err != nil {
		p.err = fmt.Errorf("partial: %w", err)
	}
	return all
}

func (p *parser) bitmap(first uint32, n uint64) (out runs) {
	all := p.take((n + 7) / 8)
	for i, b := range all {
		for ; b != 0; b &= b - 1 {
			bit := uint64(i)*8 + uint64(bits.TrailingZeros8(b))
			if bit >= n {
				p.fail("a bitmap of %d bits has more", n)
				return nil
			}
			seq := first + uint32(bit)
			if k := len(out); k > 0 && out[k-1].to+1 == seq {
				out[k-1].to = seq
			} else {
				out = append(out, run{seq, seq})
			}
		}
	}
	return slices.Clip(out)
}
