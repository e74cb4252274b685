package aggregate

import (
	"context"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// States are the groups of an aggregate as saved states, which can be moved between instances
// and nodes.
type States struct {
	keys   []groupKey
	counts []uint64
	states []byte // as [wasmhost.Aggregate.States] returns them
}

// Save saves the states of all groups.
func (a *Worker) Save(ctx context.Context) (*States, error) {
	a.groups.kept = true
	return a.save(ctx)
}

// save is Save for states that are used only until groups are added to the worker or it is closed.
func (a *Worker) save(ctx context.Context) (*States, error) {
	states, err := a.guest.States(ctx)
	return &States{keys: a.groups.keys, counts: a.groups.counts, states: states}, err
}

// merge merges the states of another worker into its own.
func (a *Worker) merge(ctx context.Context, from *States) error {
	a.gid = a.gid[:0]
	for i, k := range from.keys {
		id, err := a.groups.id(k)
		if err != nil {
			return err
		}
		a.groups.counts[id] += from.counts[i]
		a.gid = append(a.gid, id)
	}
	return a.guest.Merge(ctx, from.states, a.gid)
}

// KeyBytes is the size of a group without its state: its key and its count.
const KeyBytes = int(unsafe.Sizeof(groupKey{})) + 8

// Add appends states of another node, with the values of a query.
func (s *States) Add(
	module *registry.Version, values *Values, states []wire.GroupState,
) error {
	size := module.StateBytes()
	for i := range states {
		from := &states[i]
		if size > 0 && len(from.State) != size {
			return &wire.Error{Kind: wire.KindPluginFailed, Message: fmt.Sprintf(
				"a state of %s has %d bytes, not %d: the nodes do not run the same module",
				module.Name, len(from.State), size)}
		}
		k := groupKey{cid: from.CID, mid: from.MID, moid: from.MOID, cap: from.CapNs,
			predecessor: from.Predecessor}
		if err := values.set(&k, from.Values); err != nil {
			return err
		}
		s.append(size, k, from.Records, from.State)
	}
	return nil
}

// Len returns how many groups there are.
func (s *States) Len() int { return len(s.keys) }

// Reset removes all groups and keeps the memory.
func (s *States) Reset() {
	s.keys, s.counts, s.states = s.keys[:0], s.counts[:0], s.states[:0]
}

// Bytes returns the memory of s.
func (s *States) Bytes() int { return len(s.states) + len(s.keys)*KeyBytes }

// append appends a group; size is that of a state, 0 if sizes vary.
func (s *States) append(size int, k groupKey, count uint64, state []byte) {
	s.keys, s.counts = append(s.keys, k), append(s.counts, count)
	if size == 0 {
		s.states = binary.LittleEndian.AppendUint32(s.states, uint32(len(state)))
	}
	s.states = append(s.states, state...)
}

// Each emits the states one by one, with the values of a query; they alias those of s.
func (s *States) Each(
	module *registry.Version, values *Values, emit func(wire.GroupState) error,
) error {
	size, rest := module.StateBytes(), s.states
	for i, k := range s.keys {
		n := size
		if size == 0 {
			n, rest = int(binary.LittleEndian.Uint32(rest)), rest[4:]
		}
		one := wire.GroupState{CID: k.cid, MID: values.mid(k), MOID: k.moid, CapNs: k.cap,
			Predecessor: k.predecessor, Records: s.counts[i], State: rest[:n],
			Values: values.of(k)}
		if err := emit(one); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// Part is the groups of an aggregate of one source: in memory, or in an overflow.
type Part struct {
	States *States
	Over   *Overflow
}

// MergeParts merges the states of sources, in their order. If they exceed memory, with at most that
// many groups, all of them are moved to the overflow. The size is that of a state, 0 if sizes vary.
func (into *Worker) MergeParts(
	ctx context.Context, parts []Part, most int, over *Overflow, size int,
) error {
	if !into.surelyFit(parts, most) {
		return overflowAll(ctx, parts, over, size)
	}
	for _, from := range parts {
		if from.States.Len() == 0 {
			continue
		}
		if err := into.merge(ctx, from.States); err != nil {
			return err
		}
	}
	return nil
}

// surelyFit reports whether the states of sources certainly fit, with at most that many groups.
func (into *Worker) surelyFit(said []Part, most int) bool {
	groups, bytes := 0, int64(0)
	for _, from := range said {
		if from.Over.Used() {
			return false
		}
		groups += from.States.Len()
		bytes += int64(len(from.States.states))
	}
	return into.groups.all() || groups <= min(most, into.groups.max) &&
		(!into.guest.HeapStates() || into.guest.MemoryBytes()+bytes <= into.guest.MostBytes())
}

// overflowAll moves the states of sources to one overflow.
func overflowAll(ctx context.Context, said []Part, over *Overflow, size int) error {
	for _, from := range said {
		if err := from.Over.Add(ctx, 0, 0, from.States, size); err != nil {
			return err
		}
		if err := over.take(ctx, from.Over); err != nil {
			return err
		}
	}
	return nil
}
