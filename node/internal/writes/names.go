package writes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// maxCheckedNames is how many names one query asks for: fewer than the ranges that a box may have.
const maxCheckedNames = 1000

// checkNames refuses descriptions with a name that is claimed for another device. Names that no
// device has pass: a device may be described before its name is claimed. What is claimed at the
// same time may be missed, as a name and what has it are in different groups. Where descriptions
// follow from older ones, the name was that of the device and is not any longer.
//
// Errors: *record.InvalidError, or store.ErrConflict if they follow; those of queries.
//
// Cost: a query for 1,000 names.
func (d *Dispatcher) checkNames(ctx context.Context, b *record.Batch, follow bool) error {
	described := map[record.Key]int64{} // the key of the claim of a name -> the device
	var keys []record.Key
	for i, moid := range b.MOID {
		if moid != record.DescriptionMOID || b.Tomb(i) {
			continue
		}
		about, err := registry.Parse(b.Payload(i))
		if err != nil || about.Name == "" { // the store says what is wrong
			continue
		}
		key := record.NameClaimKey(b.CID[i], about.Name)
		if other, ok := described[key]; ok && other != b.MID[i] {
			return otherDevice(b.MID[i], about.Name, other)
		} else if !ok {
			described[key] = b.MID[i]
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, record.Key.Compare) // those near each other are in the same blocks
	for some := range slices.Chunk(keys, maxCheckedNames) {
		q := &record.Query{View: record.ViewLatest}
		q.Box[record.MOID] = record.RangeSet{record.At(record.NameMOID)}
		for _, key := range some {
			q.Box[record.CID] = append(q.Box[record.CID], record.At(int64(key.CID)))
			q.Box[record.MID] = append(q.Box[record.MID], record.At(key.MID))
			q.Box[record.Cap] = append(q.Box[record.Cap], record.At(key.CapNs))
		}
		if err := q.Normalize(); err != nil {
			return err
		}
		_, err := d.opt.Engine.Query(ctx, request.Options{Linearizable: true}, q,
			func(found *record.Batch) error { return checkClaims(found, described) })
		if taken := (*record.InvalidError)(nil); follow && errors.As(err, &taken) {
			return fmt.Errorf("%s: %w", taken.Detail, store.ErrConflict)
		}
		if err != nil {
			return fmt.Errorf("look up the names of devices that are described: %w", err)
		}
	}
	return nil
}

// checkClaims compares claims with devices that are described under their names.
func checkClaims(found *record.Batch, described map[record.Key]int64) error {
	for i := range found.Len() {
		key := found.Key(i)
		mid, name, err := record.ParseNameClaim(key, found.Payload(i))
		key.AcqNs = 0
		if wanted, ok := described[key]; ok && err == nil && !found.Tomb(i) && wanted != mid {
			return otherDevice(wanted, name, mid)
		}
	}
	return nil
}

func otherDevice(mid int64, name string, other int64) error {
	return &record.InvalidError{Part: "payload", Reason: record.Inconsistent, Row: -1,
		Detail: fmt.Sprintf("device %d is described with the name %q, which is that of device %d",
			mid, excerpt.Of(name, 80), other)}
}
