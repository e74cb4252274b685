package writes

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// ErrOtherBody means that other records were stored under a key.
var ErrOtherBody = errors.New("the key was used before, for another body; use a new key for each " +
	"body")

// duplicatePart is a part of a put that was stored under its writer before.
type duplicatePart struct {
	group cluster.GroupID // 0: of a node that is in no cluster
	rows  []uint32        // of the batch; nil: all
	put   store.PutResult // the first one
}

// PutOnce is Put under a key of a client. What was stored under it before must be the records of
// the batch: they are read back by their acqs and compared, so the key is bound to them wherever
// and whenever the put is repeated, and the log keeps nothing more. Of records that were erased,
// purged or expired since, only the number is compared. A cluster knows a key in the groups that
// stored records under it.
//
// Errors: those of Put; *PutError of ErrOtherBody: nothing was stored in groups that know the key.
func (d *Dispatcher) PutOnce(
	ctx context.Context, b *record.Batch, w store.WriterSeq,
) (store.PutResult, error) {
	var duplicates []duplicatePart
	out, err := d.put(ctx, b, w, nil, d.opt.Store.Put, func(p duplicatePart) {
		duplicates = append(duplicates, p)
	})
	if err != nil || len(duplicates) == 0 {
		return out, err
	}
	e := &PutError{outcomes: make([]rowOutcome, b.Len()), Err: ErrOtherBody}
	seed, others := maphash.MakeSeed(), 0
	posted := countRows(seed, b)
	for _, p := range duplicates {
		isSame, err := d.holds(ctx, b, p, seed, posted)
		if err != nil {
			return store.PutResult{}, err
		}
		if isSame {
			continue
		}
		others++
		for _, row := range p.rows {
			e.outcomes[row] = rowNotStored
		}
		for row := 0; p.rows == nil && row < b.Len(); row++ {
			e.outcomes[row] = rowNotStored
		}
	}
	if others > 0 {
		return store.PutResult{}, e
	}
	return out, nil
}

// holds reports whether all that a part has stored are rows of a batch.
func (d *Dispatcher) holds(
	ctx context.Context, b *record.Batch, p duplicatePart, seed maphash.Seed, posted map[uint64]int,
) (isSame bool, err error) {
	// After a split a group may have stored rows that another one has now.
	if count := len(p.rows); p.rows == nil && p.put.Records != b.Len() || count > p.put.Records {
		return false, nil
	}
	q := &record.Query{Box: record.Everything()}
	q.Box[record.Acq] = record.RangeSet{{From: p.put.FirstAcqNs, To: p.put.LastAcqNs + 1}}
	if err := q.Normalize(); err != nil {
		return false, err
	}
	found, isSame := map[uint64]int{}, true
	_, err = d.opt.Engine.Query(ctx, request.Options{OnlyGroup: p.group}, q,
		func(stored *record.Batch) error {
			for hash, count := range countRows(seed, stored) {
				found[hash] += count
				isSame = isSame && found[hash] <= posted[hash]
			}
			return nil
		})
	return isSame, err
}

// countRows counts the rows of a batch, without their acqs, by a hash.
func countRows(seed maphash.Seed, b *record.Batch) map[uint64]int {
	counts := make(map[uint64]int, b.Len())
	var buf []byte
	for i := range b.Len() {
		k := b.Key(i)
		buf = binary.LittleEndian.AppendUint32(buf[:0], uint32(k.CID))
		buf = binary.LittleEndian.AppendUint64(buf, uint64(k.MID))
		buf = binary.LittleEndian.AppendUint32(buf, uint32(k.MOID))
		buf = binary.LittleEndian.AppendUint64(buf, uint64(k.CapNs))
		if b.Tomb(i) {
			buf = append(buf, 1)
		} else {
			buf = append(append(buf, 0), b.Payload(i)...)
		}
		counts[maphash.Bytes(seed, buf)]++
	}
	return counts
}
