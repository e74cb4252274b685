package node

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// mostHeldGroups is how many groups a worker holds in memory: keys and their table take some 64
	// bytes each.
	mostHeldGroups = 1 << 20
	heldGroupShare = 1 << 13 // of the memory of the node, in bytes

	// States of overflows are merged this many groups at a time, and come in steps of this size.
	chunkGroups = 1 << 14
	chunkBytes  = 256 << 10

	// Among states of one group, those of earlier sources are merged first, then those of earlier
	// workers, then those that a worker gave away first.
	sourceShift = 44
	workerShift = 32
)

func heldGroups(opt *Options) int {
	held := memory.Total(opt.MemoryBytes).Part(heldGroupShare, mostHeldGroups)
	return min(opt.MaxGroups, int(held))
}

// overflow has groups of one aggregate that do not fit into the memory of its plugin, as records:
// the key is that of the group with the order of merging in place of acq, the payload a count u64
// and a state. They are sorted, so that the states of a group come one after another, and groups in
// the order of the answer.
type overflow struct {
	space  *spill.Space
	source int64 // number of the source

	mu     sync.Mutex
	sorter *spill.Sorter // nil as long as nothing was given away; guarded by mu
}

func (n *Node) newOverflow(source int) *overflow {
	return &overflow{space: n.spill, source: int64(source)}
}

// close gives back what it has; of nil it does nothing.
func (o *overflow) close() {
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

// used reports whether something was given away.
func (o *overflow) used() bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sorter != nil
}

func (o *overflow) sorted() *spill.Sorter {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sorter == nil {
		o.sorter = o.space.Sorter(compareGroups, 0)
	}
	return o.sorter
}

// compareGroups orders records of groups as groupKey does, and those of one group by when they are
// merged. What lies before the box has an acq below 0.
func compareGroups(a, b record.Key) int {
	first := 0
	if (a.AcqNs < 0) != (b.AcqNs < 0) {
		first = cmp.Compare(a.AcqNs, b.AcqNs)
	}
	return cmp.Or(cmp.Compare(a.CID, b.CID), cmp.Compare(a.MID, b.MID),
		cmp.Compare(a.MOID, b.MOID), first, cmp.Compare(a.CapNs, b.CapNs),
		cmp.Compare(a.AcqNs, b.AcqNs))
}

// add takes groups of a worker that gave away others that often before; size is that of a state,
// 0 where each has its own.
func (o *overflow) add(
	ctx context.Context, worker, before int, some *saved, size int,
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
		if k.before {
			key.AcqNs += math.MinInt64
		}
		payload = binary.LittleEndian.AppendUint64(payload[:0], some.counts[i])
		b.AppendStamped(key, append(payload, rest[:n]...))
		rest = rest[n:]
		if i == len(some.keys)-1 || b.Len() == groupsPerFrame || len(b.Data) >= chunkBytes {
			if err := to.Add(ctx, &b); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return nil
}

// take takes all that another overflow of the same aggregate has.
func (o *overflow) take(ctx context.Context, other *overflow) error {
	return o.sorted().Take(ctx, other.sorted())
}

// merging merges the states of an overflow, in one instance of the plugin after another.
type merging struct {
	make  func(ctx context.Context) (*aggregator, error)
	joins bool
	max   int // groups at most
	most  int // of one instance; those of a series may be more
	// done gets the groups of an instance, whose order is that of their keys; it is closed then.
	done func(ctx context.Context, a *aggregator) error

	into    *aggregator // nil: none
	groups  int         // of all instances
	held    int         // of this one
	last    groupKey    // of which a state came last
	pending saved       // states that are not in the instance yet
}

// each hands all groups to done, some at a time, those of a series together where they join.
func (o *overflow) each(ctx context.Context, m *merging) error {
	defer func() {
		if m.into != nil {
			m.into.close()
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
	if err != nil || m.into == nil {
		return err
	}
	return m.end(ctx)
}

// add takes the next state.
func (m *merging) add(ctx context.Context, key record.Key, payload []byte) (err error) {
	k := groupKey{cid: key.CID, mid: key.MID, moid: key.MOID, cap: key.CapNs,
		before: key.AcqNs < 0}
	if m.into != nil && k != m.last && m.enough(k) {
		if err := m.end(ctx); err != nil {
			return err
		}
	}
	if m.into == nil {
		if m.into, err = m.make(ctx); err != nil {
			return err
		}
		m.held = 0
	}
	if m.held == 0 || k != m.last {
		m.held++
		if m.groups++; m.groups > m.max {
			return tooManyGroups(m.max)
		}
	}
	m.last = k
	m.pending.append(m.into.stateBytes(), k, binary.LittleEndian.Uint64(payload), payload[8:])
	if len(m.pending.states) < chunkBytes {
		return nil
	}
	return m.flush(ctx)
}

// enough reports whether the instance is to end before a group.
func (m *merging) enough(next groupKey) bool {
	most := min(m.most, m.into.groups.max)
	if m.joins {
		if next.cid == m.last.cid && next.mid == m.last.mid && next.moid == m.last.moid {
			return false
		}
		most = max(1, most/2) // the rest is for a series that begins before
	}
	return m.held >= most || m.into.guest.Full()
}

func (m *merging) flush(ctx context.Context) error {
	if len(m.pending.keys) == 0 {
		return nil
	}
	err := m.into.merge(ctx, &m.pending)
	m.pending = saved{m.pending.keys[:0], m.pending.counts[:0], m.pending.states[:0]}
	return err
}

func (m *merging) end(ctx context.Context) error {
	err := m.flush(ctx)
	if err == nil {
		err = m.done(ctx, m.into)
	}
	m.into.close()
	m.into = nil
	return err
}

func tooManyGroups(most int) error {
	return &wire.Error{Kind: wire.KindPluginLimit, Message: fmt.Sprintf(
		"more than %d groups; group by less or narrow the box", most)}
}
