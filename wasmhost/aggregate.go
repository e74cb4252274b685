package wasmhost

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/sdk/record"
)

// Aggregate is an instance with its states, one per group. It is used by one goroutine at a time.
// After an error of any method it is closed.
type Aggregate struct {
	guest    *guest
	columns  *columns
	states   states
	add      exportFunc
	partials partialStates
}

// PayloadPrefix returns how many leading bytes of payloads the plugin reads, 0 for all: batches for
// Add need no more.
func (a *Aggregate) PayloadPrefix() uint32 { return a.guest.payloadPrefix }

// PayloadBuffer returns memory of the guest, or nil. Payloads of a batch for Add or AddPartial that
// begin there are not copied. It must not be used during any other call, nor after Close or that of
// the host. The guest can read what is in it. The next call returns an error that occurs here.
func (a *Aggregate) PayloadBuffer(ctx context.Context) []byte {
	return a.columns.lend(ctx, a.guest)
}

// Add folds row i of b into the state of group gid[i], each below groups. Groups may grow from
// call to call; new ones start with a fresh state. A nil gid means group 0 for every row.
//
// Errors: *Error; the context's error, seen between calls of the guest; [ErrClosed].
func (a *Aggregate) Add(ctx context.Context, b *record.Batch, gid []uint32, groups int) error {
	if gid != nil && len(gid) != b.Len() {
		return fmt.Errorf("plugin aggregate: %d groups for %d rows", len(gid), b.Len())
	}
	return a.addRows(ctx, b, &rowGroups{gid: gid}, groups)
}

// AddRuns is Add for groups that are given as runs, nil for group 0.
func (a *Aggregate) AddRuns(
	ctx context.Context, b *record.Batch, runs []GroupRun, groups int,
) error {
	if err := checkRuns(runs, b.Len()); err != nil {
		return err
	}
	return a.addRows(ctx, b, &rowGroups{runs: runs}, groups)
}

func (a *Aggregate) addRows(
	ctx context.Context, b *record.Batch, of *rowGroups, groups int,
) error {
	if err := b.CheckShape(); err != nil {
		return fmt.Errorf("plugin aggregate: %w", err)
	}
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	err := a.states.grow(ctx, a.guest, groups)
	if err == nil {
		err = a.addAll(ctx, b, of, a.states.groups, a.states.at(0))
	}
	return a.guest.leave(err)
}

// addAll calls the guest for all rows, in batches; states is the address of the states of groups.
func (a *Aggregate) addAll(
	ctx context.Context, b *record.Batch, of *rowGroups, groups int, states uint32,
) error {
	for row := 0; row < b.Len(); {
		if err := a.guest.pause(ctx); err != nil {
			return err
		}
		x := a.columns.cut(b, row)
		if err := a.addCut(b, &x, of, groups, states); err != nil {
			a.findFailingRecord(ctx, err, b, &x)
			return err
		}
		a.columns.adapt(a.guest, x.to-x.from)
		row = x.to
	}
	return nil
}

// addCut makes one of these calls.
func (a *Aggregate) addCut(
	b *record.Batch, x *batch, of *rowGroups, groups int, states uint32,
) error {
	if err := a.columns.group(x, of, groups); err != nil {
		return a.guest.fail(Limit, exportAdd, err.Error())
	}
	header, err := a.columns.write(a.guest, b, x, 0)
	if err != nil {
		return err
	}
	return a.guest.checkZero(&a.add, x.budget, uint64(header), uint64(states))
}

// States returns a copy of all states for Merge: as many as there are groups, each of
// the size in the descriptor or, if states own heap memory, its size as u32 and the saved bytes.
func (a *Aggregate) States(ctx context.Context) ([]byte, error) {
	if err := a.guest.enter(ctx); err != nil {
		return nil, err
	}
	out, err := a.states.copyOut(ctx, a.guest)
	return out, a.guest.leave(err)
}

// Merge folds state i of states, as another aggregate of the same module returned it, into group
// gid[i]. Groups grow to the greatest gid. A nil gid means group i for state i.
func (a *Aggregate) Merge(ctx context.Context, states []byte, gid []uint32) error {
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	if a.states.heap {
		return a.guest.leave(a.states.load(ctx, a.guest, states, gid))
	}
	return a.guest.leave(a.states.merge(ctx, a.guest, states, gid))
}

// Finish returns one result per group. The results share memory that belongs to the caller. The
// states are used up: only Close may follow.
func (a *Aggregate) Finish(ctx context.Context) ([][]byte, error) {
	if err := a.guest.enter(ctx); err != nil {
		return nil, err
	}
	results, err := a.states.finish(ctx, a.guest)
	err = a.guest.leave(err)
	if err != nil {
		return nil, err
	}
	return results, nil
}

// Capacity returns how many groups an aggregate may have at most; fewer if states own heap memory,
// see Full.
func (a *Aggregate) Capacity() int { return max(1, a.states.limit/a.states.size) }

// HeapStates reports whether states own heap memory of the guest besides their bytes.
func (a *Aggregate) HeapStates() bool { return a.states.heap }

// MemoryBytes returns the memory of the instance.
func (a *Aggregate) MemoryBytes() int64 {
	if a.guest.closed {
		return 0
	}
	return int64(a.guest.memory.Size())
}

// MostBytes is half of the memory limit of the instance: heap-owning states that use no more can be
// saved.
func (a *Aggregate) MostBytes() int64 { return int64(a.guest.entry.lim.memoryPages) << 16 / 2 }

// Full reports whether heap-owning states use more than MostBytes.
func (a *Aggregate) Full() bool {
	return a.states.heap && a.MemoryBytes() >= a.MostBytes()
}

// Forget removes all groups; new ones begin with fresh states. It is for states without heap
// memory, which nothing would free.
func (a *Aggregate) Forget() { a.states.groups = 0 }

// Close frees the instance. It may be called twice.
func (a *Aggregate) Close() error { return a.guest.close() }
