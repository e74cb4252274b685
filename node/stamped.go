package node

import (
	"context"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// PutBelow stores a batch below the horizon; see [store.Store.PutBelow].
func (n *Node) PutBelow(
	ctx context.Context, b *record.Batch,
) (res store.PutBelowResult, err error) {
	if n.closing.Load() {
		return res, errClosing
	}
	if err := take(n.puts); err != nil {
		return res, err
	}
	defer func() { <-n.puts }()
	if n.member.Load() != nil {
		return res, onlyAlone()
	}
	return n.store.PutBelow(ctx, b)
}

// PutStamped stores a batch under the acquisition times that it brings; see
// [store.Store.PutStamped].
func (n *Node) PutStamped(ctx context.Context, b *record.Batch) (floorNs int64, err error) {
	if n.closing.Load() {
		return 0, errClosing
	}
	if err := take(n.puts); err != nil {
		return 0, err
	}
	defer func() { <-n.puts }()
	if n.member.Load() != nil {
		return 0, onlyAlone()
	}
	return n.store.PutStamped(ctx, b)
}
