package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

var cursorParams = []string{"acq", "force"}

// openCursors reads how far readers of changes are; holds says that the directory has data.
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

// copyCursors makes a snapshot of the cursors; none of them lies above its acq.
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

// Cursors lists how far readers of changes said they are, by name.
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
	return badParam("name", fmt.Errorf("%q is no name for a cursor: 1 to 64 of letters, "+
		"digits, and . _ - but not first", clip(name)))
}

// CommitCursor notes for good that a reader has everything below an acq. It may say so again, but
// goes back only by force, and never above the horizon.
func (n *Node) CommitCursor(
	ctx context.Context, name string, acqNs int64, force bool,
) (c cursors.Cursor, err error) {
	if n.closing.Load() {
		return c, errClosing
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
		return c, badParam("acq", fmt.Errorf("%d: %w", acqNs, store.ErrAhead))
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
		return errClosing
	}
	if err := checkCursorName(name); err != nil {
		return err
	}
	if m := n.member.Load(); m != nil {
		return dropCursor(ctx, m, name)
	}
	return n.cursors.Remove(name)
}

// jsonCursor is a cursor as people read it.
type jsonCursor struct {
	Name        string `json:"name"`
	Acq         string `json:"acq"`
	AcqNs       int64  `json:"acq_ns"`
	Committed   string `json:"committed"`
	CommittedNs int64  `json:"committed_ns"`
	BehindNs    int64  `json:"behind_ns"` // the horizon
}

func newJSONCursor(c cursors.Cursor, horizonNs int64) jsonCursor {
	return jsonCursor{Name: c.Name, Acq: record.FormatNs(c.AcqNs), AcqNs: c.AcqNs,
		Committed: record.FormatNs(c.CommittedNs), CommittedNs: c.CommittedNs,
		BehindNs: max(0, horizonNs-c.AcqNs)}
}

func (s *server) listCursors(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.context()
	defer cancel()
	horizon, err := s.node.Horizon(rc)
	var list []cursors.Cursor
	if err == nil {
		list, err = s.node.Cursors(rc)
	}
	all := []jsonCursor{}
	for _, c := range list {
		all = append(all, newJSONCursor(c, horizon))
	}
	reply(ctx, map[string]any{"cursors": all}, err)
}

func (s *server) getCursor(ctx *fasthttp.RequestCtx, name string) {
	s.answerCursor(ctx, func(rc context.Context) (cursors.Cursor, error) {
		return s.node.Cursor(rc, name)
	})
}

func (s *server) putCursor(ctx *fasthttp.RequestCtx, name string) {
	s.answerCursor(ctx, func(rc context.Context) (cursors.Cursor, error) {
		return s.commitCursor(rc, ctx.QueryArgs(), name)
	})
}

func (s *server) deleteCursor(ctx *fasthttp.RequestCtx, name string) {
	rc, cancel := s.context()
	defer cancel()
	err := checkNoBody(ctx)
	if err == nil {
		err = s.node.RemoveCursor(rc, name)
	}
	reply(ctx, map[string]string{"removed": name}, err)
}

// answerCursor answers with the cursor that do returns, and how far it is behind.
func (s *server) answerCursor(
	ctx *fasthttp.RequestCtx, do func(rc context.Context) (cursors.Cursor, error),
) {
	rc, cancel := s.context()
	defer cancel()
	var c cursors.Cursor
	err := checkNoBody(ctx)
	if err == nil {
		c, err = do(rc)
	}
	horizon := int64(0)
	if err == nil {
		horizon, err = s.node.Horizon(rc)
	}
	reply(ctx, newJSONCursor(c, horizon), err)
}

func (s *server) commitCursor(
	rc context.Context, args *fasthttp.Args, name string,
) (c cursors.Cursor, err error) {
	text := string(args.Peek("acq"))
	acqNs, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return c, badParam("acq", fmt.Errorf("%q is not a number of ns, as changes say in "+
			"closed_ns", clip(text)))
	}
	force, err := parseFlag(args, "force")
	if err != nil {
		return c, err
	}
	return s.node.CommitCursor(rc, name, acqNs, force)
}

// cursorKind gives errors of cursors the kind under which they cross the network.
func cursorKind(err error) (wire.Kind, bool) {
	switch {
	case errors.Is(err, cursors.ErrUnknown):
		return wire.KindNotFound, true
	case errors.Is(err, cursors.ErrBehind):
		return wire.KindInvalid, true
	case errors.Is(err, cursors.ErrFull):
		return wire.KindTooLarge, true
	case errors.Is(err, cursors.ErrFailed):
		return wire.KindUnavailable, true
	}
	return 0, false
}
