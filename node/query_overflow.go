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
	// maxGroupsInMemory is how many groups a worker has in memory at most: keys and their table
	// take some 64 bytes each.
	maxGroupsInMemory = 1 << 20
	heldGroupShare    = 1 << 13 // of the memory of the node, in bytes

	// States of overflows are merged this many groups at a time, and come in steps of this size.
	chunkGroups = 1 << 14
	chunkBytes  = 256 << 10

	// States of one group are merged in the order of sources, then of workers, then of spills.
	sourceShift = 44
	workerShift = 32
)

func heldGroups(opt *Options) int {
	held := memory.Total(opt.MemoryBytes).Part(heldGroupShare, maxGroupsInMemory)
	return min(opt.MaxGroups, int(held))
}

// overflow has groups of one aggregate that exceed the memory of its plugin, as records: the key is
// that of the group with the order of merging in place of acq, the payload a count u64 and a state.
// An external sort brings the states of a group together, and groups into the order of the answer.
type overflow struct {
	space  *spill.Space
	source int64 // number of the source

	mu     sync.Mutex
	sorter *spill.Sorter // nil until groups are spilled; guarded by mu
}

func (n *Node) newOverflow(source int) *overflow {
	return &overflow{space: n.spill, source: int64(source)}
}

// close releases its memory and files; o may be nil.
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

// used reports whether groups were spilled.
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

// compareGroups orders records of groups as groupKey does, and those of one group by the order of
// merging. Predecessors before the box have an acq below 0.
func compareGroups(a, b record.Key) int {
	first := 0
	if (a.AcqNs < 0) != (b.AcqNs < 0) {
		first = cmp.Compare(a.AcqNs, b.AcqNs)
	}
	return cmp.Or(cmp.Compare(a.CID, b.CID), cmp.Compare(a.MID, b.MID),
		cmp.Compare(a.MOID, b.MOID), first, cmp.Compare(a.CapNs, b.CapNs),
		cmp.Compare(a.AcqNs, b.AcqNs))
}

// add adds groups of a worker that has spilled that often before; size is that of a state, 0 if
// sizes vary.
func (o *overflow) add(
	ctx context.Context, worker, before int, some *savedGroups, size int,
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
		if i == len(some.keys)-1 || b.Len() == groupsPerFrame || len(b.Data) >= chunkBytes {
			if err := to.Add(ctx, &b); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return nil
}

// take moves all groups of another overflow of the same aggregate to this one.
func (o *overflow) take(ctx context.Context, other *overflow) error {
	return o.sorted().Take(ctx, other.sorted())
}

// merging merges the states of an overflow, in one instance of the plugin after another.
type merging struct {
	make              func(ctx context.Context) (*aggregator, error)
	linksPredecessors bool
	maxGroups         int // of groups
	maxOfInstance     int // of groups; the groups of one series may exceed it
	// done is called with the groups of an instance, in the order of keys; the instance is closed
	// afterwards.
	done func(ctx context.Context, a *aggregator) error

	aggregator *aggregator // nil between instances
	groups     int         // in all instances
	ofInstance int         // in this one
	last       groupKey    // of the previous state
	pending    savedGroups // states that were not merged yet
}

// each passes all groups to done, several at a time; those of a series together if they link
// predecessors.
func (o *overflow) each(ctx context.Context, m *merging) error {
	defer func() {
		if m.aggregator != nil {
			m.aggregator.close()
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
	if err != nil || m.aggregator == nil {
		return err
	}
	return m.end(ctx)
}

// add adds the next state.
func (m *merging) add(ctx context.Context, key record.Key, payload []byte) (err error) {
	k := groupKey{cid: key.CID, mid: key.MID, moid: key.MOID, cap: key.CapNs,
		predecessor: key.AcqNs < 0}
	if m.aggregator != nil && k != m.last && m.enough(k) {
		if err := m.end(ctx); err != nil {
			return err
		}
	}
	if m.aggregator == nil {
		if m.aggregator, err = m.make(ctx); err != nil {
			return err
		}
		m.ofInstance = 0
	}
	if m.ofInstance == 0 || k != m.last {
		m.ofInstance++
		if m.groups++; m.groups > m.maxGroups {
			return tooManyGroups(m.maxGroups)
		}
	}
	m.last = k
	m.pending.append(m.aggregator.stateBytes(), k, binary.LittleEndian.Uint64(payload), payload[8:])
	if len(m.pending.states) < chunkBytes {
		return nil
	}
	return m.flush(ctx)
}

// enough reports whether the instance has enough groups before the next one.
func (m *merging) enough(next groupKey) bool {
	most := min(m.maxOfInstance, m.aggregator.groups.max)
	if m.linksPredecessors {
		if next.cid == m.last.cid && next.mid == m.last.mid && next.moid == m.last.moid {
			return false
		}
		most = max(1, most/2) // the rest is for the last series
	}
	return m.ofInstance >= most || m.aggregator.guest.Full()
}

func (m *merging) flush(ctx context.Context) error {
	if len(m.pending.keys) == 0 {
		return nil
	}
	err := m.aggregator.merge(ctx, &m.pending)
	m.pending = savedGroups{m.pending.keys[:0], m.pending.counts[:0], m.pending.states[:0]}
	return err
}

func (m *merging) end(ctx context.Context) error {
	err := m.flush(ctx)
	if err == nil {
		err = m.done(ctx, m.aggregator)
	}
	m.aggregator.close()
	m.aggregator = nil
	return err
}

func tooManyGroups(most int) error {
	return &wire.Error{Kind: wire.KindPluginLimit, Message: fmt.Sprintf(
		"more than %d groups; group by less or narrow the box", most)}
}
