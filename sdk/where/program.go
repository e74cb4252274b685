package where

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
)

// Program is a condition bound to the types of quantities. It is immutable.
type Program struct{ Rules []Rule }

// Rule is what the condition means for the payloads of some quantities. Those of which no rule
// speaks do not meet it.
type Rule struct {
	MOIDs [][2]int64 // half-open ranges, ascending; nil for all that no rule before names
	// Size is that of payloads in bytes, 0 for any from Need on. Others do not meet the condition,
	// whatever it says.
	Size, Need uint32
	Unreadable bool // only others do
	Node       Node
	Leaves     int // nodes of NumberIn and TextIn
	// Fields are those that the node tests, none if they are too many for bounds. Rules that have
	// the same Identity have the same fields of the same payloads.
	Fields   []Field
	Identity string
}

// Node is a condition on a payload that has the size of its rule. It has no negations.
type Node struct {
	Kind  NodeKind
	Subs  []Node // of AllOf and AnyOf
	Leaf  int    // the number of another node in its rule
	Field int    // of a number or a text, in the rule's Fields
	// Offset is where the field starts. A number has Bits bits, Float if it is one.
	Offset uint32
	Bits   uint8
	Float  bool
	// Places are the numbers that meet the condition in the order of values, see [Node.Place], and
	// Words the same as the bits of the number, as an unsigned one. Both are sorted, and apart.
	Places, Words []Range
	// Texts: the bytes from Offset on to the end are one of them, or begin with one.
	Texts  []string
	Prefix bool
	Negate bool // they are not, or do not

	kind kind
}

// NodeKind is what a node is.
type NodeKind uint8

// Kinds of nodes. AllOf of none is always met, AnyOf of none never.
const (
	AllOf NodeKind = iota
	AnyOf
	NumberIn
	TextIn
)

// Place returns the place of the bits of a number in the order of values.
func (n *Node) Place(bits uint64) uint64 { return n.kind.order(bits) }

// fewRanges are looked through one by one.
const fewRanges = 8

// HasWord reports whether the bits of a number meet the condition.
func (n *Node) HasWord(bits uint64) bool {
	if len(n.Words) > fewRanges {
		i := sort.Search(len(n.Words), func(i int) bool { return n.Words[i].High >= bits })
		return i < len(n.Words) && n.Words[i].Low <= bits
	}
	for i := range n.Words {
		if r := &n.Words[i]; bits-r.Low <= r.High-r.Low {
			return true
		}
	}
	return false
}

// number gives the leaves below a node their numbers, from next on, and returns the next one.
func (n *Node) number(next int) int {
	if n.Kind == NumberIn || n.Kind == TextIn {
		n.Leaf = next
		return next + 1
	}
	for i := range n.Subs {
		next = n.Subs[i].number(next)
	}
	return next
}

// Rule returns the rule of a quantity, nil if there is none.
func (p *Program) Rule(moid int32) *Rule {
	for i := range p.Rules {
		r := &p.Rules[i]
		if r.MOIDs == nil || slices.ContainsFunc(r.MOIDs, func(s [2]int64) bool {
			return s[0] <= int64(moid) && int64(moid) < s[1]
		}) {
			return r
		}
	}
	return nil
}

// Match reports whether a payload of a quantity meets the condition.
func (p *Program) Match(moid int32, payload []byte) bool {
	r := p.Rule(moid)
	return r != nil && r.Match(payload)
}

// Fits reports whether payloads of a size have the fields of the condition.
func (r *Rule) Fits(size int) bool {
	if r.Size != 0 {
		return size == int(r.Size)
	}
	return size >= int(r.Need)
}

// Match reports whether a payload meets the condition.
func (r *Rule) Match(payload []byte) bool {
	if r.Unreadable {
		return !r.Fits(len(payload))
	}
	return r.Fits(len(payload)) && r.Node.Match(payload)
}

// Match reports whether a payload of a size that fits meets the condition.
func (n *Node) Match(payload []byte) bool {
	switch n.Kind {
	case AllOf:
		for i := range n.Subs {
			if !n.Subs[i].Match(payload) {
				return false
			}
		}
		return true
	case AnyOf:
		for i := range n.Subs {
			if n.Subs[i].Match(payload) {
				return true
			}
		}
		return false
	case NumberIn:
		if n.Bits == 32 {
			return n.HasWord(uint64(binary.LittleEndian.Uint32(payload[n.Offset:])))
		}
		return n.HasWord(binary.LittleEndian.Uint64(payload[n.Offset:]))
	}
	return n.hasText(payload[n.Offset:])
}

func (n *Node) hasText(text []byte) bool {
	for _, one := range n.Texts {
		if n.Prefix && bytes.HasPrefix(text, []byte(one)) || string(text) == one {
			return !n.Negate
		}
	}
	return n.Negate
}
