package node

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/sdk/record"
)

// Digest returns digests of slices of a box; see [store.Store.Digest]. With rows, the range between
// the two cuts is first divided into slices of that many rows, see [store.Store.Cut].
func (n *Node) Digest(
	ctx context.Context, box record.Box, cuts []int64, rows uint64,
) (slices []store.Digest, purgedAcqNs int64, err error) {
	ctx, leave, err := n.enter(ctx, box[record.CID])
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	if rows > 0 && len(cuts) != 2 {
		return nil, 0, params.Bad("acq", fmt.Errorf("%d cuts cannot be divided; give 2",
			len(cuts)))
	}
	if n.routes.Load().single == nil {
		if rows > 0 {
			if cuts, err = n.cutAll(ctx, cuts[0], cuts[1], rows); err != nil {
				return nil, 0, err
			}
		}
		d, err := n.digestAll(ctx, box, cuts)
		return d.slices, d.purgedAcqNs, err
	}
	if rows > 0 {
		if cuts, err = n.store.Cut(ctx, cuts[0], cuts[1], rows); err != nil {
			return nil, 0, err
		}
	}
	return n.store.Digest(ctx, box, cuts)
}

// PutRange adds a range of another node's records to a mirror; see [store.Store.PutRange].
func (n *Node) PutRange(ctx context.Context, r *mirror.Range) (horizonNs int64, err error) {
	if n.closing.Load() {
		return 0, errClosing
	}
	if err := tryAcquire(n.puts); err != nil {
		return 0, err
	}
	defer func() { <-n.puts }()
	if m := n.member.Load(); m != nil {
		return n.putRangeInGroups(ctx, m, r)
	}
	if err := n.checkShips(); err != nil {
		return 0, err
	}
	return n.store.PutRange(ctx, r)
}

// ReleaseCopy makes a mirror an independent node; see [store.Store.ReleaseCopy].
func (n *Node) ReleaseCopy(ctx context.Context) error {
	if m := n.member.Load(); m != nil {
		return n.releaseGroups(ctx, m)
	}
	return n.store.ReleaseCopy(ctx)
}
