package cluster

import "fmt"

const (
	gossipMetaVersion = 1 // 1: first
	// maxGossipMetaBytes is what gossip carries for a node at most.
	maxGossipMetaBytes = 512
)

// GossipMeta is what a node says of itself by gossip. Others take it for a hint: where to find the
// node, and whether their view is older than its own.
type GossipMeta struct {
	Node  Node   // its state is what the node last heard of itself
	Epoch uint64 // of its view
}

func (c *GossipMeta) fields(x *coder) {
	c.Node.fields(x)
	number(x, &c.Epoch)
}

// AppendGossipMeta checks and appends gossip metadata.
func AppendGossipMeta(dst []byte, metadata GossipMeta) ([]byte, error) {
	if err := metadata.Node.check(); err != nil {
		return dst, err
	}
	x := &coder{dst: append(dst, gossipMetaVersion)}
	metadata.fields(x)
	if n := len(x.dst) - len(dst); n > maxGossipMetaBytes {
		return dst, fmt.Errorf("node %v: what it says of itself takes %d bytes, gossip carries "+
			"%d; shorten its addresses or its zone", metadata.Node.ID, n, maxGossipMetaBytes)
	}
	return x.dst, nil
}

// ParseGossipMeta reads what AppendGossipMeta wrote.
func ParseGossipMeta(src []byte) (GossipMeta, error) {
	if len(src) == 0 || len(src) > maxGossipMetaBytes {
		return GossipMeta{}, fmt.Errorf("gossip metadata of a node: %w: %d bytes", errForm,
			len(src))
	}
	if src[0] != gossipMetaVersion {
		return GossipMeta{}, fmt.Errorf("gossip metadata of a node: version %d, this program "+
			"knows %d; run the same version of pentad on both", src[0], gossipMetaVersion)
	}
	var metadata GossipMeta
	x := &coder{src: src[1:], reading: true}
	metadata.fields(x)
	err := x.end()
	if err == nil {
		err = metadata.Node.check()
	}
	if err != nil {
		return GossipMeta{}, fmt.Errorf("gossip metadata of a node: %w", err)
	}
	return metadata, nil
}
