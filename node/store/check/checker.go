// Package check reads files of a store, of which it changes none, and gathers what is wrong with
// them and between them.
//
// It owns what a whole file is. It knows nothing of heads and of what an open store has in memory.
// Its main type is [Checker], which starts no goroutine.
package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/sdk/api"
)

// maxDamages bounds the list of a report; beyond, damage is only counted.
const maxDamages = 1000

// maxWait is how long a check that is slowed down waits at once: who wants its progress wants it
// meanwhile, too.
const maxWait = time.Second

// Options of a check. The zero value works.
type Options struct {
	BytesPerSec int64                       // how fast files are read; 0: without limit
	Damage      func(api.Damage)            // called for each damaged place when found; may be nil
	Progress    func(done *api.CheckReport) // called now and then, between steps; may be nil
}

// Checker counts what is read, no faster than it may be, and gathers what is wrong with it. It is
// used by one goroutine.
type Checker struct {
	Report api.CheckReport // so far
	Shards int             // of the store; 0: not known

	ctx   context.Context
	opt   Options
	began time.Time
}

// New begins a check, which ends with its context.
func New(ctx context.Context, opt Options) *Checker {
	return &Checker{ctx: ctx, opt: opt, began: time.Now()}
}

// End returns the report, with the time that the check took.
func (c *Checker) End() api.CheckReport {
	c.Report.TookNs = int64(time.Since(c.began))
	return c.Report
}

// Damaged notes a damaged place of a file.
func (c *Checker) Damaged(file string, offset int64, format string, args ...any) {
	d := api.Damage{File: file, Offset: offset, Reason: fmt.Sprintf(format, args...)}
	c.Report.Damages++
	if len(c.Report.Damage) < maxDamages {
		c.Report.Damage = append(c.Report.Damage, d)
	}
	if c.opt.Damage != nil {
		c.opt.Damage(d)
	}
}

// Note takes the error of reading a file: damage goes into the report, all else is returned.
func (c *Checker) Note(err error) error {
	var damage *durable.CorruptError
	if !errors.As(err, &damage) {
		return err
	}
	reason := damage.Reason
	if damage.Err != nil {
		reason += ": " + damage.Err.Error()
	}
	c.Damaged(damage.File, damage.Offset, "%s", reason)
	return nil
}

// Err returns why the check is to end, nil while it goes on.
func (c *Checker) Err() error { return c.ctx.Err() }

// Read accounts for bytes that were read, and waits when that went too fast.
//
// Errors: ctx.Err().
func (c *Checker) Read(bytes int64) error {
	c.Report.Bytes += bytes
	for {
		if c.opt.Progress != nil {
			c.opt.Progress(&c.Report)
		}
		wait := c.early()
		if wait <= 0 {
			return c.ctx.Err()
		}
		select {
		case <-time.After(wait):
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
}

// early returns how long to wait before going on reading, maxWait at most.
func (c *Checker) early() time.Duration {
	if c.opt.BytesPerSec <= 0 {
		return 0
	}
	due := float64(c.Report.Bytes) / float64(c.opt.BytesPerSec) // in seconds
	early := min(due-time.Since(c.began).Seconds(), maxWait.Seconds())
	return time.Duration(early * float64(time.Second))
}
