package nodesync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// nameRows is how many rows of a slice that differs are read to be held against each other.
	nameRows = 4096
	// maxNamed is how many differences are named.
	maxNamed = 100
	// narrowing is into how many parts a slice that differs is divided.
	narrowing = 16
)

// What says how a record differs.
type What string

// What a difference is.
const (
	Missing What = "missing" // the copy lacks it
	Extra   What = "extra"   // only the copy has it
	Changed What = "changed" // another payload, or a tombstone on one side
	NoEvent What = "event"   // an erase or purge that only one side has
)

// Difference is a record, or an event, that two nodes do not both have as it is.
type Difference struct {
	What What
	Key  record.Key // of an event its acq alone
}

// Comparison says how two nodes compare.
type Comparison struct {
	Rows   uint64       // that the source has
	ToNs   int64        // acqs below this were compared
	Slices int          // that were compared
	Named  []Difference // the first that were found; maxNamed at most
	// Purged counts rows that only the copy has, because the source purged them or let them expire
	// since; the next run of a sync does the same to the copy.
	Purged uint64
}

// Verify compares a copy with its source, up to where the copy ends: by digests of slices, and
// where these differ by ever smaller ones, down to the records.
//
// Errors: ErrNotACopy; ErrDiffers; those of the nodes.
func Verify(ctx context.Context, from, to Node, opt Options) (Comparison, error) {
	c := &comparing{from: from, to: to, opt: opt.withDefaults()}
	if err := c.begin(ctx); err != nil {
		return c.report, err
	}
	for at := int64(0); at < c.report.ToNs; {
		ask := &wire.DigestQuery{Box: c.opt.Box, Rows: c.opt.SliceRows,
			Cuts: []int64{at, c.report.ToNs}}
		next, err := c.compare(ctx, ask, c.from, true)
		if err != nil {
			return c.report, err
		}
		at = next
	}
	if len(c.report.Named) > 0 {
		return c.report, ErrDiffers
	}
	return c.report, nil
}

type comparing struct {
	from, to Node
	opt      Options
	report   Comparison
	// since is what removed rows of the source that the copy has not heard of.
	since wire.History
}

// begin finds out what there is to compare, and compares the events.
func (c *comparing) begin(ctx context.Context) error {
	target, err := c.to.SyncState(ctx)
	if err != nil {
		return fmt.Errorf("ask the copy: %w", err)
	}
	source, err := c.from.SyncState(ctx)
	if err != nil {
		return fmt.Errorf("ask the source: %w", err)
	}
	if target.Of != source.Store {
		return fmt.Errorf("%w: it is not a copy of store %x; pentad sync status shows its source",
			ErrNotACopy, source.Store)
	}
	c.opt.Box, c.report.ToNs = target.Box, min(target.HorizonNs, source.HorizonNs)
	c.from, c.to = past(c.from, c.report.ToNs), past(c.to, c.report.ToNs)
	c.since = source.History
	here, there := c.events(&source), c.events(&target)
	for acq, e := range here {
		if !reflect.DeepEqual(e, there[acq]) {
			c.name(Difference{What: NoEvent, Key: record.Key{AcqNs: acq}})
		}
	}
	for acq := range there {
		if _, ok := here[acq]; !ok {
			c.name(Difference{What: NoEvent, Key: record.Key{AcqNs: acq}})
		}
	}
	return nil
}

func (c *comparing) events(st *wire.State) map[int64]wire.Hiding {
	all := map[int64]wire.Hiding{}
	for _, e := range st.History.Hiding {
		if e.AcqNs < c.report.ToNs {
			all[e.AcqNs] = e
		}
	}
	return all
}

func (c *comparing) name(d Difference) {
	if len(c.report.Named) < maxNamed {
		c.report.Named = append(c.report.Named, d)
	}
}

// compare compares the slices that by, one of the nodes, makes of two cuts. It returns where they
// end.
func (c *comparing) compare(
	ctx context.Context, ask *wire.DigestQuery, by Node, count bool,
) (int64, error) {
	plan, err := by.Digest(ctx, ask)
	if err == nil && (len(plan.Slices) == 0 || plan.Slices[0].FromNs != ask.Cuts[0]) {
		err = errors.New("the answer starts at another acq")
	}
	if err != nil {
		return 0, fmt.Errorf("ask for digests: %w", err)
	}
	exact := &wire.DigestQuery{Box: c.opt.Box, Cuts: []int64{plan.Slices[0].FromNs}}
	for i := range plan.Slices {
		exact.Cuts = append(exact.Cuts, plan.Slices[i].ToNs)
	}
	here, err := digestOf(ctx, c.from, exact)
	if err != nil {
		return 0, fmt.Errorf("ask the source for digests: %w", err)
	}
	there, err := digestOf(ctx, c.to, exact)
	if err != nil {
		return 0, fmt.Errorf("ask the copy for digests: %w", err)
	}
	for i := range here.Slices {
		if count {
			c.report.Rows += here.Slices[i].Rows
			c.report.Slices++
		}
		if here.Slices[i] == there.Slices[i] || len(c.report.Named) == maxNamed {
			continue
		}
		if err := c.narrow(ctx, &here.Slices[i], &there.Slices[i]); err != nil {
			return 0, err
		}
	}
	return exact.Cuts[len(exact.Cuts)-1], nil
}

// narrow divides a slice that differs, as the side that has more rows of it would, until its rows
// can be read.
func (c *comparing) narrow(ctx context.Context, here, there *wire.Digest) error {
	rows, by := here.Rows, c.from
	if there.Rows > rows {
		rows, by = there.Rows, c.to
	}
	if rows <= nameRows && max(here.Bytes, there.Bytes) <= c.opt.SliceBytes || rows <= 1 {
		return c.nameBetween(ctx, here.FromNs, here.ToNs)
	}
	for at := here.FromNs; at < here.ToNs; {
		next, err := c.compare(ctx, &wire.DigestQuery{Box: c.opt.Box,
			Rows: max(1, rows/narrowing), Cuts: []int64{at, here.ToNs}}, by, false)
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// nameBetween reads a slice from both nodes and names the records that differ.
func (c *comparing) nameBetween(ctx context.Context, fromNs, toNs int64) error {
	here, _, err := readRows(ctx, c.from, &c.opt.Box, fromNs, toNs)
	if err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	there, _, err := readRows(ctx, c.to, &c.opt.Box, fromNs, toNs)
	if err != nil {
		return fmt.Errorf("read the copy: %w", err)
	}
	asked := false
	for i, k := 0, 0; i < here.Len() || k < there.Len(); {
		switch {
		case k == there.Len() || i < here.Len() && here.AcqNs[i] < there.AcqNs[k]:
			c.name(Difference{What: Missing, Key: here.Key(i)})
			i++
		case i == here.Len() || there.AcqNs[k] < here.AcqNs[i]:
			if !c.gone(there.Key(k)) && !asked {
				asked = true // it may have been purged a moment ago
				if err := c.askSince(ctx); err != nil {
					return err
				}
			}
			if c.gone(there.Key(k)) {
				c.report.Purged++
			} else {
				c.name(Difference{What: Extra, Key: there.Key(k)})
			}
			k++
		default:
			if here.Key(i) != there.Key(k) || here.Tomb(i) != there.Tomb(k) ||
				!bytes.Equal(here.Payload(i), there.Payload(k)) {
				c.name(Difference{What: Changed, Key: here.Key(i)})
			}
			i++
			k++
		}
	}
	return nil
}

func (c *comparing) askSince(ctx context.Context) error {
	source, err := c.from.SyncState(ctx)
	if err != nil {
		return fmt.Errorf("ask the source: %w", err)
	}
	c.since = source.History
	return nil
}

// gone reports whether the source purged a row, or let it expire, after the moment at which the
// copy ends. What it did before, the copy should have done, too.
func (c *comparing) gone(key record.Key) bool {
	for i := range c.since.Hiding {
		h := &c.since.Hiding[i]
		if h.Purge && h.AcqNs >= c.report.ToNs && key.AcqNs < h.AcqNs && h.Box.Contains(key) {
			return true
		}
	}
	for i := range c.since.Policies {
		p := &c.since.Policies[i]
		mine := !record.IsReservedMOID(key.MOID) // which a policy leaves alone
		if p.MOID != nil {
			mine = *p.MOID == key.MOID
		}
		mine = mine && (p.CID == nil || *p.CID == key.CID)
		if mine && (c.expired(&p.Cap, key, key.CapNs) || c.expired(&p.Acq, key, key.AcqNs)) {
			return true
		}
	}
	return false
}

// expired reports whether the floors of a policy hide a row since the moment at which the copy
// ends.
func (c *comparing) expired(f *wire.Floors, key record.Key, valueNs int64) bool {
	hides := func(b wire.Bound) bool { return key.AcqNs < b.BelowNs && valueNs < b.FloorNs }
	return f.StepAcqNs >= c.report.ToNs && hides(f.Hidden) ||
		slices.ContainsFunc(f.Gone, func(g wire.Removable) bool {
			return g.AcqNs >= c.report.ToNs && hides(g.Bound)
		})
}
