// Package nodecursors has the cursors of a node wherever they are kept: in the file of package
// cursors, or in a cluster in its catalog. It checks their names, and their acqs against the
// horizon.
//
// It knows nothing of changes nor of the form of the file. Its main type is [Cursors]; it starts no
// goroutines.
package nodecursors

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/writes"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// pollEvery is how often a horizon that is waited for is polled.
	pollEvery = 50 * time.Millisecond
	// horizonWait is how long a cursor commit waits for the horizon of this node, because its
	// client may have read through another node.
	horizonWait = 2 * time.Second
)

// OpenFile opens the cursors of a node that is in no cluster; holds says that the node has data.
// Damage is logged. The caller closes the file.
func OpenFile(dir string, holds bool, log *slog.Logger) (*cursors.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	f, err := cursors.Open(dir)
	if err != nil {
		return nil, err
	}
	if f.Made && holds {
		f.Miss(cursors.Name +
			" is missing, in a directory with records: if there were cursors, they are lost")
	}
	for _, damage := range f.Damage() {
		log.Error("damaged cursor: its reader gets again what came since the line before it",
			"err", damage)
	}
	return f, nil
}

// Cursors are those of a node, or of its cluster. All fields are set before it is used; all methods
// may be called from many goroutines.
type Cursors struct {
	File   *cursors.File                  // nil in a cluster
	Member *atomic.Pointer[member.Member] // holds nil in a node that is in no cluster
	Engine *engine.Engine
	Open   context.Context // ends when the node begins to close
}

// CopyTo copies the cursors to a snapshot; none is above the acq of the snapshot.
func (p *Cursors) CopyTo(dir string, acqNs int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	all, err := p.List(p.Open)
	if err != nil {
		return err
	}
	return cursors.Copy(dir, all, acqNs)
}

// List lists cursors, by name.
func (p *Cursors) List(ctx context.Context) ([]cursors.Cursor, error) {
	if m := p.Member.Load(); m != nil {
		return m.Cursors(ctx, "")
	}
	return p.File.List(), nil
}

// Get returns one of them.
func (p *Cursors) Get(ctx context.Context, name string) (c cursors.Cursor, err error) {
	if err := checkName(name); err != nil {
		return c, err
	}
	if m := p.Member.Load(); m != nil {
		all, err := m.Cursors(ctx, name)
		if err != nil {
			return c, err
		}
		return all[0], nil
	}
	return p.File.Get(name)
}

// checkName refuses names that no cursor can have, so that a reader hears of it before it has read
// anything.
func checkName(name string) error {
	if cursors.ValidName(name) {
		return nil
	}
	return params.Bad("name", fmt.Errorf("%q is not a valid name for a cursor; use 1 to "+
		"64 letters, digits, and . _ - but not first", params.Clip(name)))
}

// Commit moves a cursor durably to its acq: its client has everything below. Commits are
// idempotent; a cursor goes back only with force, and never goes above the horizon. A question that
// the cursor did not have becomes its own.
func (p *Cursors) Commit(
	ctx context.Context, c cursors.Cursor, force bool,
) (cursors.Cursor, error) {
	if p.Open.Err() != nil {
		return c, nodeerror.ErrClosing
	}
	if err := checkName(c.Name); err != nil {
		return c, err
	}
	if c.Question != "" && !cursors.ValidName(c.Question) {
		return c, params.Bad("question", fmt.Errorf("%q is not a digest of a question; use 1 to "+
			"64 letters, digits, and . _ - but not first", params.Clip(c.Question)))
	}
	m := p.Member.Load()
	horizon, err := p.horizon(ctx)
	if err == nil && m != nil && c.AcqNs > horizon {
		horizon, err = p.horizonAfter(ctx, c.AcqNs)
	}
	if err != nil {
		return c, err
	}
	if c.AcqNs > horizon {
		return c, params.Bad("acq", fmt.Errorf("%d: %w", c.AcqNs, store.ErrAhead))
	}
	c.CommittedNs = time.Now().UnixNano()
	if m != nil {
		return c, m.ChangeState(ctx, &cluster.CommitCursor{Cursor: c, Force: force})
	}
	return c, p.File.Commit(c, force)
}

// Remove forgets a cursor.
func (p *Cursors) Remove(ctx context.Context, name string) error {
	if p.Open.Err() != nil {
		return nodeerror.ErrClosing
	}
	if err := checkName(name); err != nil {
		return err
	}
	if m := p.Member.Load(); m != nil {
		return drop(ctx, m, name)
	}
	return p.File.Remove(name)
}

// drop removes a cursor of the cluster.
func drop(ctx context.Context, m *member.Member, name string) error {
	if _, err := m.Cursors(ctx, name); err != nil {
		return err
	}
	return writes.RemovedBefore(m.ChangeState(ctx, &cluster.DropCursor{Name: name}))
}

// horizon returns the horizon of all records.
func (p *Cursors) horizon(ctx context.Context) (int64, error) {
	return p.Engine.Horizon(ctx, request.Options{}, &record.Box{})
}

// horizonAfter waits a little until the horizon has passed an acq.
func (p *Cursors) horizonAfter(ctx context.Context, acqNs int64) (horizon int64, err error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	timeout := time.After(horizonWait)
	for {
		if horizon, err = p.horizon(ctx); err != nil || horizon >= acqNs {
			return horizon, err
		}
		select {
		case <-tick.C:
		case <-timeout:
			return horizon, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Problems returns the problems of the file.
func (p *Cursors) Problems() []health.Problem {
	if p.File == nil {
		return nil
	}
	return p.File.Problems()
}

// Close closes the file.
func (p *Cursors) Close() error {
	if p.File == nil {
		return nil
	}
	return p.File.Close()
}
