package node

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/cursors"
)

// Cursors lists cursors, by name.
func (n *Node) Cursors(ctx context.Context) ([]cursors.Cursor, error) { return n.cursors.List(ctx) }

// Cursor returns one of them.
func (n *Node) Cursor(ctx context.Context, name string) (cursors.Cursor, error) {
	return n.cursors.Get(ctx, name)
}

// CommitCursor moves a cursor durably to an acq: its client has everything below. Commits are
// idempotent; a cursor goes back only with force, and never goes above the horizon.
func (n *Node) CommitCursor(
	ctx context.Context, name string, acqNs int64, force bool,
) (cursors.Cursor, error) {
	return n.cursors.Commit(ctx, cursors.Cursor{Name: name, AcqNs: acqNs}, force)
}

// RemoveCursor forgets a cursor.
func (n *Node) RemoveCursor(ctx context.Context, name string) error {
	return n.cursors.Remove(ctx, name)
}
