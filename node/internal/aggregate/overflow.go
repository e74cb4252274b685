package aggregate

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"sync"

	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

const (
	// States of overflows are merged this many groups at a time, and come in steps of this size.
	batchGroups = 1 << 14
	batchBytes  = 256 << 10

	// spillRows is how many groups are given to the external sort at once.
	spillRows = 4096

	// States of one group are merged in the order of sources, then of workers, then of spills.
	sourceShift = 44
	workerShift = 32
)

// Overflow has groups of one aggregate that exceed the memory of its plugin, as records: the key is
// that of the group with the order of merging in place of acq, the payload a count u64 and a state.
// An external sort brings the states of a group together, and groups into the order of the answer.
type Overflow struct {
	space  *spill.Space
	source int64 // number of the source

	mu     sync.Mutex
	sorter *spill.Sorter // nil until groups are spilled; guarded by mu
}

// NewOverflow returns an empty overflow for a source of states, by its number.
func NewOverflow(space *spill.Space, source int) *Overflow {
	return &Overflow{space: space, source: int64(source)}
}

// Close frees its memory and files; o may be nil.
func (o *Overflow) Close() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sorter != nil {
		o.sorter.Close()
		o.sorter = nil
	}
}

// Used reports whether groups were spilled.
func (o *Overflow) Used() bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sorter != nil
}

func (o *Overflow) sorted() *spill.Sorter {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sorter == nil {
		o.sorter = o.space.Sorter(compareGroups, 0)
	}
	return o.sorter
}

// compareGroups orders records of groups as groupKey does, and those of one group by the order of
// merging. Groups of predecessors before the box have an acq below 0.
func compareGroups(a, b record.Key) int {
	first := 0
	if (a.AcqNs < 0) != (b.AcqNs < 0) {
		first = cmp.Compare(a.AcqNs, b.AcqNs)
	}
	return cmp.Or(cmp.Compare(a.CID, b.CID), cmp.Compare(a.MID, b.MID),
		cmp.Compare(a.MOID, b.MOID), first, cmp.Compare(a.CapNs, b.CapNs),
		cmp.Compare(a.AcqNs, b.AcqNs))
}

// Add adds groups of a worker that has spilled that often before; size is that of a state, 0 if
// sizes vary.
func (o *Overflow) Add(
	ctx context.Context, worker, before int, some *States, size int,
) error {
	order := o.source<<sourceShift | int64(worker)<<workerShift | int64(before)
	to := o.sorted()
	var b record.Batch
	var payload []byte
	rest := some.states
	for i, k := range some.keys {
		n := size
		if size == 0 {
			n, rest = int(binary.LittleEndian.Uint32(rest)), rest[4:]
		}
		key := record.Key{CID: k.cid, MID: k.mid, MOID: k.moid, CapNs: k.cap, AcqNs: order}
		if k.predecessor {
			key.AcqNs += math.MinInt64
		}
		payload = binary.LittleEndian.AppendUint64(payload[:0], some.counts[i])
		b.AppendStamped(key, append(payload, rest[:n]...))
		rest = rest[n:]
		if i == len(some.keys)-1 || b.Len() == spillRows || len(b.Data) >= batchBytes {
			if err := to.Add(ctx, &b); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return nil
}

// take moves all groups of another overflow of the same aggregate to this one.
func (o *Overflow) take(ctx context.Context, other *Overflow) error {
	return o.sorted().Take(ctx, other.sorted())
}

// InOrder numbers the values of all groups by their order. They are sorted again if that is not the
// order in which they came.
func (o *Overflow) InOrder(ctx context.Context, values *Values) error {
	now := values.inOrder()
	if now == nil {
		return nil
	}
	before, after := o.sorted(), o.space.Sorter(compareGroups, 0)
	o.mu.Lock()
	o.sorter = after
	o.mu.Unlock()
	defer before.Close()
	return before.Each(ctx, func(b *record.Batch) error {
		var renumbered record.Batch
		renumbered.AppendRows(b, 0, b.Len())
		for i, mid := range renumbered.MID {
			renumbered.MID[i] = now[mid]
		}
		return after.Add(ctx, &renumbered)
	})
}

// Merging merges the states of an overflow, in one instance of the plugin after another.
type Merging struct {
	make              func(ctx context.Context) (*Worker, error) // returns an instance
	LinksPredecessors bool
	maxGroups         int // of groups
	maxOfInstance     int // of groups; the groups of one series may exceed it
	// Done is called with the groups of an instance, in the order of keys; the instance is closed
	// afterwards.
	Done func(ctx context.Context, a *Worker) error

	worker     *Worker  // nil between instances
	Groups     int      // in all instances
	ofInstance int      // in this one
	last       groupKey // of the previous state
	pending    States   // states that were not merged yet
}

// NewMerging returns what merges the groups of a query, in instances of the owner: at most
// maxGroups in all, and maxOfInstance in one instance. The caller sets Done.
func NewMerging(
	q *record.Query, guestOwner wasmhost.Owner, module *registry.Version, maxGroups,
	maxOfInstance int,
) *Merging {
	return &Merging{LinksPredecessors: module.LinksPredecessors(), maxGroups: maxGroups,
		maxOfInstance: min(batchGroups, maxOfInstance),
		make: func(ctx context.Context) (*Worker, error) {
			guest, err := module.Module.NewAggregateFor(ctx, guestOwner, q.Aggregate.Params)
			if err != nil {
				return nil, err
			}
			return &Worker{guest: guest,
				groups: NewGroupTable(q.GroupBy, nil, nil, guest.Capacity())}, nil
		}}
}

// NewInstance returns an instance that states can be merged into. The caller closes it.
func (m *Merging) NewInstance(ctx context.Context) (*Worker, error) { return m.make(ctx) }

// Each passes all groups to Done, several at a time; those of a series together if they link
// predecessors.
func (o *Overflow) Each(ctx context.Context, m *Merging) error {
	defer func() {
		if m.worker != nil {
			m.worker.close()
		}
	}()
	err := o.sorted().Each(ctx, func(b *record.Batch) error {
		for i := range b.Len() {
			if err := m.add(ctx, b.Key(i), b.Payload(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || m.worker == nil {
		return err
	}
	return m.end(ctx)
}

// add adds the next state.
func (m *Merging) add(ctx context.Context, key record.Key, payload []byte) (err error) {
	k := groupKey{cid: key.CID, mid: key.MID, moid: key.MOID, cap: key.CapNs,
		predecessor: key.AcqNs < 0}
	if m.worker != nil && k != m.last && m.enough(k) {
		if err := m.end(ctx); err != nil {
			return err
		}
	}
	if m.worker == nil {
		if m.worker, err = m.make(ctx); err != nil {
			return err
		}
		m.ofInstance = 0
	}
	if m.ofInstance == 0 || k != m.last {
		m.ofInstance++
		if m.Groups++; m.Groups > m.maxGroups {
			return tooManyGroups(m.maxGroups)
		}
	}
	m.last = k
	m.pending.append(m.worker.stateBytes(), k, binary.LittleEndian.Uint64(payload), payload[8:])
	if len(m.pending.states) < batchBytes {
		return nil
	}
	return m.flush(ctx)
}

// enough reports whether the instance has enough groups before the next one.
func (m *Merging) enough(next groupKey) bool {
	most := min(m.maxOfInstance, m.worker.groups.max)
	if m.LinksPredecessors {
		if next.cid == m.last.cid && next.mid == m.last.mid && next.moid == m.last.moid {
			return false
		}
		most = max(1, most/2) // the rest is for the last series
	}
	return m.ofInstance >= most || m.worker.guest.Full()
}

func (m *Merging) flush(ctx context.Context) error {
	if len(m.pending.keys) == 0 {
		return nil
	}
	err := m.worker.merge(ctx, &m.pending)
	m.pending = States{m.pending.keys[:0], m.pending.counts[:0], m.pending.states[:0]}
	return err
}

func (m *Merging) end(ctx context.Context) error {
	err := m.flush(ctx)
	if err == nil {
		err = m.Done(ctx, m.worker)
	}
	m.worker.close()
	m.worker = nil
	return err
}
