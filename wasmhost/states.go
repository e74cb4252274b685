package wasmhost

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/sdk/plugin"
)

const (
	// sliceBytes bounds the states of one state_init, merge or finish call, at least one state:
	// 32 KiB with 64 units of fuel a byte are 2.1 million units, half a millisecond.
	sliceBytes = 32 << 10

	// Of the first region; each next one is 16 times as large. Most aggregates have one group, and
	// all memory of an instance, touched or not, is cleared for the next use.
	firstStatesBytes = 4 << 10
	statesGrowth     = 16
	// A region larger than this part of the limit gets the size of the limit: so it always fits
	// into an instance together with the previous ones, which guests do not free.
	lastStatesPart = 4
)

// states is the array of states in guest memory, one per group.
type states struct {
	size     int  // of one state
	heap     bool // a state owns more memory than its size, and moves only by save and load
	groups   int
	limit    int // bytes of all states
	region   uint32
	capacity int // capacity of the region in groups

	init, mergeF, finishF, saveF, loadF exportFunc

	// scratch of merge: space for gathered destinations, followed by sources.
	scratch         uint32
	scratchCapacity int
	stamps          []uint32 // per group, the number of the slice that last merged into it
	stamp           uint32

	out      uint32 // region for results
	outSize  uint32
	transfer uint32 // region for a saved state

	transferSize int
}

func newStates(g *guest) states {
	return states{
		size: int(g.entry.desc.StateSize), limit: g.entry.host.opt.StateBytes,
		heap: g.entry.desc.Flags&plugin.FlagGrows != 0,
		init: g.export(exportStateInit), mergeF: g.export(exportMerge),
		finishF: g.export(exportFinish), saveF: g.export(exportSave), loadF: g.export(exportLoad),
	}
}

// at returns the address of a state.
func (s *states) at(group int) uint32 { return s.region + uint32(group*s.size) }

// perSlice returns how many states one call may get.
func (s *states) perSlice() int { return perSlice(s.size) }

func perSlice(stateBytes int) int { return max(1, sliceBytes/stateBytes) }

// view returns the states of groups from to to, valid until the next call of the guest.
func (s *states) view(g *guest, from, to int) ([]byte, error) {
	if from == to {
		return nil, nil
	}
	return g.view(exportAlloc, s.at(from), uint32((to-from)*s.size))
}

// copyOut returns all states in the form that other instances can merge.
func (s *states) copyOut(ctx context.Context, g *guest) ([]byte, error) {
	if s.heap {
		return s.save(ctx, g)
	}
	all, err := s.view(g, 0, s.groups)
	return append([]byte(nil), all...), err
}

func budgetFor(g *guest, stateBytes int) int64 {
	return g.scaled(fuelBase + fuelPerState*int64(stateBytes))
}

// grow increases the number of groups to at least groups.
func (s *states) grow(ctx context.Context, g *guest, groups int) error {
	if groups <= s.groups {
		return nil
	}
	if groups > s.limit/s.size {
		return g.fail(Limit, exportStateInit, fmt.Sprintf("%s groups of %d bytes of state exceed "+
			"the limit of %s bytes; ask for fewer groups", grouped(uint64(groups)), s.size,
			grouped(uint64(s.limit))))
	}
	if groups > s.capacity {
		if err := s.move(g, groups); err != nil {
			return err
		}
	}
	for from := s.groups; from < groups; {
		if err := g.pause(ctx); err != nil {
			return err
		}
		to := min(groups, from+s.perSlice())
		if s.heap {
			to = min(to, from+maxNewStates)
		}
		n := to - from
		budget := budgetFor(g, n*s.size)
		if s.heap {
			budget += g.scaled(fuelPerNew * int64(n))
		}
		_, err := g.call(&s.init, budget, uint64(s.at(from)), uint64(n))
		if err != nil {
			return err
		}
		s.groups, from = to, to
	}
	return nil
}

// move allocates a larger region. Guests never free, so regions grow in few, large steps: untouched
// memory costs nothing.
func (s *states) move(g *guest, groups int) error {
	need := groups * s.size
	want := max(need, firstStatesBytes, min(s.capacity*s.size*statesGrowth, s.limit))
	if want > s.limit/lastStatesPart {
		want = s.limit
	}
	region, err := g.alloc(uint32(want))
	if err != nil {
		return err
	}
	old, err := s.view(g, 0, s.groups)
	if err != nil {
		return err
	}
	dst, err := g.view(exportAlloc, region, uint32(want))
	if err != nil {
		return err
	}
	copy(dst, old)
	s.region, s.capacity = region, want/s.size
	return nil
}

// merge folds state i of src into group gid[i].
func (s *states) merge(ctx context.Context, g *guest, src []byte, gid []uint32) error {
	count := len(src) / s.size
	if len(src)%s.size != 0 || gid != nil && len(gid) != count {
		return g.fail(Limit, exportMerge, fmt.Sprintf("%d bytes of states and %d groups do not "+
			"fit together, a state has %d bytes", len(src), len(gid), s.size))
	}
	if err := s.growTo(ctx, g, count, gid); err != nil {
		return err
	}
	if gid == nil {
		gid = make([]uint32, count)
		for i := range gid {
			gid[i] = uint32(i)
		}
	}
	if most := min(count, s.perSlice()); most > s.scratchCapacity {
		if most > 1 {
			most = s.perSlice()
		}
		region, err := g.alloc(uint32(2 * most * s.size))
		if err != nil {
			return err
		}
		s.scratch, s.scratchCapacity = region, most
	}
	for from := 0; from < count; {
		if err := g.pause(ctx); err != nil {
			return err
		}
		n := s.distinct(gid[from:])
		part := src[from*s.size : (from+n)*s.size]
		if err := s.mergeSlice(g, part, gid[from:from+n]); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// growTo increases the number of groups to what n states for groups need.
func (s *states) growTo(ctx context.Context, g *guest, count int, gid []uint32) error {
	groups := uint32(0)
	for _, group := range gid {
		groups = max(groups, min(group, 1<<31)+1)
	}
	if gid == nil {
		groups = uint32(count)
	}
	return s.grow(ctx, g, int(groups))
}

// distinct returns how many of the first groups fit into one slice without repetition.
func (s *states) distinct(gid []uint32) int {
	for len(s.stamps) < s.groups {
		s.stamps = append(s.stamps, 0)
	}
	s.stamp++
	for i, group := range gid[:min(len(gid), s.perSlice())] {
		if s.stamps[group] == s.stamp {
			return i
		}
		s.stamps[group] = s.stamp
	}
	return min(len(gid), s.perSlice())
}

// mergeSlice merges states into distinct groups, in place if these are adjacent, else through
// copies.
func (s *states) mergeSlice(g *guest, src []byte, gid []uint32) error {
	n := len(gid)
	size := uint32(len(src))
	source := s.scratch + uint32(s.scratchCapacity*s.size)
	b, err := g.view(exportAlloc, source, size)
	if err != nil {
		return err
	}
	copy(b, src)
	target := s.at(int(gid[0]))
	sideBySide := true
	for i, group := range gid {
		sideBySide = sideBySide && group == gid[0]+uint32(i)
	}
	if !sideBySide {
		target = s.scratch
		if err := s.exchange(g, gid, false); err != nil {
			return err
		}
	}
	err = g.checkZero(&s.mergeF, budgetFor(g, len(src)), uint64(target), uint64(source),
		uint64(n))
	if err != nil || sideBySide {
		return err
	}
	return s.exchange(g, gid, true)
}

// exchange copies the states of groups into scratch memory, or back.
func (s *states) exchange(g *guest, gid []uint32, back bool) error {
	all, err := s.view(g, 0, s.groups)
	if err != nil {
		return err
	}
	scratch, err := g.view(exportAlloc, s.scratch, uint32(len(gid)*s.size))
	if err != nil {
		return err
	}
	for i, group := range gid {
		state := all[int(group)*s.size:][:s.size]
		copied := scratch[i*s.size:][:s.size]
		if back {
			copy(state, copied)
		} else {
			copy(copied, state)
		}
	}
	return nil
}
