package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// DiffBatches asks what became of readings between two acqs, and hands differences to emit in
// batches of one kind that are valid during the call. An error of emit ends the diff and is
// returned. Without error the answer came to its end.
func (c *Client) DiffBatches(
	ctx context.Context, ask *record.Diff, emit func(d *record.Differences) error,
) (wire.End, error) {
	checked := *ask
	if err := checked.Normalize(); err != nil {
		return wire.End{}, err
	}
	var d record.Differences
	return c.frames(ctx, "/v1/diff", wire.AppendDiff(nil, &checked),
		func(t wire.FrameType, payload []byte) error {
			if t != wire.FrameDifferences {
				return fmt.Errorf("unexpected frame of type %d in an answer with differences", t)
			}
			if err := wire.ParseDifferences(payload, &d); err != nil {
				return err
			}
			return emit(&d)
		})
}

// Diff returns what became of readings between two acqs, one by one, in no order. Payloads are
// valid until the next. An error is the last thing yielded.
func (c *Client) Diff(ctx context.Context, ask *record.Diff) iter.Seq2[record.Difference, error] {
	return func(yield func(record.Difference, error) bool) {
		end, err := c.DiffBatches(ctx, ask, func(d *record.Differences) error {
			for i := range d.Len() {
				if !yield(d.At(i), nil) {
					return errStop
				}
			}
			return nil
		})
		if err = wholeOr(end, err); err != nil {
			yield(record.Difference{}, err)
		}
	}
}

// Versions returns every version of the readings in a box, by key and then acq. An error is the
// last thing yielded.
func (c *Client) Versions(ctx context.Context, box *wire.Box) iter.Seq2[record.Version, error] {
	return func(yield func(record.Version, error) bool) {
		checked := *box
		if err := checked.Check(); err != nil {
			yield(record.Version{}, err)
			return
		}
		end, err := c.VersionBatches(ctx, &checked, func(versions []record.Version) error {
			for i := range versions {
				if !yield(versions[i], nil) {
					return errStop
				}
			}
			return nil
		})
		if err = wholeOr(end, err); err != nil {
			yield(record.Version{}, err)
		}
	}
}

// VersionBatches is Versions by batches, which belong to emit. An error of emit ends it and is
// returned. Without error the answer came to its end.
func (c *Client) VersionBatches(
	ctx context.Context, box *wire.Box, emit func(versions []record.Version) error,
) (wire.End, error) {
	return c.frames(ctx, "/v1/versions", wire.AppendBox(nil, box),
		func(t wire.FrameType, payload []byte) error {
			if t != wire.FrameVersions {
				return fmt.Errorf("unexpected frame of type %d in an answer with versions", t)
			}
			versions, err := wire.ParseVersions(payload)
			if err != nil {
				return err
			}
			return emit(versions)
		})
}

// wholeOr returns the error of an answer that failed or is not complete, none when its reader had
// enough.
func wholeOr(end wire.End, err error) error {
	switch {
	case errors.Is(err, errStop):
		return nil
	case err == nil && !end.Complete:
		return &wire.Error{Kind: wire.KindInternal, Message: "incomplete: " + end.Reason}
	}
	return err
}
