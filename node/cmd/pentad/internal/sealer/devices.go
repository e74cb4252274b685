package sealer

import (
	"context"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

// addDevices makes keys of devices of a tenant that have none, where they are random.
func (s *Sealer) addDevices(
	ctx context.Context, t *seal.Tenant, cid int32, mids []int64,
) error {
	keyID, fresh, err := t.NewDevices(ctx, mids...)
	if err != nil {
		return noKey(err, cid)
	}
	for some := range slices.Chunk(fresh, record.MaxRangesPerDim) {
		known, err := s.sealedUnder(ctx, cid, keyID, some)
		if err != nil {
			return fmt.Errorf("devices that are new in the file of keys: %w", err)
		}
		if len(known) == 0 {
			continue
		}
		// Another process may have made their keys since the file was read.
		if err := s.keys.Reload(); err != nil {
			return err
		}
		if _, known, err = t.NewDevices(ctx, known...); err != nil {
			return noKey(err, cid)
		}
		if len(known) > 0 {
			return fmt.Errorf("cid %d, mid %d: the node has readings of the device under key %s, "+
				"and the file of keys has no key of the device, so the file is older than they "+
				"are; name its newest copy with --keys, or make a newer key with pentad seal "+
				"rotate", cid, known[0], seal.FormatKeyID(keyID))
		}
	}
	return noKey(t.AddDevices(ctx, fresh...), cid)
}

// sealedUnder returns which devices have readings under a key. It looks at the newest reading of
// each series.
func (s *Sealer) sealedUnder(
	ctx context.Context, cid int32, keyID uint32, mids []int64,
) (known []int64, err error) {
	q := &record.Query{View: record.ViewLatest, Last: 1}
	q.Box[record.CID] = record.RangeSet{record.At(int64(cid))}
	for _, mid := range mids {
		q.Box[record.MID] = append(q.Box[record.MID], record.At(mid))
	}
	if err := q.Normalize(); err != nil {
		return nil, err
	}
	_, err = s.Node.Scan(ctx, q, func(b *record.Batch) error {
		for i := range b.Len() {
			h, err := seal.ParseHeader(b.Payload(i))
			if !b.Tomb(i) && err == nil && h.KeyID == keyID {
				known = append(known, b.MID[i])
			}
		}
		return nil
	})
	return known, err
}
