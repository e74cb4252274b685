// Package nodesync copies a node to another by ranges of acq, and compares two nodes by digests of
// such ranges.
//
// It owns the order of requests: what the source has up to its horizon is cut into slices, each is
// read, put and compared, and the copy's own horizon says where to go on after an interruption. It
// keeps nothing itself. It knows nothing of files or of how nodes keep records. Its main functions
// are [Copy], [Restamp] and [Verify]; the first two have one goroutine, which reads ahead and ends
// with them.
package nodesync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// defaultSliceRows is how many rows are read at once: few enough for memory, as two slices are
	// held, and enough that blocks which reach over the ends are not opened too often.
	defaultSliceRows = 1 << 18
	// defaultSliceBytes is how many payload bytes a slice has, unless one row has more: a node with
	// little memory takes it.
	defaultSliceBytes = 8 << 20
	// retryFor is how long a node that is overloaded is asked again.
	retryFor = time.Minute
)

// Node is what is asked of a node; a client is one.
type Node interface {
	SyncState(ctx context.Context) (wire.State, error)
	Digest(ctx context.Context, q *wire.DigestQuery) (wire.Digests, error)
	PutRange(ctx context.Context, r *wire.Range) (horizonNs int64, err error)
	Scan(ctx context.Context, q *record.Query, rows func(b *record.Batch) error) (wire.End, error)
}

// Behind is a node whose replicas may be at different places, such as one of a cluster. [Copy],
// [Restamp] and [Verify] ask it, and a client, to wait for what it has said before: what one
// replica has below an acq another one may lack.
type Behind interface {
	Node
	// Past returns the node, whose answers come when it has everything up to an acq.
	Past(acqNs int64) Node
}

// past returns a node whose answers have everything below a horizon.
func past(n Node, horizonNs int64) Node {
	if horizonNs <= 0 {
		return n
	}
	switch n := n.(type) {
	case *client.Client:
		return n.After(horizonNs - 1)
	case Behind:
		return n.Past(horizonNs - 1)
	}
	return n
}

// Options of a copy or comparison. The zero value copies everything as fast as it goes.
type Options struct {
	Box        record.Box // what is copied, without acq; the same each time
	SliceRows  uint64     // rows that are read at once, about; 2^18
	SliceBytes uint64     // payload bytes that are read at once; 8 MiB
	RowsPerSec float64    // no more are put; 0: no limit
	// Progress is called after each range with what was copied so far; may be nil.
	Progress func(r *Report)
}

func (o Options) withDefaults() Options {
	if o.SliceRows == 0 {
		o.SliceRows = defaultSliceRows
	}
	if o.SliceBytes == 0 {
		o.SliceBytes = defaultSliceBytes
	}
	return o
}

// Report says what was copied.
type Report struct {
	Rows, Bytes  uint64
	Events       int // erases and purges
	Ranges       int
	FromNs, ToNs int64 // of the acqs that were missing
	// Unproved counts slices of which the source had less when they were compared than when they
	// were read: a purge or retention, which the next run copies, came between.
	Unproved int
}

// Errors that callers branch on.
var (
	// ErrNotACopy means that the target can not become, or go on as, a copy of the source, or take
	// its records under new acqs.
	ErrNotACopy = errors.New("target does not fit the source")
	// ErrDiffers means that two nodes do not hold the same records.
	ErrDiffers = errors.New("source and copy differ")
)

// Copy makes a node that is empty, or a copy of the source already, an exact copy of what the
// source has below its horizon. It can be interrupted anywhere and called again.
//
// Errors: ErrNotACopy; ErrDiffers when what arrived is not what was sent; those of the nodes.
func Copy(ctx context.Context, from, to Node, opt Options) (Report, error) {
	c := &copying{from: from, to: to, opt: opt.withDefaults(), began: time.Now()}
	if err := c.begin(ctx); err != nil {
		return c.report, err
	}
	return c.report, c.each(ctx, c.put)
}

// each reads slice after slice, one ahead, and hands them to put.
func (c *copying) each(ctx context.Context, put func(ctx context.Context, s *slice) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	loaded := make(chan *slice) // closed by the reader
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(loaded)
		if err := c.read(ctx, loaded); err != nil {
			cancel(err)
		}
	})
	var err error
	for s := range loaded {
		if err = put(ctx, s); err != nil {
			cancel(err)
			break
		}
	}
	wg.Wait()
	if cause := context.Cause(ctx); err == nil && cause != nil {
		err = cause
	}
	return err
}

// copying is one run.
type copying struct {
	from, to Node
	opt      Options
	source   wire.State
	report   Report
	began    time.Time
}

// slice is what was read of a slice of acq: its rows by acq, and the newest purge, or step
// of a retention, that meets the box.
type slice struct {
	digest   wire.Digest
	rows     *record.Batch
	purgedNs int64
}

// begin asks both nodes and finds out where to go on.
func (c *copying) begin(ctx context.Context) error {
	target, err := c.to.SyncState(ctx)
	if err != nil {
		return fmt.Errorf("ask the target: %w", err)
	}
	if c.source, err = c.from.SyncState(ctx); err != nil {
		return fmt.Errorf("ask the source: %w", err)
	}
	if err := normalizeBox(&c.opt.Box); err != nil {
		return err
	}
	switch {
	case c.source.Store == target.Store:
		return fmt.Errorf("%w: both are the same node", ErrNotACopy)
	case c.source.Groups > 0:
		return fmt.Errorf("%w: the source is a cluster of %d groups, whose records may share acqs "+
			"and whose erases have one in each group; copy each of its groups into a group of "+
			"another cluster, or use --restamp", ErrNotACopy, c.source.Groups)
	case target.Of == [16]byte{} && !target.Empty:
		return fmt.Errorf("%w: it holds other records or events; copy into a new node",
			ErrNotACopy)
	case target.Of != [16]byte{} && target.Of != c.source.Store:
		return fmt.Errorf("%w: it is a copy of store %x, and the source is store %x; copy into a "+
			"new node", ErrNotACopy, target.Of, c.source.Store)
	case target.Of != [16]byte{} && !sameBox(&target.Box, &c.opt.Box):
		return fmt.Errorf("%w: it is a copy with other selectors; use the same ones, or copy "+
			"into a new node", ErrNotACopy)
	case target.Of != [16]byte{}:
		c.report.FromNs = target.HorizonNs
		if err := lacks(&c.source, target.Held, target.HeldNs); err != nil {
			return fmt.Errorf("%w; copy into a new node, or compare the two with "+
				"pentad sync verify", err)
		}
	}
	c.report.ToNs = c.source.HorizonNs
	if c.report.FromNs > c.report.ToNs {
		return fmt.Errorf("%w: it ends at acq %d, but the source at %d: the source lost "+
			"records, or its clock was set back", ErrNotACopy, c.report.FromNs, c.report.ToNs)
	}
	return nil
}

// lacks says why a source does not have what was copied of it, up to an acq of a timeline.
func lacks(source *wire.State, timeline uint64, untilNs int64) error {
	if lack := source.Lineage.Lacks(timeline, untilNs); lack != nil {
		return fmt.Errorf("%w: the source lacks records that were copied from it: %w", ErrNotACopy,
			lack)
	}
	return nil
}

// normalizeBox brings the box of a copy into its form: of moids an empty set means all.
func normalizeBox(x *record.Box) error {
	err := x.Normalize()
	if !x.Restricts(record.MOID) && len(x.Asked(record.MOID)) > 0 {
		x[record.MOID] = nil
	}
	return err
}

func sameBox(a, b *record.Box) bool {
	for d := range a {
		if !slices.Equal(a[d], b[d]) {
			return false
		}
	}
	return true
}

// read reads slice after slice up to the source's horizon.
func (c *copying) read(ctx context.Context, loaded chan<- *slice) error {
	at, end := c.report.FromNs, c.report.ToNs
	for at < end {
		next, err := c.readBetween(ctx, at, end, c.opt.SliceRows, loaded)
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// readBetween reads slices of a number of rows, and divides those with too many bytes. It returns
// where they end.
func (c *copying) readBetween(
	ctx context.Context, from, to int64, rows uint64, loaded chan<- *slice,
) (int64, error) {
	plan, err := c.from.Digest(ctx, &wire.DigestQuery{Box: c.opt.Box, Rows: rows,
		Cuts: []int64{from, to}})
	if err != nil {
		return 0, fmt.Errorf("ask the source for digests: %w", err)
	}
	for _, d := range plan.Slices {
		if d.FromNs != from || d.ToNs <= from || d.ToNs > to {
			return 0, fmt.Errorf("the source returned digests of %d to %d, after those up "+
				"to %d", d.FromNs, d.ToNs, from)
		}
		from = d.ToNs
		if d.Bytes > c.opt.SliceBytes && rows > 1 {
			share := float64(c.opt.SliceBytes) / float64(d.Bytes)
			fewer := max(1, min(rows-1, uint64(share*float64(rows)/2)))
			for at := d.FromNs; at < d.ToNs; {
				if at, err = c.readBetween(ctx, at, d.ToNs, fewer, loaded); err != nil {
					return 0, err
				}
			}
			continue
		}
		s := &slice{digest: d}
		s.rows, s.purgedNs, err = readRows(ctx, c.from, &c.opt.Box, d.FromNs, d.ToNs)
		if err != nil {
			return 0, fmt.Errorf("read the source: %w", err)
		}
		select {
		case loaded <- s:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return from, nil
}

// readRows reads the rows of a box between two acqs, and orders them by acq. purgedNs is the acq of
// the newest purge, or step of a retention, that meets the box: it may hide others.
func readRows(
	ctx context.Context, n Node, box *record.Box, fromNs, toNs int64,
) (rows *record.Batch, purgedNs int64, err error) {
	q := &record.Query{Box: *box, Verify: true}
	q.Box.IncludeReserved()
	q.Box[record.Acq] = record.RangeSet{{From: fromNs, To: toNs}}
	all := &record.Batch{}
	end, err := n.Scan(ctx, q, func(b *record.Batch) error {
		if uint64(len(all.Data))+uint64(len(b.Data)) > math.MaxUint32 {
			return errors.New("more than 4 GiB of payloads between two acqs, which had less before")
		}
		all.AppendRows(b, 0, b.Len())
		return nil
	})
	switch {
	case err != nil:
	case !end.Complete:
		err = fmt.Errorf("incomplete answer: %s", end.Reason)
	case end.HorizonNs < toNs:
		err = fmt.Errorf("the answer ends at acq %d, but the node reported all records below %d",
			end.HorizonNs, toNs)
	}
	return byAcq(all), end.HistoryChangedAcqNs, err
}

// byAcq returns the rows in the order of their acqs.
func byAcq(all *record.Batch) *record.Batch {
	type indexed struct {
		acq int64
		row int
	}
	order := make([]indexed, all.Len())
	for i, acq := range all.AcqNs {
		order[i] = indexed{acq, i}
	}
	slices.SortStableFunc(order, func(a, b indexed) int { return cmp.Compare(a.acq, b.acq) })
	out := &record.Batch{Data: make([]byte, 0, len(all.Data))}
	for from, to := 0, 0; from < len(order); from = to {
		for to = from + 1; to < len(order) && order[to].row == order[to-1].row+1; to++ {
		}
		out.AppendRows(all, order[from].row, order[to-1].row+1)
	}
	return out
}

// put copies a slice in ranges of as many rows as a frame holds, and proves it.
func (c *copying) put(ctx context.Context, s *slice) error {
	d := &s.digest
	for from, row := d.FromNs, 0; from < d.ToNs; {
		last := min(row+record.MaxBatchRecords, s.rows.Len())
		r := &wire.Range{Of: c.source.Store, Box: c.opt.Box, FromNs: from, ToNs: d.ToNs}
		if last < s.rows.Len() {
			r.ToNs = s.rows.AcqNs[last]
		}
		if last > row {
			r.Rows = &record.Batch{}
			r.Rows.AppendRows(s.rows, row, last)
		}
		r.Timeline = c.source.Lineage.At(r.ToNs)
		c.addHistory(r)
		if err := c.putRange(ctx, r); err != nil {
			return fmt.Errorf("put range from acq %d to %d: %w", r.FromNs, r.ToNs, err)
		}
		c.report.Rows += uint64(last - row)
		c.report.Events += len(r.History.Hiding)
		c.report.Ranges++
		from, row = r.ToNs, last
		if c.opt.Progress != nil {
			c.opt.Progress(&c.report)
		}
		if err := c.slowDown(ctx); err != nil {
			return err
		}
	}
	c.report.Bytes += d.Bytes
	return c.prove(ctx, s)
}

// addHistory gives a range the events in it, and the policies: all with the last one, and with
// others those that took a step.
func (c *copying) addHistory(r *wire.Range) {
	for _, e := range c.source.History.Hiding {
		if e.AcqNs >= r.FromNs && e.AcqNs < r.ToNs {
			r.History.Hiding = append(r.History.Hiding, e)
		}
	}
	r.Whole = r.ToNs == c.source.HorizonNs
	if r.Whole {
		r.History.Policies = c.source.History.Policies
		return
	}
	inside := func(step int64) bool { return step >= r.FromNs && step < r.ToNs }
	for _, p := range c.source.History.Policies {
		removable := func(g wire.Removable) bool { return inside(g.AcqNs) }
		if inside(p.Cap.StepAcqNs) || inside(p.Acq.StepAcqNs) ||
			slices.ContainsFunc(p.Cap.Gone, removable) ||
			slices.ContainsFunc(p.Acq.Gone, removable) {
			r.History.Policies = append(r.History.Policies, p)
		}
	}
}

func (c *copying) putRange(ctx context.Context, r *wire.Range) error {
	return retry(ctx, func() error {
		at, err := c.to.PutRange(ctx, r)
		if err == nil && at < r.ToNs {
			err = fmt.Errorf("the copy ends at acq %d after the put", at)
		}
		return err
	})
}

// retry asks again and again while a node is overloaded.
func retry(ctx context.Context, ask func() error) error {
	until := time.Now().Add(retryFor)
	for {
		err := ask()
		var remote *wire.Error
		if !errors.As(err, &remote) || !remote.Kind.Temporary() || time.Now().After(until) {
			return err
		}
		pause := time.Duration(max(remote.RetryAfterMs, 50)) * time.Millisecond
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

// slowDown waits until no more rows were put than the rate allows.
func (c *copying) slowDown(ctx context.Context) error {
	if c.opt.RowsPerSec == 0 {
		return nil
	}
	due := time.Duration(float64(c.report.Rows) / c.opt.RowsPerSec * float64(time.Second))
	return wait(ctx, due-time.Since(c.began))
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// prove compares a slice that was copied by digest. When the source lost rows of it since the run
// began, there is nothing to compare with.
func (c *copying) prove(ctx context.Context, s *slice) error {
	ask := &wire.DigestQuery{Box: c.opt.Box, Cuts: []int64{s.digest.FromNs, s.digest.ToNs}}
	got, err := digestOf(ctx, past(c.to, s.digest.ToNs), ask)
	if err != nil {
		return fmt.Errorf("ask the target for a digest: %w", err)
	}
	if got.Slices[0] == s.digest {
		return nil
	}
	again, err := digestOf(ctx, c.from, ask)
	if err != nil {
		return fmt.Errorf("ask the source for a digest: %w", err)
	}
	switch {
	case got.Slices[0] == again.Slices[0]:
		return nil
	case again.HistoryChangedAcqNs >= c.source.HorizonNs:
		c.report.Unproved++
		return nil
	}
	return fmt.Errorf("%w: of the acqs from %d to %d the source has %d rows and the copy %d; "+
		"pentad sync verify names them", ErrDiffers, s.digest.FromNs, s.digest.ToNs,
		again.Slices[0].Rows, got.Slices[0].Rows)
}

// digestOf asks for the digests between cuts.
func digestOf(ctx context.Context, n Node, q *wire.DigestQuery) (wire.Digests, error) {
	all, err := n.Digest(ctx, q)
	if err == nil && len(all.Slices) != len(q.Cuts)-1 {
		err = fmt.Errorf("%d digests returned for %d slices", len(all.Slices), len(q.Cuts)-1)
	}
	for i := range all.Slices {
		if err == nil && (all.Slices[i].FromNs != q.Cuts[i] || all.Slices[i].ToNs != q.Cuts[i+1]) {
			err = fmt.Errorf("digest %d covers other acqs than requested", i)
		}
	}
	return all, err
}
