package node

import (
	"context"
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// hide implements source.
func (n *local) hide(ctx context.Context, box record.Box, purge bool) (acqNs int64, err error) {
	if purge {
		return n.store.Purge(ctx, box)
	}
	return n.store.Erase(ctx, box)
}

// hide implements source.
func (r *distant) hide(ctx context.Context, box record.Box, purge bool) (acqNs int64, err error) {
	ask := r.client().Erase
	if purge {
		ask = r.client().Purge
	}
	acqNs, err = ask(ctx, &wire.Box{Box: box, Everything: true})
	return acqNs, r.failed(ctx, err)
}

// hide erases or purges a box in all sources, each of which gives the event an acq of its own.
//
// Returns: the greatest of them. What is put to any source with a greater one is visible. After an
// error it may have taken effect in some; to repeat it does no harm but to what was put in between.
func (n *Node) hide(ctx context.Context, box record.Box, purge bool) (acqNs int64, err error) {
	if err := n.checkShips(); err != nil {
		return 0, err
	}
	if only := n.layout.Load().only; only != nil {
		return only.hide(ctx, box, purge)
	}
	if m := n.member.Load(); m != nil {
		return n.hideInGroups(ctx, m, box, purge)
	}
	a, err := ask(whole(ctx), n, askChange, &box, func(ctx context.Context, s source) (
		int64, wire.End, error,
	) {
		acqNs, err := s.hide(ctx, box, purge)
		return acqNs, wire.End{}, err
	})
	for _, ns := range a.answers {
		acqNs = max(acqNs, ns)
	}
	return acqNs, err
}

// digests are those of the slices between cuts, and the newest purge that meets their box.
type digests struct {
	slices      []store.Digest
	purgedAcqNs int64
}

// digest implements source.
func (n *local) digest(ctx context.Context, box record.Box, cuts []int64) (out digests, err error) {
	out.slices, out.purgedAcqNs, err = n.store.Digest(ctx, box, cuts)
	return out, err
}

// digest implements source.
func (r *distant) digest(
	ctx context.Context, box record.Box, cuts []int64,
) (out digests, err error) {
	all, err := r.client().Digest(ctx, &wire.DigestQuery{Box: box, Cuts: cuts})
	if err != nil {
		return out, r.failed(ctx, err)
	}
	if len(all.Slices)+1 != len(cuts) {
		return out, errors.New("its answer has digests of other slices than were asked for")
	}
	out.purgedAcqNs = all.PurgedAcqNs
	for _, d := range all.Slices {
		out.slices = append(out.slices, store.Digest{FromNs: d.FromNs, ToNs: d.ToNs, Rows: d.Rows,
			Bytes: d.Bytes, Sum: [2]uint64{binary.LittleEndian.Uint64(d.Sum[:]),
				binary.LittleEndian.Uint64(d.Sum[8:])}})
	}
	return out, nil
}

// digestAll adds the digests of all sources: a sum of sums is the sum of all rows.
func (n *Node) digestAll(
	ctx context.Context, box record.Box, cuts []int64,
) (out digests, err error) {
	a, err := ask(whole(ctx), n, askDigest, &box, func(ctx context.Context, s source) (
		digests, wire.End, error,
	) {
		d, err := s.digest(ctx, box, cuts)
		return d, wire.End{}, err
	})
	if err != nil {
		return out, err
	}
	for i, from := range a.answers {
		out.purgedAcqNs = max(out.purgedAcqNs, from.purgedAcqNs)
		if i == 0 {
			out.slices = from.slices
			continue
		}
		for k := range from.slices {
			addDigest(&out.slices[k], &from.slices[k])
		}
	}
	return out, nil
}

func addDigest(to, from *store.Digest) {
	to.Rows += from.Rows
	to.Bytes += from.Bytes
	var carry uint64
	to.Sum[0], carry = bits.Add64(to.Sum[0], from.Sum[0], 0)
	to.Sum[1], _ = bits.Add64(to.Sum[1], from.Sum[1], carry)
}
