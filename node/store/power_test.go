package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// powerCall in the environment makes the test program do the work of powerSteps in a directory,
	// and say on file 3 what is done.
	powerCall = "PENTAD_STORE_POWER"
	powerRows = 40 // of a batch
)

// powerStep is something that is done to a store in the directory "store" of dir.
type powerStep struct {
	what  string
	batch int64 // that is put, erased or purged; 0: none
	do    func(w *powerWork) error
}

// powerWork is the store that steps work on.
type powerWork struct {
	dir     string
	store   *Store
	cursors *cursors.File // beside it, as a node has them
}

func (w *powerWork) path(name string) string { return filepath.Join(w.dir, name) }

func (w *powerWork) open() (err error) {
	if w.store, _, err = Open(context.Background(), powerOptions(w.path("store"))); err != nil {
		return err
	}
	if err = durable.MakeDir(w.path("cursors")); err == nil && w.cursors == nil {
		w.cursors, err = cursors.Open(w.path("cursors"))
	}
	return err
}

// commit moves the cursor to the number of a step.
func (w *powerWork) commit(number int64) error {
	return w.cursors.Commit(cursors.Cursor{Name: "reader", AcqNs: number}, false)
}

func (w *powerWork) close() error {
	err := errors.Join(w.store.Close(), w.cursors.Close())
	w.cursors = nil
	return err
}

// powerOptions make seals and merges of few rows; nothing happens by the clock.
func powerOptions(dir string) Options {
	return Options{Dir: dir, Shards: 2, SealRows: 100, LogFiles: 1, Now: later,
		HeadShards: 3, sideBySideRows: 2}
}

// powerBatch has rows of several devices of both shards; its number is the cap of all.
func powerBatch(number int64) *record.Batch {
	b := &record.Batch{}
	for i := range powerRows {
		b.Append(record.Key{CID: 1, MID: int64(i) << 8, MOID: 1, CapNs: number},
			fmt.Append(nil, number, i))
	}
	return b
}

// stampedPowerBatch is powerBatch with acqs of 2020.
func stampedPowerBatch(number int64) *record.Batch {
	b := powerBatch(number)
	for i := range b.Len() {
		b.AcqNs = append(b.AcqNs, time.Date(2020, 1, 1, 0, 0, i, 0, time.UTC).UnixNano())
	}
	return b
}

func powerBox(number int64) (box record.Box) {
	box[record.Cap] = record.RangeSet{record.At(number)}
	return box
}

// powerPlan is a list of steps that grows.
type powerPlan struct {
	steps []powerStep
	next  int64 // number of the last batch
}

func (p *powerPlan) add(what string, batch int64, do func(w *powerWork) error) {
	p.steps = append(p.steps, powerStep{what, batch, do})
}

func (p *powerPlan) puts(n int) {
	for range n {
		p.next++
		number := p.next
		p.add("put", number, func(w *powerWork) error {
			_, err := w.store.Put(context.Background(), powerBatch(number),
				WriterSeq{ID: [16]byte{7}, Seq: uint64(number)})
			return err
		})
	}
}

func (p *powerPlan) putBelow() {
	p.next++
	number := p.next
	p.add("put", number, func(w *powerWork) error {
		_, err := w.store.PutBackdated(context.Background(), stampedPowerBatch(number))
		return err
	})
}

func (p *powerPlan) commits(n int) {
	for range n {
		number := int64(len(p.steps))
		p.add("commit", 0, func(w *powerWork) error { return w.commit(number) })
	}
}

func (p *powerPlan) hide(
	what string, batch int64, do func(s *Store, ctx context.Context, box record.Box) (int64, error),
) {
	p.add(what, batch, func(w *powerWork) error {
		_, err := do(w.store, context.Background(), powerBox(batch))
		return err
	})
}

func (p *powerPlan) simple(what string, do func(s *Store, ctx context.Context) error) {
	p.add(what, 0, func(w *powerWork) error { return do(w.store, context.Background()) })
}

func (p *powerPlan) backup() {
	p.add("backup", 0, func(w *powerWork) error {
		_, err := archive.Backup(context.Background(), w.store, w.path("backup"), 0)
		return err
	})
}

func (p *powerPlan) open()  { p.add("open", 0, (*powerWork).open) }
func (p *powerPlan) close() { p.add("close", 0, (*powerWork).close) }

// powerSteps are what a stand-alone store does in its life.
func powerSteps() []powerStep {
	p := &powerPlan{}
	p.open()
	p.puts(4)
	p.commits(2)
	p.simple("seal", (*Store).Seal)
	p.puts(3)
	p.hide("erase", 2, (*Store).Erase)
	p.simple("settle", (*Store).WaitForMerges)
	p.backup()
	p.puts(4)
	p.hide("purge", 3, (*Store).Purge)
	p.simple("settle", (*Store).WaitForMerges)
	p.commits(1)
	p.close()
	p.open()
	p.commits(2)
	p.puts(3)
	p.putBelow()
	p.simple("settle", (*Store).WaitForMerges)
	p.simple("retention", func(s *Store, ctx context.Context) error {
		return s.SetRetention(ctx, retention.Rule{MaxAcqAgeNs: int64(1 << 60)})
	})
	p.add("snapshot", 0, func(w *powerWork) error {
		_, err := w.store.Snapshot(context.Background(), w.path("snapshot"))
		return err
	})
	p.puts(2)
	p.simple("rest", (*Store).MergeIdle)
	p.backup()
	p.add("restore", 0, func(w *powerWork) error {
		_, err := archive.Restore(context.Background(), w.path("backup"), w.path("restored"), 0)
		return err
	})
	p.puts(1)
	p.close()
	return p.steps
}

// powerWorkload does the steps one after the other, and says on file 3 how each went. After one
// that failed it goes on: a store that cannot go on says so.
func powerWorkload(dir string) error {
	out := os.NewFile(3, "said")
	w := &powerWork{dir: dir}
	for i, step := range powerSteps() {
		if (w.store == nil || w.cursors == nil) && step.what != "open" && step.what != "restore" {
			if err := w.open(); err != nil {
				return fmt.Errorf("open before step %d: %w", i, err)
			}
		}
		err := step.do(w)
		if step.what == "close" {
			w.store = nil
		}
		said := "done"
		if err != nil {
			said = "failed"
			fmt.Fprintf(os.Stderr, "step %d, %s: %v\n", i, step.what, err)
		}
		if errors.Is(err, ErrFailed) || errors.Is(err, wal.ErrFailed) ||
			errors.Is(err, cursors.ErrFailed) {
			said = "unknown"
		}
		if _, err := fmt.Fprintf(out, "%s %d\n", said, i); err != nil {
			return err
		}
	}
	return nil
}

// batches returns which batches must be there after some steps: those that were put and not
// erased or purged. With maybe those are counted that are only tried.
func batches(steps []powerStep, done func(i int) bool) (there []int64) {
	for i, step := range steps {
		switch {
		case step.batch == 0 || !done(i):
		case step.what == "put":
			there = append(there, step.batch)
		default:
			there = slices.DeleteFunc(there, func(b int64) bool { return b == step.batch })
		}
	}
	return there
}
