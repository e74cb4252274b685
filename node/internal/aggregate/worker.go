// Package aggregate runs the aggregate of a query on batches of rows: groups and their numbers,
// one plugin instance for each worker, groups that exceed memory, cached states of partials of
// blocks, and the merging of states of workers and of other nodes. It knows nothing of scans, of
// nodes or of how an answer is written.
//
// Its main type is [Worker]; rows are added to one by one goroutine, and those of a query share an
// [Overflow] and a [PartialCache]. The package starts no goroutines.
package aggregate

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// Worker is the part of one worker in an aggregate: its groups, and an instance of the plugin.
type Worker struct {
	worker      int
	groups      *GroupTable
	guest       *wasmhost.Aggregate
	runs        []wasmhost.GroupRun // of rows that are added
	gid         []uint32            // of states that are merged
	partialSink *partialSink        // nil without partials
	savedSink   *savedSink          // the same for states that own memory

	over    *Overflow // of groups that exceed memory; nil: these are an error
	spilled int       // times that groups were spilled
	// newInstance replaces an instance whose states own heap memory, after a spill.
	newInstance func(ctx context.Context) (*wasmhost.Aggregate, error)

	closing sync.Mutex
	closed  bool // guarded by closing
}

// NewWorker returns a worker, by its number, that spills groups to the overflow when they exceed
// memory. Its instances are those of the owner. The caller closes it.
func NewWorker(
	ctx context.Context, worker int, q *record.Query, guestOwner wasmhost.Owner,
	module *registry.Version, g *GroupTable, over *Overflow,
) (*Worker, error) {
	again := func(ctx context.Context) (*wasmhost.Aggregate, error) {
		return module.Module.NewAggregateFor(ctx, guestOwner, q.Aggregate.Params)
	}
	guest, err := again(ctx)
	if err != nil {
		return nil, err
	}
	g.max = min(g.max, guest.Capacity())
	return &Worker{worker: worker, guest: guest, groups: g, over: over,
		newInstance: again}, nil
}

// HasGroups reports whether any rows were added that are not results of morsels.
func (a *Worker) HasGroups() bool { return len(a.groups.keys) > 0 }

// PayloadPrefix returns how many leading bytes of payloads the plugin reads, 0 for all, see
// [wasmhost.Aggregate.PayloadPrefix].
func (a *Worker) PayloadPrefix() uint32 { return a.guest.PayloadPrefix() }

// PayloadBuffer returns buffers for payloads in memory of the instance; nil if that may be closed
// while rows are in it.
func (a *Worker) PayloadBuffer(ctx context.Context) func(inUse bool) []byte {
	guest := a.guest
	if !a.groups.all() && guest.HeapStates() {
		return nil
	}
	return func(inUse bool) []byte { return halfOf(guest.PayloadBuffer(ctx), inUse) }
}

// UsePartials lets the worker aggregate partials of blocks separately; it returns nil for queries
// with groups, and for states that cannot be partial.
func (a *Worker) UsePartials(ctx context.Context, k *PartialCache) store.PartialSink {
	if a.groups.all() && a.guest.SavesPartials() && k.cache != nil {
		a.savedSink = savedSinks.Get().(*savedSink)
		a.savedSink.ctx, a.savedSink.cache, a.savedSink.worker = ctx, k, a
		return a.savedSink
	}
	if a.partialSink = newPartialSink(ctx, k, a); a.partialSink == nil {
		return nil
	}
	return a.partialSink
}

// CloseIfEmpty closes the instance of a worker that has no groups, only results of morsels, while
// others may still run.
func (a *Worker) CloseIfEmpty() {
	a.closing.Lock()
	defer a.closing.Unlock()
	if len(a.groups.keys) == 0 {
		a.closeLocked()
	}
}

// close ends the use of a worker, but for states that it saved.
func (a *Worker) close() {
	a.closing.Lock()
	defer a.closing.Unlock()
	a.closeLocked()
	a.groups.giveBack()
}

func (a *Worker) closeLocked() {
	if !a.closed {
		a.closed = true
		_ = a.guest.Close() // calls have returned its failures
	}
}

// Add adds rows. When its groups exceed memory, they are moved to the overflow. Rows are not kept.
func (a *Worker) Add(ctx context.Context, b *record.Batch) error {
	if a.partialSink != nil && (a.partialSink.open || !a.guest.OrderIndependent()) {
		return a.partialSink.add(b)
	}
	if a.savedSink != nil && a.savedSink.open {
		return a.savedSink.add(b)
	}
	if a.groups.all() {
		if _, err := a.groups.id(groupKey{predecessor: a.groups.predecessors}); err != nil {
			return err
		}
		a.groups.counts[0] += uint64(b.Len())
		return a.guest.Add(ctx, b, nil, 1)
	}
	return a.addGroups(ctx, b)
}

// addGroups adds rows of many groups, and spills groups when they exceed memory.
func (a *Worker) addGroups(ctx context.Context, b *record.Batch) (err error) {
	for {
		a.runs, err = a.groups.AppendRuns(b, a.runs[:0])
		if err != nil && a.over == nil {
			return err
		}
		done := 0
		if n := len(a.runs); n > 0 {
			done = int(a.runs[n-1].End)
		}
		if done == b.Len() {
			err := a.guest.AddRuns(ctx, b, a.runs, len(a.groups.keys))
			if err == nil && a.over != nil && a.guest.Full() {
				err = a.spillGroups(ctx)
			}
			return err
		}
		b.FillKeys()
		rest := new(record.Batch) // a copy: payloads may be in memory of the instance
		rest.AppendRows(b, done, b.Len())
		if done > 0 {
			err := a.guest.AddRuns(ctx, b.Head(done), a.runs, len(a.groups.keys))
			if err != nil {
				return err
			}
		}
		if err := a.spillGroups(ctx); err != nil {
			return err
		}
		b = rest
	}
}

// spillGroups moves all groups to the overflow.
func (a *Worker) spillGroups(ctx context.Context) error {
	if len(a.groups.keys) == 0 {
		return nil
	}
	some, err := a.save(ctx)
	if err == nil {
		err = a.over.Add(ctx, a.worker, a.spilled, some, a.stateBytes())
	}
	if err != nil {
		return err
	}
	a.spilled++
	a.groups.forget()
	if !a.guest.HeapStates() {
		a.guest.Forget()
		return nil
	}
	a.closing.Lock()
	defer a.closing.Unlock()
	_ = a.guest.Close() // no call of it has failed
	guest, err := a.newInstance(ctx)
	if err == nil {
		a.guest = guest
	}
	return err
}

// stateBytes returns the size of a saved state, 0 if sizes vary.
func (a *Worker) stateBytes() int {
	if a.guest.HeapStates() {
		return 0
	}
	return a.guest.StateSize()
}

// InOrder sorts workers by number; they begin in any order.
func InOrder(workers []*Worker) {
	slices.SortFunc(workers, func(a, b *Worker) int { return a.worker - b.worker })
}

// halfOf returns one half of a payload buffer.
func halfOf(buffer []byte, second bool) []byte {
	half := len(buffer) / 2
	if second {
		return buffer[half:]
	}
	return buffer[:half:half]
}

// CloseAll closes workers, of which nothing is used any more but states that they saved.
func CloseAll(workers []*Worker) {
	for _, a := range workers {
		a.close()
		if a.partialSink != nil {
			a.partialSink.giveBack()
			a.partialSink = nil
		}
		if a.savedSink != nil {
			a.savedSink.giveBack()
			a.savedSink = nil
		}
	}
}

// MergeWorkers merges all states into those of the first worker, or moves them to the overflow if
// it is in use or they may exceed memory.
func MergeWorkers(ctx context.Context, workers []*Worker, over *Overflow) error {
	for i, from := range workers {
		into := workers[0]
		if !over.Used() && (i == 0 || len(from.groups.keys) == 0) {
			continue
		}
		if over.Used() || !into.fits(from) {
			if err := errors.Join(into.spillGroups(ctx), from.spillGroups(ctx)); err != nil {
				return err
			}
			continue
		}
		saved, err := from.save(ctx)
		if err != nil {
			return err
		}
		if err := into.merge(ctx, saved); err != nil {
			return err
		}
	}
	return nil
}

// fits reports whether the groups of another worker certainly fit, too. A single group always does.
func (into *Worker) fits(from *Worker) bool {
	most := into.guest.MostBytes()
	return into.groups.all() || len(into.groups.keys)+len(from.groups.keys) <= into.groups.max &&
		(!into.guest.HeapStates() ||
			into.guest.MemoryBytes()+from.guest.MemoryBytes() <= most+most/2)
}

// InOrder numbers the values of groups by their order, of the groups of a worker to which no rows
// are added any more.
func (into *Worker) InOrder(values *Values) {
	if now := values.inOrder(); now != nil {
		for i := range into.groups.keys {
			k := &into.groups.keys[i]
			k.mid = now[k.mid]
		}
	}
}

// Finish links groups with their predecessors if the module needs that, as link says, and returns
// their results in the order of keys, up to a limit; 0 for none. Their values are in order.
func (into *Worker) Finish(
	ctx context.Context, values *Values, limit uint64, link bool,
) ([]wire.Group, error) {
	if len(into.groups.keys) == 0 {
		return nil, nil
	}
	order := orderOf(into.groups.keys, into.groups.by)
	if link {
		err := into.guest.LinkPredecessors(ctx, linksOf(into.groups.keys, order))
		if err != nil {
			return nil, err
		}
		order = slices.DeleteFunc(order, func(i int) bool {
			return into.groups.keys[i].predecessor
		})
	}
	results, err := into.guest.Finish(ctx)
	if err != nil {
		return nil, err
	}
	if limit > 0 && uint64(len(order)) > limit {
		order = order[:limit]
	}
	few := len(order) < len(results)/2 // else their memory, which they share, stays
	out := make([]wire.Group, 0, len(order))
	for _, i := range order {
		k, result := into.groups.keys[i], results[i]
		if few {
			result = bytes.Clone(result)
		}
		out = append(out, wire.Group{CID: k.cid, MID: values.mid(k), MOID: k.moid, CapNs: k.cap,
			Records: into.groups.counts[i], Result: result, Values: values.of(k)})
	}
	return out, nil
}
