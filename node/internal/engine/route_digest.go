package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// digests are those of the slices between cuts, with the acq of the newest purge that overlaps
// their box.
type digests struct {
	slices              []digest.Slice
	historyChangedAcqNs int64
}

// digest implements source.
func (l *localSource) digest(
	ctx context.Context, q *wire.DigestQuery,
) (out digests, err error) {
	out.slices, out.historyChangedAcqNs, err = l.store.DigestSelected(ctx, q.Box, q.Select, q.Cuts)
	return out, err
}

// digest implements source.
func (r *remoteSource) digest(
	ctx context.Context, q *wire.DigestQuery,
) (out digests, err error) {
	all, err := r.client().Digest(ctx, q)
	if err != nil {
		return out, r.wireError(ctx, err)
	}
	if len(all.Slices)+1 != len(q.Cuts) {
		return out, errors.New("its answer has digests of other slices than were asked for")
	}
	out.historyChangedAcqNs = all.HistoryChangedAcqNs
	for _, d := range all.Slices {
		out.slices = append(out.slices, digest.Slice{FromNs: d.FromNs, ToNs: d.ToNs, Rows: d.Rows,
			Bytes: d.Bytes, Sum: [2]uint64{binary.LittleEndian.Uint64(d.Sum[:]),
				binary.LittleEndian.Uint64(d.Sum[8:])}})
	}
	return out, nil
}

// digestAll adds the digests of all sources; digests are sums over rows.
func (e *Engine) digestAll(
	ctx context.Context, options request.Options, q *wire.DigestQuery,
) (out digests, err error) {
	a, err := askSources(ctx, e, options.CompleteOnly(), askDigest, &q.Box, func(
		ctx context.Context, s source,
	) (digests, wire.End, error) {
		d, err := s.digest(ctx, q)
		return d, wire.End{}, err
	})
	if err != nil {
		return out, err
	}
	for i, from := range a.answers {
		out.historyChangedAcqNs = max(out.historyChangedAcqNs, from.historyChangedAcqNs)
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

// Digest returns digests of slices of a box; see [store.Store.DigestSelected]. With rows, the range
// between the two cuts is first divided into slices of that many rows, see [store.Store.Cut].
func (e *Engine) Digest(
	ctx context.Context, options request.Options, ask *wire.DigestQuery,
) (slices []digest.Slice, historyChangedAcqNs int64, err error) {
	ctx, leave, err := e.enter(ctx, options, ask.Box[record.CID])
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	q := wire.DigestQuery{Box: ask.Box, Cuts: ask.Cuts, Select: ask.Select}
	if ask.Rows > 0 && len(q.Cuts) != 2 {
		return nil, 0, params.Bad("acq", fmt.Errorf("%d cuts cannot be divided; give 2",
			len(q.Cuts)))
	}
	if e.routes.Load().single == nil {
		if ask.Rows > 0 {
			if q.Cuts, err = e.cutAll(ctx, options, q.Cuts[0], q.Cuts[1], ask.Rows); err != nil {
				return nil, 0, err
			}
		}
		d, err := e.digestAll(ctx, options, &q)
		return d.slices, d.historyChangedAcqNs, err
	}
	if ask.Rows > 0 {
		if q.Cuts, err = e.store.Cut(ctx, q.Cuts[0], q.Cuts[1], ask.Rows); err != nil {
			return nil, 0, err
		}
	}
	return e.store.DigestSelected(ctx, q.Box, q.Select, q.Cuts)
}
