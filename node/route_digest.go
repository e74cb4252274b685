package node

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// digests are those of the slices between cuts, with the acq of the newest purge that overlaps
// their box.
type digests struct {
	slices      []digest.Slice
	purgedAcqNs int64
}

// digest implements source.
func (n *localSource) digest(
	ctx context.Context, box record.Box, cuts []int64,
) (out digests, err error) {
	out.slices, out.purgedAcqNs, err = n.store.Digest(ctx, box, cuts)
	return out, err
}

// digest implements source.
func (r *remoteSource) digest(
	ctx context.Context, box record.Box, cuts []int64,
) (out digests, err error) {
	all, err := r.client().Digest(ctx, &wire.DigestQuery{Box: box, Cuts: cuts})
	if err != nil {
		return out, r.wireError(ctx, err)
	}
	if len(all.Slices)+1 != len(cuts) {
		return out, errors.New("its answer has digests of other slices than were asked for")
	}
	out.purgedAcqNs = all.PurgedAcqNs
	for _, d := range all.Slices {
		out.slices = append(out.slices, digest.Slice{FromNs: d.FromNs, ToNs: d.ToNs, Rows: d.Rows,
			Bytes: d.Bytes, Sum: [2]uint64{binary.LittleEndian.Uint64(d.Sum[:]),
				binary.LittleEndian.Uint64(d.Sum[8:])}})
	}
	return out, nil
}

// digestAll adds the digests of all sources; digests are sums over rows.
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
			out.slices[k].Merge(&from.slices[k])
		}
	}
	return out, nil
}
