package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// ErrConflict means that another client has put what a put of names, ids or descriptions depends
// on.
var ErrConflict = errors.New("read it again")

// maxCheckedKeys is how many keys one query of a check names: fewer than the ranges that a box may
// have.
const maxCheckedKeys = 1000

// Describes reports whether a batch has names, ids or descriptions of devices, which are checked
// before they are put.
func Describes(b *record.Batch) bool { return slices.ContainsFunc(b.MOID, describesDevice) }

func describesDevice(moid int32) bool {
	return record.IsReservedMOID(moid) && moid >= record.NameMOID // below are records of edge nodes
}

// CheckDescribing says which record of a batch cannot be a name, a claim of ids or a description
// of a device although its moid is reserved for them.
//
// Errors: *record.InvalidError.
func CheckDescribing(b *record.Batch) error {
	for i, moid := range b.MOID {
		if !describesDevice(moid) || b.Tomb(i) {
			continue
		}
		var err error
		var name string
		switch moid {
		case record.NameMOID:
			if _, name, err = record.ParseNameClaim(b.Key(i), b.Payload(i)); err == nil {
				err = registry.CheckName(name)
			}
		case record.IDBlockMOID:
			_, err = record.ParseIDClaim(b.Key(i), b.Payload(i))
		case record.DescriptionMOID:
			var d *registry.Description
			if d, err = registry.Parse(b.Payload(i)); err == nil {
				err = d.Check()
			}
		default:
			return &record.InvalidError{Part: "moid", Reason: record.OutOfRange, Row: i,
				Detail: fmt.Sprintf("moid %d is one of the 16 lowest, which are reserved, and "+
					"means nothing yet; use %d and above", moid, int64(record.FirstMOID))}
		}
		if err != nil {
			return &record.InvalidError{Part: "payload", Reason: record.Inconsistent, Row: i,
				Detail: fmt.Sprintf("moid %d is reserved for names and descriptions of devices, "+
					"and this is none: %v; use pentad device, or a client library", moid, err)}
		}
	}
	return nil
}

// PutUnlessNewer is Put of descriptions of devices that were made from older ones, of which the
// greatest acq was newestNs: if a device of the batch was described since, nothing is stored.
//
// Errors: those of Put; ErrConflict.
func (s *Store) PutUnlessNewer(
	ctx context.Context, b *record.Batch, w WriterSeq, newestNs int64,
) (PutResult, error) {
	return s.put(ctx, b, w, nil, &newestNs)
}

// putDescribing puts a request that was admitted and has names or descriptions: one at a time, so
// that nothing comes between what it depends on and its commit, which is waited for whatever
// becomes of the caller.
func (s *Store) putDescribing(
	ctx context.Context, b *record.Batch, r *putRequest, newestNs *int64,
) (PutResult, error) {
	select {
	case s.describing <- struct{}{}:
	case <-s.stop:
		return PutResult{}, s.giveUp(r, ErrClosed)
	case <-ctx.Done():
		return PutResult{}, s.giveUp(r, ctx.Err())
	}
	defer func() { <-s.describing }()
	err := s.CheckUnclaimed(ctx, b, newestNs)
	if err == nil {
		err = s.enqueue(ctx, b, r)
	}
	if err != nil {
		return PutResult{}, s.giveUp(r, err)
	}
	return s.wait(context.WithoutCancel(ctx), r, false)
}

// CheckUnclaimed checks a batch of names and descriptions against what is visible: a claim of a
// name, or of ids, may not meet one with another payload, and unless newestNs is nil a device that
// is described may have no record of that moid with a greater acq. It holds until other such
// records are put.
//
// Errors: ErrConflict.
func (s *Store) CheckUnclaimed(ctx context.Context, b *record.Batch, newestNs *int64) error {
	claims, err := claimsOf(b)
	if err != nil {
		return err
	}
	keys := make([]record.Key, 0, len(claims))
	for key := range claims {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, record.Key.Compare) // those near each other are in the same blocks
	for some := range slices.Chunk(keys, maxCheckedKeys) {
		q := record.Query{View: record.ViewLatest, Box: boxAround(some, true)}
		if err := s.eachVisible(ctx, &q, func(key record.Key, payload []byte) error {
			key.AcqNs = 0
			if mine, ok := claims[key]; ok && !bytes.Equal(mine, payload) {
				return conflictOf(key, payload)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if newestNs == nil {
		return nil
	}
	for some := range slices.Chunk(describedKeys(b), maxCheckedKeys) {
		q := record.Query{Box: boxAround(some, false)}
		q.Box[record.Acq] = record.RangeSet{{From: *newestNs + 1, To: record.Acq.Max()}}
		if err := s.eachVisible(ctx, &q, func(key record.Key, _ []byte) error {
			return fmt.Errorf("device %d of tenant %d was described by another client, with acq "+
				"%d, after this one read it: %w", key.MID, key.CID, key.AcqNs, ErrConflict)
		}); err != nil {
			return err
		}
	}
	return nil
}

// HasResult reports whether the store knows the result of a batch, and so would not store it again.
func (s *Store) HasResult(w WriterSeq) bool { return s.writers.Has(w) }

// claimsOf returns what a batch claims of names and ids, by key without acq: payloads, which alias
// the batch. What the batch itself takes back before it claims it is not among them.
//
// Errors: ErrConflict, if the batch claims one key twice.
func claimsOf(b *record.Batch) (map[record.Key][]byte, error) {
	type claim struct {
		payload []byte
		freed   bool
	}
	all := map[record.Key]claim{}
	for i, moid := range b.MOID {
		if moid != record.NameMOID && moid != record.IDBlockMOID {
			continue
		}
		key := b.Key(i)
		key.AcqNs = 0
		one := all[key]
		switch {
		case b.Tomb(i):
			one = claim{freed: true}
		case one.payload != nil && !bytes.Equal(one.payload, b.Payload(i)):
			return nil, conflictOf(key, one.payload)
		default:
			one.payload = b.Payload(i)
		}
		all[key] = one
	}
	claims := make(map[record.Key][]byte, len(all))
	for key, one := range all {
		if one.payload != nil && !one.freed {
			claims[key] = one.payload
		}
	}
	return claims, nil
}

func conflictOf(key record.Key, payload []byte) error {
	if mid, name, err := record.ParseNameClaim(key, payload); err == nil {
		return fmt.Errorf("tenant %d: the name %q is that of device %d already: %w", key.CID,
			excerpt.Of(name, 80), mid, ErrConflict)
	}
	return fmt.Errorf("tenant %d: another client has claimed the key of moid %d with mid %d and "+
		"cap %d: %w", key.CID, key.MOID, key.MID, key.CapNs, ErrConflict)
}

// describedKeys returns the devices that a batch describes, in keys without cap and acq.
func describedKeys(b *record.Batch) (keys []record.Key) {
	for i, moid := range b.MOID {
		if moid == record.DescriptionMOID {
			key := b.Key(i)
			key.CapNs, key.AcqNs = 0, 0
			keys = append(keys, key)
		}
	}
	return keys
}

// boxAround returns a normalized box that holds records with some keys, and perhaps others.
func boxAround(keys []record.Key, withCap bool) (box record.Box) {
	for _, key := range keys {
		box[record.CID] = append(box[record.CID], record.At(int64(key.CID)))
		box[record.MID] = append(box[record.MID], record.At(key.MID))
		box[record.MOID] = append(box[record.MOID], record.At(int64(key.MOID)))
		if withCap {
			box[record.Cap] = append(box[record.Cap], record.At(key.CapNs))
		}
	}
	return box
}

// eachVisible visits the records of a query up to the present horizon until one is refused;
// payloads are valid during the call. Tombstones are left out of views that resolve versions.
func (s *Store) eachVisible(
	ctx context.Context, q *record.Query, visit func(key record.Key, payload []byte) error,
) error {
	if err := q.Normalize(); err != nil {
		return err
	}
	var mu sync.Mutex
	_, err := s.scanInto(ctx, q, 1, s.newQuietScan, func(int) (Consumer, error) {
		return Consumer{Columns: segment.AllColumns, Rows: func(b *record.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.Len() {
				if b.Tomb(i) && q.View != record.ViewAll {
					continue
				}
				if err := visit(b.Key(i), b.Payload(i)); err != nil {
					return err
				}
			}
			return nil
		}}, nil
	})
	return err
}
