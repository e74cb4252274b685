package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// FromNow makes changes begin at the horizon: with what comes from now on.
const FromNow = math.MaxInt64

const (
	// silenceTimeout is how long a feed may say nothing: three of the node's heartbeats.
	silenceTimeout = 45 * time.Second
	// leastPatience is for nodes that say how far they are more often than that: a busy one may be
	// late.
	leastPatience = 5 * time.Second
	// firstBackOff and maxBackOff are how long a client waits before it connects again.
	firstBackOff = 50 * time.Millisecond
	maxBackOff   = 5 * time.Second
)

// Change is a step of a change feed: a record, an event, or neither when nothing came.
type Change struct {
	Record *record.Record // a version or a tombstone, valid until the next change; nil for none
	Event  *wire.Change   // an erase, a purge or a step of a retention; nil for none
	// ClosedNs is the acq to go on from: everything below has come. Groups of a cluster may have
	// records or events of one acq; then only the last of them closes it, and what was made of all
	// must be kept together, or the others come again.
	ClosedNs int64
}

// ChangeBatch is a step of a change feed of many records at once.
type ChangeBatch struct {
	Rows  *record.Batch // acq ascending, valid until the next batch; nil for none
	Event *wire.Change  // nil for none
	// ClosedNs is the acq to go on from. It is that of the rows where more of them have it than a
	// batch holds: those that follow bring the others, and a reader that goes on there meets all.
	ClosedNs int64
}

// Changes returns everything that came to the box of a query from an acq on, in the order of acq,
// and then what comes, until ctx ends: each record once. After a break it connects again and goes
// on where it was. Who keeps ClosedNs with the results goes on there after a crash.
//
// Of the query only box, filters and KeysOnly count. An error that another try would not mend is
// the last thing yielded; ctx.Err() is not yielded.
func (c *Client) Changes(ctx context.Context, q *record.Query, fromNs int64) iter.Seq2[Change,
	error] {
	return func(yield func(Change, error) bool) {
		for b, err := range c.ChangeBatches(ctx, q, fromNs) {
			if err != nil {
				yield(Change{ClosedNs: b.ClosedNs}, err)
				return
			}
			if !b.each(yield) {
				return
			}
		}
	}
}

// each yields the changes of a batch one by one.
func (b *ChangeBatch) each(yield func(Change, error) bool) bool {
	if b.Rows == nil {
		return yield(Change{Event: b.Event, ClosedNs: b.ClosedNs}, nil)
	}
	var r record.Record
	for i := range b.Rows.Len() {
		r = b.Rows.Record(i)
		if !yield(Change{Record: &r, ClosedNs: b.ClosedBy(i)}, nil) {
			return false
		}
	}
	return true
}

// ClosedBy returns the acq to go on from after a row of the batch. One that follows may share its
// acq: a restored one, or another group's.
func (b *ChangeBatch) ClosedBy(row int) int64 {
	acq := b.Rows.AcqNs[row]
	if row+1 < b.Rows.Len() && b.Rows.AcqNs[row+1] == acq || b.ClosedNs == acq {
		return acq
	}
	return acq + 1
}

// ChangeBatches is Changes by batches of up to 65,536 records.
func (c *Client) ChangeBatches(
	ctx context.Context, q *record.Query, fromNs int64,
) iter.Seq2[ChangeBatch, error] {
	return c.changes(ctx, q, fromNs, true)
}

// PastChanges is ChangeBatches up to the present horizon, where it ends.
func (c *Client) PastChanges(
	ctx context.Context, q *record.Query, fromNs int64,
) iter.Seq2[ChangeBatch, error] {
	return c.changes(ctx, q, fromNs, false)
}

// errBroken marks what another connection may mend.
var errBroken = errors.New("the feed was interrupted")

func (c *Client) changes(
	ctx context.Context, q *record.Query, fromNs int64, follow bool,
) iter.Seq2[ChangeBatch, error] {
	return func(yield func(ChangeBatch, error) bool) {
		f := feed{client: c, follow: follow, fromNs: fromNs}
		checked := *q
		if err := checked.Normalize(); err != nil {
			yield(ChangeBatch{ClosedNs: fromNs}, err)
			return
		}
		f.body = wire.AppendQuery(nil, &checked)
		f.emit = func(b ChangeBatch) error {
			if !yield(b, nil) {
				return errStop
			}
			return nil
		}
		for backOff := firstBackOff; ; backOff = min(2*backOff, maxBackOff) {
			before := f.fromNs
			err := f.connect(ctx)
			switch {
			case err == nil, errors.Is(err, errStop), ctx.Err() != nil:
				return
			case !errors.Is(err, errBroken):
				yield(ChangeBatch{ClosedNs: f.fromNs}, err)
				return
			case f.fromNs != before:
				backOff = firstBackOff
			default: // it may be silent for good
				base, _, _ := c.nodes.now()
				c.nodes.leave(base)
			}
			select {
			case <-time.After(backOff/2 + rand.N(backOff)):
			case <-ctx.Done():
				return
			}
		}
	}
}

// ChangesOnce is ChangeBatches, or without follow PastChanges, over one connection: a break is an
// error. The node says every beat how far it is: who merges feeds waits for the slowest.
func (c *Client) ChangesOnce(
	ctx context.Context, q *record.Query, fromNs int64, follow bool, beat time.Duration,
	emit func(ChangeBatch) error,
) error {
	checked := *q
	if err := checked.Normalize(); err != nil {
		return err
	}
	f := feed{client: c, body: wire.AppendQuery(nil, &checked), follow: follow, beat: beat,
		fromNs: fromNs, emit: emit}
	return f.connect(ctx)
}

// feed is one change feed over all its connections.
type feed struct {
	client *Client
	body   []byte
	follow bool
	beat   time.Duration // how often the node says how far it is; 0 leaves that to the node
	fromNs int64         // everything below was given to emit
	batch  record.Batch
	emit   func(ChangeBatch) error
}

// connect reads one answer. It returns nil at its end, errBroken where another one may go on.
func (f *feed) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	since := strconv.FormatInt(f.fromNs, 10)
	if f.fromNs == FromNow {
		since = "now"
	}
	path := "/v1/changes?since=" + since
	if f.follow {
		path += "&follow=1"
	}
	if f.beat > 0 {
		path += "&beat_ms=" + strconv.FormatInt(f.beat.Milliseconds(), 10)
	}
	patience := silenceTimeout
	if f.beat > 0 {
		patience = max(3*f.beat, leastPatience)
	}
	timeout := time.AfterFunc(patience, cancel)
	defer timeout.Stop()
	body, err := f.client.do(ctx, http.MethodPost, path, wire.ContentType, f.body)
	if err != nil {
		return broken(err)
	}
	defer func() { _ = body.Close() }()
	frames := wire.NewReader(body, wire.MaxFramePayload)
	for closed := false; ; {
		t, payload, err := frames.Next()
		if errors.Is(err, io.EOF) && closed && !f.follow {
			return nil
		}
		if err != nil {
			return broken(err)
		}
		timeout.Stop() // no one but the caller is slow now
		if err := f.frame(t, payload); err != nil {
			return err
		}
		closed = t == wire.FrameClosed
		timeout.Reset(patience)
	}
}

// broken marks errors of the network, and those of the node that pass.
func broken(err error) error {
	var remote *wire.Error
	if errors.As(err, &remote) && !remote.Kind.Temporary() {
		return err
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}

func (f *feed) frame(t wire.FrameType, payload []byte) error {
	out := ChangeBatch{ClosedNs: f.fromNs}
	switch t {
	case wire.FrameRows, wire.FrameOpenRows:
		if err := wire.ParseRows(payload, &f.batch); err != nil {
			return err
		}
		out.Rows, out.ClosedNs = &f.batch, f.batch.AcqNs[f.batch.Len()-1]
		if t == wire.FrameRows {
			out.ClosedNs++
		}
	case wire.FrameChange, wire.FrameSlotsChange:
		parse := wire.ParseChange
		if t == wire.FrameSlotsChange {
			parse = wire.ParseSlotsChange
		}
		out.Event = new(wire.Change)
		if err := parse(payload, out.Event); err != nil {
			return err
		}
		out.ClosedNs = out.Event.ClosedNs
	case wire.FrameClosed:
		var err error
		if out.ClosedNs, err = wire.ParseClosed(payload); err != nil {
			return err
		}
	case wire.FrameError:
		remote := new(wire.Error)
		if err := wire.ParseError(payload, remote); err != nil {
			return err
		}
		return broken(remote)
	default:
		return fmt.Errorf("unexpected frame of type %d in an answer with changes", t)
	}
	f.fromNs = out.ClosedNs
	return f.emit(out)
}
