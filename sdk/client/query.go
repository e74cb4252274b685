package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// What answers are read into is used again: clients ask much.
var (
	readers = sync.Pool{New: func() any { return wire.NewReader(nil, wire.MaxFramePayload) }}
	batches = sync.Pool{New: func() any { return new(record.Batch) }}
)

// maxPooledBytes keeps a batch of large payloads from being kept for ever.
const maxPooledBytes = 4 << 20

// Scan asks for records and hands them to emit in batches that are valid during the call. An
// error of emit ends the scan and is returned. Without error the answer came to its end; End says
// whether it is complete.
func (c *Client) Scan(
	ctx context.Context, q *record.Query, emit func(b *record.Batch) error,
) (wire.End, error) {
	batch := batches.Get().(*record.Batch)
	defer func() {
		if cap(batch.Data) <= maxPooledBytes {
			batches.Put(batch)
		}
	}()
	return c.scanInto(ctx, batch, q, emit)
}

// scanInto is Scan, and hands out no batch but this one.
func (c *Client) scanInto(
	ctx context.Context, batch *record.Batch, q *record.Query, emit func(b *record.Batch) error,
) (wire.End, error) {
	came := uint64(0)
	end, err := c.answer(ctx, "/v1/query", q, func(t wire.FrameType, payload []byte) error {
		if t != wire.FrameRows {
			return fmt.Errorf("unexpected frame of type %d in an answer with records", t)
		}
		if err := wire.ParseRows(payload, batch); err != nil {
			return err
		}
		came += uint64(batch.Len())
		return emit(batch)
	})
	if err == nil && came != end.Rows {
		err = fmt.Errorf("an answer of %d records ends with a count of %d: %w", came, end.Rows,
			ErrNoEnd)
	}
	return end, err
}

// Aggregate asks for the groups of an aggregate, ordered by group key.
func (c *Client) Aggregate(ctx context.Context, q *record.Query) ([]wire.Group, wire.End, error) {
	var groups []wire.Group
	end, err := c.answer(ctx, "/v1/query", q, func(t wire.FrameType, payload []byte) error {
		keyed := t == wire.FrameKeyedGroups
		if !keyed && t != wire.FrameGroups {
			return fmt.Errorf("unexpected frame of type %d in an answer with groups", t)
		}
		var err error
		groups, err = wire.ParseGroups(payload, keyed, groups)
		return err
	})
	return groups, end, err
}

// States asks for the groups of an aggregate as they are before they are finished, for who merges
// those of several nodes, and hands them to emit; they are valid during the call.
func (c *Client) States(
	ctx context.Context, q *record.Query, emit func(states []wire.GroupState) error,
) (wire.End, error) {
	var states []wire.GroupState
	return c.answer(ctx, "/v1/states", q, func(t wire.FrameType, payload []byte) error {
		keyed := t == wire.FrameKeyedStates
		if !keyed && t != wire.FrameStates {
			return fmt.Errorf("unexpected frame of type %d in an answer with states", t)
		}
		var err error
		if states, err = wire.ParseStates(payload, keyed, states[:0]); err != nil {
			return err
		}
		return emit(states)
	})
}

// Count returns how many records a query finds, without its limit; no record travels. An answer
// that is not complete says so in its end.
func (c *Client) Count(ctx context.Context, q *record.Query) (uint64, wire.End, error) {
	end, err := c.answer(ctx, "/v1/count", q, func(t wire.FrameType, _ []byte) error {
		return fmt.Errorf("unexpected frame of type %d in a count", t)
	})
	return end.Rows, end, err
}

// answer sends a query and hands the frames before the end frame to each.
func (c *Client) answer(
	ctx context.Context, path string, q *record.Query,
	each func(t wire.FrameType, payload []byte) error,
) (wire.End, error) {
	checked := *q
	if err := checked.Normalize(); err != nil {
		return wire.End{}, err
	}
	return c.frames(ctx, path, wire.AppendQuery(nil, &checked), each)
}

// frames sends a query and hands the frames before the end frame to each.
func (c *Client) frames(
	ctx context.Context, path string, query []byte,
	each func(t wire.FrameType, payload []byte) error,
) (wire.End, error) {
	var end wire.End
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // an answer that is not read to its end is given up with its connection
	body, err := c.do(ctx, http.MethodPost, path, wire.ContentType, query)
	if err != nil {
		return end, err
	}
	defer func() { _ = body.Close() }()
	frames := readers.Get().(*wire.Reader)
	frames.Reset(body)
	defer func() {
		frames.Reset(nil)
		readers.Put(frames)
	}()
	for {
		t, payload, err := frames.Next()
		switch {
		case ctx.Err() != nil:
			return end, context.Cause(ctx)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return end, ErrNoEnd
		case err != nil:
			return end, err
		case t == wire.FrameError:
			readOut(body, cancel)
			remote := new(wire.Error)
			if err := wire.ParseError(payload, remote); err != nil {
				return end, err
			}
			return end, remote
		case t == wire.FrameEnd:
			readOut(body, cancel)
			return end, wire.ParseEnd(payload, &end)
		}
		if err := each(t, payload); err != nil {
			return end, err
		}
	}
}

// readOutTimeout bounds the wait for what follows the end frame. The node has sent that by then.
const readOutTimeout = time.Second

// readOut reads what HTTP puts behind an answer, without which its connection cannot be used again.
// The answer is there, so there is no error.
func readOut(body io.Reader, cancel context.CancelFunc) {
	late := time.AfterFunc(readOutTimeout, cancel)
	defer late.Stop()
	_, _ = body.Read(make([]byte, 1))
}

// errStop ends a scan whose reader wants no more.
var errStop = errors.New("enough")

// QueryBatches returns the records of a query in batches; each is valid until the next. An error,
// also that of an incomplete answer, is the last thing yielded.
func (c *Client) QueryBatches(ctx context.Context, q *record.Query) iter.Seq2[*record.Batch,
	error] {
	return func(yield func(*record.Batch, error) bool) {
		// The last batch is valid for ever: no other comes.
		end, err := c.scanInto(ctx, new(record.Batch), q, func(b *record.Batch) error {
			if !yield(b, nil) {
				return errStop
			}
			return nil
		})
		if err = wholeOr(end, err); err != nil {
			yield(nil, err)
		}
	}
}

// Query returns the records of a query one by one; payloads are valid until the next record.
func (c *Client) Query(ctx context.Context, q *record.Query) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for b, err := range c.QueryBatches(ctx, q) {
			if err != nil {
				yield(record.Record{}, err)
				return
			}
			for i := range b.Len() {
				if !yield(b.Record(i), nil) {
					return
				}
			}
		}
	}
}
