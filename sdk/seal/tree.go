package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// The keys of the windows of a grant are the leaves of a tree of hashes (Goldreich, Goldwasser,
// Micali): who has a node has the leaves below it and no other, so a stretch of windows is given
// away as few nodes.
const (
	treeDepth  = 24 // 16 million windows
	maxWindows = 1 << treeDepth
	seedBytes  = 16
)

// seed is the key of a node of the tree.
type seed [seedBytes]byte

// String keeps keys out of logs.
func (seed) String() string { return "seal.seed(secret)" }

// GoString keeps keys out of logs.
func (seed) GoString() string { return "seal.seed(secret)" }

// MarshalText implements encoding.TextMarshaler, for files and shares.
func (s seed) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *seed) UnmarshalText(text []byte) error {
	if len(text) != 2*seedBytes {
		return errors.New("a seed has not 32 hex digits")
	}
	_, err := hex.Decode(s[:], text)
	return err
}

// child returns the key below a node: right for 1, left for 0.
func (s seed) child(right uint64) (out seed) {
	sum := sha256.Sum256(append([]byte("pgGMv1\x00\x00"), s[:]...))
	copy(out[:], sum[right*seedBytes:])
	return out
}

// treeNode is a node that was given away: the one of a depth (0: the root) and a place in it.
type treeNode struct {
	Depth uint8  `json:"depth"`
	Index uint64 `json:"index"`
	Seed  seed   `json:"seed"`
}

// leaf returns the key of a window below the node.
func (n *treeNode) leaf(window uint64) (s seed, below bool) {
	down := treeDepth - int(n.Depth)
	if window>>down != n.Index {
		return s, false
	}
	s = n.Seed
	for down--; down >= 0; down-- {
		s = s.child(window >> down & 1)
	}
	return s, true
}

// cover returns the fewest nodes that have the windows from first to last, and no others.
func (n treeNode) cover(dst []treeNode, first, last uint64) []treeNode {
	down := treeDepth - int(n.Depth)
	from, to := n.Index<<down, n.Index<<down|(1<<down-1)
	switch {
	case to < first || from > last:
		return dst
	case from >= first && to <= last:
		return append(dst, n)
	}
	for right := range uint64(2) {
		below := treeNode{n.Depth + 1, n.Index<<1 | right, n.Seed.child(right)}
		dst = below.cover(dst, first, last)
	}
	return dst
}

// check says what is wrong with a node that came from elsewhere.
func (n *treeNode) check() error {
	if n.Depth > treeDepth || n.Index>>n.Depth != 0 {
		return fmt.Errorf("node %d of depth %d is not in the tree", n.Index, n.Depth)
	}
	return nil
}

// windowPad is what hides the sum of a window: L(w, v) of a field.
func windowPad(s seed, field uint16, version uint32, width int) wide {
	b := append([]byte("pgPADv1\x00"), s[:]...)
	b = binary.BigEndian.AppendUint16(b, field)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint16(b, 0)
	sum := sha256.Sum256(b)
	return loadLane(sum[:], width)
}
