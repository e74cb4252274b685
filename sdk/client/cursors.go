package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pentad-db/pentad/sdk/api"
)

// Cursors lists the cursors by name.
func (c *Client) Cursors(ctx context.Context) ([]Cursor, error) {
	var out api.Cursors
	err := c.getJSON(ctx, "/v1/cursors", &out)
	return out.Cursors, err
}

// Cursor returns a cursor. The error is a [*wire.Error] of kind not-found when there is none.
func (c *Client) Cursor(ctx context.Context, name string) (Cursor, error) {
	var out Cursor
	err := c.getJSON(ctx, "/v1/cursors/"+url.PathEscape(name), &out)
	return out, err
}

// CommitCursor makes the node keep for good that a reader has everything below an acq, which is
// what changes say in ClosedNs. A reader that commits after the results are kept gets each record
// at least once. With force the cursor may go back.
func (c *Client) CommitCursor(
	ctx context.Context, name string, acqNs int64, force bool,
) (Cursor, error) {
	return c.MoveCursor(ctx, Cursor{Name: name, AcqNs: acqNs}, force)
}

// MoveCursor is CommitCursor for a reader that says by Question, a digest of up to 64 letters and
// digits, what it asks for: the error is a [*wire.Error] of kind conflict if the cursor is that of
// another question. With force it becomes that of this one, or without Question of none. Of the
// cursor only Name, AcqNs and Question are used.
func (c *Client) MoveCursor(ctx context.Context, to Cursor, force bool) (Cursor, error) {
	v := url.Values{"acq": {strconv.FormatInt(to.AcqNs, 10)}}
	if to.Question != "" {
		v.Set("question", to.Question)
	}
	if force {
		v.Set("force", "1")
	}
	var out Cursor
	err := c.doJSON(ctx, http.MethodPut, "/v1/cursors/"+url.PathEscape(to.Name)+"?"+v.Encode(), "",
		nil, &out)
	return out, err
}

// RemoveCursor makes the node forget a cursor.
func (c *Client) RemoveCursor(ctx context.Context, name string) error {
	var out struct{}
	return c.doJSON(ctx, http.MethodDelete, "/v1/cursors/"+url.PathEscape(name), "", nil, &out)
}
