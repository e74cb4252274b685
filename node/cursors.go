package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/store"
)

// openCursors opens the cursors; holds says that the directory has data.
func (n *Node) openCursors(holds bool) (err error) {
	dir := filepath.Join(n.opt.Dir, "cursors")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if n.cursors, err = cursors.Open(dir); err != nil {
		return err
	}
	if n.cursors.Made && holds {
		n.cursors.Miss(cursors.Name +
			" is missing, in a directory with records: if there were cursors, they are lost")
	}
	for _, damage := range n.cursors.Damage() {
		n.log.Error("damaged cursor: its reader gets again what came since the line before it",
			"err", damage)
	}
	return nil
}

// copyCursors copies the cursors to a snapshot; none is above the acq of the snapshot.
func (n *Node) copyCursors(dir string, acqNs int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	all, err := n.Cursors(n.open)
	if err != nil {
		return err
	}
	return cursors.Copy(dir, all, acqNs)
}

// Cursors lists cursors, by name.
func (n *Node) Cursors(ctx context.Context) ([]cursors.Cursor, error) {
	if m := n.member.Load(); m != nil {
		return m.Cursors(ctx, "")
	}
	return n.cursors.List(), nil
}

// Cursor returns one of them.
func (n *Node) Cursor(ctx context.Context, name string) (c cursors.Cursor, err error) {
	if err := checkCursorName(name); err != nil {
		return c, err
	}
	if m := n.member.Load(); m != nil {
		all, err := m.Cursors(ctx, name)
		if err != nil {
			return c, err
		}
		return all[0], nil
	}
	return n.cursors.Get(name)
}

// checkCursorName refuses names that no cursor can have, so that a reader hears of it before it
// has read anything.
func checkCursorName(name string) error {
	if cursors.ValidName(name) {
		return nil
	}
	return params.Bad("name", fmt.Errorf("%q is not a valid name for a cursor; use 1 to "+
		"64 letters, digits, and . _ - but not first", params.Clip(name)))
}

// CommitCursor moves a cursor durably to an acq: its client has everything below. Commits are
// idempotent; a cursor goes back only with force, and never goes above the horizon.
func (n *Node) CommitCursor(
	ctx context.Context, name string, acqNs int64, force bool,
) (c cursors.Cursor, err error) {
	if n.closing.Load() {
		return c, nodeerror.ErrClosing
	}
	if err := checkCursorName(name); err != nil {
		return c, err
	}
	m := n.member.Load()
	horizon, err := n.Horizon(ctx)
	if err == nil && m != nil && acqNs > horizon {
		horizon, err = n.horizonAfter(ctx, acqNs)
	}
	if err != nil {
		return c, err
	}
	if acqNs > horizon {
		return c, params.Bad("acq", fmt.Errorf("%d: %w", acqNs, store.ErrAhead))
	}
	c = cursors.Cursor{Name: name, AcqNs: acqNs, CommittedNs: time.Now().UnixNano()}
	if m != nil {
		return c, m.Tell(ctx, &cluster.CommitCursor{Cursor: c, Force: force})
	}
	return c, n.cursors.Commit(c, force)
}

// RemoveCursor forgets a cursor.
func (n *Node) RemoveCursor(ctx context.Context, name string) error {
	if n.closing.Load() {
		return nodeerror.ErrClosing
	}
	if err := checkCursorName(name); err != nil {
		return err
	}
	if m := n.member.Load(); m != nil {
		return dropCursor(ctx, m, name)
	}
	return n.cursors.Remove(name)
}
