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
		case record.DeviceNameMOID:
			name, err = record.ParseDeviceName(b.Key(i), b.Payload(i))
			if err == nil && name != "" {
				err = registry.CheckName(name)
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

// PutUnlessNewer is Put of records of devices that follow from older ones, of which the greatest
// acq was newestNs: if a device of the batch was described since, nothing is stored. The same holds
// for what devices say of their names, and for claims of names, tombstones included.
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
// name, or of ids, may not meet one with another payload, a device that was removed gets no name,
// and unless newestNs is nil nothing that the batch replaces may have a greater acq, and no device
// another name. It holds until other such records are put.
//
// Errors: ErrConflict.
func (s *Store) CheckUnclaimed(ctx context.Context, b *record.Batch, newestNs *int64) error {
	if err := s.checkClaims(ctx, b); err != nil {
		return err
	}
	if newestNs != nil {
		if err := s.checkNewer(ctx, b, *newestNs); err != nil {
			return err
		}
	}
	return s.checkDeviceNames(ctx, b, newestNs != nil)
}

// checkClaims refuses claims where there is one with another payload.
func (s *Store) checkClaims(ctx context.Context, b *record.Batch) error {
	claims, err := claimsOf(b)
	if err != nil {
		return err
	}
	return eachOfKeys(ctx, s, claims, record.Query{View: record.ViewLatest}, true,
		func(key record.Key, payload []byte) error {
			key.AcqNs = 0
			if mine, ok := claims[key]; ok && !bytes.Equal(mine, payload) {
				return conflictOf(key, payload)
			}
			return nil
		})
}

// checkNewer refuses a batch of which a device was described, said something of its name, or has
// a claim of its name, with a greater acq.
func (s *Store) checkNewer(ctx context.Context, b *record.Batch, newestNs int64) error {
	described, claimed := map[record.Key]bool{}, map[record.Key]bool{}
	for i, moid := range b.MOID {
		key := b.Key(i)
		key.AcqNs = 0
		switch moid {
		case record.NameMOID:
			claimed[key] = true
		case record.DeviceNameMOID: // depends on descriptions, too: a removal deletes them
			key.CapNs = 0
			described[key] = true
			key.MOID = record.DescriptionMOID
			described[key] = true
		case record.DescriptionMOID:
			key.CapNs = 0
			described[key] = true
		}
	}
	newer := record.Query{}
	newer.Box[record.Acq] = record.RangeSet{{From: newestNs + 1, To: record.Acq.Max()}}
	if err := eachOfKeys(ctx, s, described, newer, false, func(key record.Key, _ []byte) error {
		acqNs := key.AcqNs
		if key.CapNs, key.AcqNs = 0, 0; !described[key] {
			return nil
		}
		return fmt.Errorf("device %d of tenant %d was described by another client, with acq "+
			"%d, after this one read it: %w", key.MID, key.CID, acqNs, ErrConflict)
	}); err != nil {
		return err
	}
	return eachOfKeys(ctx, s, claimed, newer, true, func(key record.Key, _ []byte) error {
		acqNs := key.AcqNs
		if key.AcqNs = 0; !claimed[key] {
			return nil
		}
		return fmt.Errorf("tenant %d: another client has claimed a name or taken it back, with "+
			"acq %d, after this one read it: %w", key.CID, acqNs, ErrConflict)
	})
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

// eachOfKeys visits the visible records of a query with some keys, and perhaps others; without caps
// these may be any.
func eachOfKeys[T any](
	ctx context.Context, s *Store, keys map[record.Key]T, q record.Query, withCap bool,
	visit func(key record.Key, payload []byte) error,
) error {
	sorted := make([]record.Key, 0, len(keys))
	for key := range keys {
		sorted = append(sorted, key)
	}
	slices.SortFunc(sorted, record.Key.Compare) // those near each other are in the same blocks
	for some := range slices.Chunk(sorted, maxCheckedKeys) {
		one := record.Query{View: q.View, Box: boxAround(some, withCap)}
		one.Box[record.Acq] = q.Box[record.Acq]
		if err := s.eachVisible(ctx, &one, visit); err != nil {
			return err
		}
	}
	return nil
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
