package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	maxNames = 1000 // of one question: fewer than the ranges that a box may have
	// namesAtOnce get their ids together, and are put in batches of claimsAtOnce.
	namesAtOnce  = record.MaxClaimedIDs
	claimsAtOnce = 2500
	// maxClaimTries is how often names, ids or a description are put, each time after other
	// clients were faster.
	maxClaimTries = 100
)

// Device is a device that has a name.
type Device struct {
	MID  int64
	Name string
}

// FindDevices returns the ids of names of devices of a tenant, in the order of names; that of a
// name that no device has is 0, which no name gets.
//
// Cost: two queries for 1,000 names.
func (c *Client) FindDevices(ctx context.Context, cid int32, names []string) ([]int64, error) {
	return c.FindDevicesAsOf(ctx, cid, names, 0)
}

// FindDevicesAsOf is FindDevices as known before an acq; 0: now.
func (c *Client) FindDevicesAsOf(
	ctx context.Context, cid int32, names []string, asOfNs int64,
) ([]int64, error) {
	found, err := c.heldNames(ctx, cid, names, asOfNs)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(names))
	for i, name := range names {
		ids[i] = found.ids[name]
	}
	return ids, nil
}

// NameDevices returns the ids of names of devices of a tenant, in the order of names, and gives ids
// to the names that have none: created of them. A name has the same id for all clients, also for
// those that name it at the same time, and keeps it. New ids follow each other, are at least 2^40,
// and are of devices that have no records yet.
//
// Errors: those of registry.CheckName, of puts and of queries. Names before the error may have got
// their ids: the same call returns them.
//
// Cost: two queries for 1,000 names, and if some are new for 10,000 three queries and two puts.
func (c *Client) NameDevices(
	ctx context.Context, cid int32, names []string,
) (ids []int64, created int, err error) {
	for _, name := range names {
		if err := registry.CheckName(name); err != nil {
			return nil, 0, err
		}
	}
	for some := range slices.Chunk(names, namesAtOnce) {
		found, n, err := c.nameSome(ctx, cid, some)
		if err != nil {
			return nil, created, err
		}
		created += n
		for _, name := range some {
			ids = append(ids, found[name])
		}
	}
	return ids, created, nil
}

// Devices returns the devices of a tenant that have names, by name.
//
// Cost: a scan of all names of the tenant.
func (c *Client) Devices(ctx context.Context, cid int32) ([]Device, error) {
	return c.DevicesAsOf(ctx, cid, 0)
}

// DevicesAsOf is Devices as known before an acq; 0: now.
func (c *Client) DevicesAsOf(ctx context.Context, cid int32, asOfNs int64) ([]Device, error) {
	return c.named(ctx, cid, asOfNs)
}

// nameSome is NameDevices for at most namesAtOnce.
func (c *Client) nameSome(
	ctx context.Context, cid int32, names []string,
) (ids map[string]int64, created int, err error) {
	held, err := c.heldNames(ctx, cid, names, 0)
	if err != nil {
		return nil, 0, err
	}
	ids = held.ids
	var fresh []string
	for _, name := range names {
		if _, ok := ids[name]; !ok {
			ids[name] = 0
			fresh = append(fresh, name)
		}
	}
	if len(fresh) == 0 {
		return ids, 0, nil
	}
	if err := c.takeBack(ctx, cid, held.former); err != nil {
		return nil, 0, err
	}
	first, err := c.takeIDs(ctx, cid, len(fresh))
	if err != nil {
		return nil, 0, err
	}
	for i, name := range fresh {
		ids[name] = first + int64(i)
	}
	created = len(fresh)
	for try := 1; len(fresh) > 0; try++ {
		err := eachOfMany(slices.Collect(slices.Chunk(fresh, claimsAtOnce)), true,
			func(some []string) error { return c.claimNames(ctx, cid, some, ids) })
		if err == nil {
			break
		}
		if !isConflict(err) || try == maxClaimTries {
			return nil, 0, fmt.Errorf("store names of devices: %w", err)
		}
		won, err := c.heldNames(ctx, cid, fresh, 0)
		if err == nil {
			err = c.takeBack(ctx, cid, won.former)
		}
		if err != nil {
			return nil, 0, err
		}
		fresh = slices.DeleteFunc(fresh, func(name string) bool {
			id, ok := won.ids[name]
			if ok && id != ids[name] {
				ids[name] = id
				created--
			}
			return ok
		})
	}
	return ids, created, nil
}

// claimNames puts the claims of names by their ids.
func (c *Client) claimNames(
	ctx context.Context, cid int32, names []string, ids map[string]int64,
) error {
	var b record.Batch
	for _, name := range names {
		b.Append(record.NameClaimKey(cid, name), record.AppendNameClaim(nil, ids[name], name))
	}
	return c.putDevices(ctx, &b, unconditional)
}

// isConflict reports whether a put was refused because of what another client put before.
func isConflict(err error) bool {
	var remote *wire.Error
	return errors.As(err, &remote) && remote.Kind == wire.KindConflict
}

// takeIDs claims n ids that follow each other, of devices without records.
func (c *Client) takeIDs(ctx context.Context, cid int32, n int) (first int64, err error) {
	var claimant [16]byte
	_, _ = rand.Read(claimant[:]) // which never fails
	claim := record.AppendIDClaim(nil, claimant, n)
	newest := record.Query{Last: 1}
	if first, err = c.afterIDClaims(ctx, cid, &newest, record.FirstGivenID); err != nil {
		return 0, err
	}
	for range maxClaimTries {
		var b record.Batch
		b.Append(record.IDClaimKey(cid, first), claim)
		err := c.putDevices(ctx, &b, unconditional)
		if err != nil && !isConflict(err) {
			return 0, fmt.Errorf("take ids for devices: %w", err)
		}
		next := first + 1
		if err == nil {
			if next, err = c.afterUsed(ctx, cid, first, n); err != nil || next == first {
				return first, err
			}
		}
		// Claims that begin before the next id may go beyond it.
		near := record.Query{}
		near.Box[record.Cap] = record.RangeSet{{From: first - record.MaxClaimedIDs,
			To: record.Cap.Max()}}
		if first, err = c.afterIDClaims(ctx, cid, &near, next); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("tenant %d: other clients took ids for devices %d times in turn; try "+
		"again", cid, maxClaimTries)
}

// afterIDClaims returns the first id from one on that no claim takes of those that a query finds.
func (c *Client) afterIDClaims(
	ctx context.Context, cid int32, q *record.Query, from int64,
) (next int64, err error) {
	key := record.IDClaimKey(cid, 0)
	box := seriesBox(key)
	box[record.Cap] = q.Box[record.Cap]
	q.Box, q.View = box, record.ViewLatest
	next = from
	err = c.eachOf(ctx, q, func(r record.Record) {
		if n, err := record.ParseIDClaim(r.Key, r.Payload); err == nil {
			next = max(next, r.CapNs+n)
		}
	})
	return next, err
}

// afterUsed returns the first of n ids that were claimed if they are free: if no other claim
// overlaps theirs, and the devices have no records, as devices may have that were numbered by hand.
// Else it returns where to claim next. All who claim look after they did, so that of two that
// overlap at least one is not used.
func (c *Client) afterUsed(
	ctx context.Context, cid int32, first int64, n int,
) (next int64, err error) {
	end := first + int64(n)
	overlapping := record.Query{View: record.ViewLatest,
		Box: seriesBox(record.IDClaimKey(cid, first))}
	overlapping.Box[record.Cap] = record.RangeSet{{From: first - record.MaxClaimedIDs, To: end}}
	next = first
	if err := c.eachOf(ctx, &overlapping, func(r record.Record) {
		ids, err := record.ParseIDClaim(r.Key, r.Payload)
		if err == nil && r.CapNs != first && r.CapNs+ids > first {
			next = max(next, end, r.CapNs+ids)
		}
	}); err != nil || next != first {
		return next, err
	}
	for step := int64(n); ; step *= 2 {
		used := record.Query{Box: record.Box{record.CID: {record.At(int64(cid))},
			record.MID:  {{From: next, To: next + int64(n)}},
			record.MOID: {record.All(record.MOID)}}}
		count, err := c.countNow(ctx, &used)
		if err != nil || count == 0 {
			return next, err
		}
		next += step
	}
}

// eachOf hands over the records of an answer that must be whole and of now.
func (c *Client) eachOf(
	ctx context.Context, q *record.Query, take func(record.Record),
) error {
	_, err := c.readDevices(ctx, q, take)
	return err
}

// readDevices is eachOf, which also returns the end of the answer.
func (c *Client) readDevices(
	ctx context.Context, q *record.Query, take func(record.Record),
) (wire.End, error) {
	end, err := whenReady(ctx, func() (end wire.End, began bool, err error) {
		end, err = c.scanNow(ctx, q, func(b *record.Batch) error {
			began = true
			for i := range b.Len() {
				take(record.Record{Key: b.Key(i), Payload: b.Payload(i), Tomb: b.Tomb(i)})
			}
			return nil
		})
		return end, began, err
	})
	return end, wholeAnswer(&end, err)
}

// countNow counts the records of an answer that must be whole and of now.
func (c *Client) countNow(ctx context.Context, q *record.Query) (count uint64, err error) {
	end, err := whenReady(ctx, func() (end wire.End, began bool, err error) {
		if c.local == nil {
			count, end, err = c.Linearizable().Count(ctx, q)
			return end, false, err
		}
		count = 0
		end, err = c.scanNow(ctx, q, func(b *record.Batch) error {
			count += uint64(b.Len())
			return nil
		})
		return end, false, err
	})
	return count, wholeAnswer(&end, err)
}

func wholeAnswer(end *wire.End, err error) error {
	if err == nil && !end.Complete {
		err = fmt.Errorf("the answer is incomplete: %s", end.Reason)
	}
	if err != nil {
		return fmt.Errorf("read devices: %w", err)
	}
	return nil
}

// whenReady asks until the node is not overloaded, for as long as puts are tried, unless an answer
// had begun.
func whenReady(
	ctx context.Context, ask func() (end wire.End, began bool, err error),
) (wire.End, error) {
	deadline := time.Now().Add(defaultRetryFor)
	for backoff := firstBackoff; ; backoff = min(2*backoff, maxBackoff) {
		end, began, err := ask()
		var remote *wire.Error
		if began || !errors.As(err, &remote) || remote.Kind != wire.KindOverloaded ||
			time.Now().After(deadline) {
			return end, err
		}
		select {
		case <-time.After(max(backoff/2+mathrand.N(backoff),
			time.Duration(remote.RetryAfterMs)*time.Millisecond)):
		case <-ctx.Done():
			return end, err
		}
	}
}

// seriesBox holds all records of the series of a key.
func seriesBox(key record.Key) record.Box {
	return record.Box{record.CID: {record.At(int64(key.CID))}, record.MID: {record.At(key.MID)},
		record.MOID: {record.At(int64(key.MOID))}}
}
