package cluster

import "fmt"

const (
	cardVersion = 1 // 1: first
	// maxCardBytes is what gossip carries for a node at most.
	maxCardBytes = 512
)

// Card is what a node says of itself by gossip. Others take it for a hint: where to find the node,
// and whether their view is older than its own.
type Card struct {
	Node  Node   // its state is what the node last heard of itself
	Epoch uint64 // of its view
}

func (c *Card) fields(x *coder) {
	c.Node.fields(x)
	number(x, &c.Epoch)
}

// AppendCard checks and appends a card.
func AppendCard(dst []byte, card Card) ([]byte, error) {
	if err := card.Node.check(); err != nil {
		return dst, err
	}
	x := &coder{dst: append(dst, cardVersion)}
	card.fields(x)
	if n := len(x.dst) - len(dst); n > maxCardBytes {
		return dst, fmt.Errorf("node %v: what it says of itself takes %d bytes, gossip carries "+
			"%d; shorten its addresses or its zone", card.Node.ID, n, maxCardBytes)
	}
	return x.dst, nil
}

// ParseCard reads what AppendCard wrote.
func ParseCard(src []byte) (Card, error) {
	if len(src) == 0 || len(src) > maxCardBytes {
		return Card{}, fmt.Errorf("card of a node: %w: %d bytes", errForm, len(src))
	}
	if src[0] != cardVersion {
		return Card{}, fmt.Errorf("card of a node: version %d, this program knows %d; run the "+
			"same version of pentad on both", src[0], cardVersion)
	}
	var card Card
	x := &coder{src: src[1:], reading: true}
	card.fields(x)
	err := x.end()
	if err == nil {
		err = card.Node.check()
	}
	if err != nil {
		return Card{}, fmt.Errorf("card of a node: %w", err)
	}
	return card, nil
}
