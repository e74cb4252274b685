package aggregate

import (
	"context"
	"sync"

	"github.com/pentad-db/pentad/node/internal/partials"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// maxSavedBytes is the largest saved state that is kept: a larger one costs nearly what adding
	// its rows does.
	maxSavedBytes = 16 << 10
	// maxTooLarge is after how many larger ones in a row a query does not save more.
	maxTooLarge = 4
	// maxWaiting is how many bytes of saved states of a worker wait for the end of the scan. More
	// are merged before.
	maxWaiting = 4 << 20
	// savingPart is the part of the memory of an instance beyond which no states are saved, as what
	// they own is not freed while it lives.
	savingPart = 2 // of half of the limit
)

// savedSink is partialSink for states that own memory: a partial that is not cached gets a state,
// which is saved and cached. The states wait for the end of the scan, see mergeSaved.
type savedSink struct {
	ctx    context.Context
	cache  *PartialCache
	worker *Worker

	segment *partials.SegmentTables // of table
	table   *partials.Table
	into    int // index into segments

	next     int   // index into plan
	open     bool  // rows belong to plan[next]
	tooLarge int   // states in a row
	waiting  int   // bytes of all that wait
	err      error // of End, which returns none

	savedBuffers
}

type savedBuffers struct {
	plan     []plannedState // of the next partials
	segments []segmentStates
	bytes    []byte // of states that are merged
}

// savedSinks reuses memory, as partialSinks.
var savedSinks = sync.Pool{New: func() any { return new(savedSink) }}

// giveBack returns the sink to the pool.
func (p *savedSink) giveBack() {
	clear(p.plan[:cap(p.plan)])
	for i := range p.segments {
		s := &p.segments[i]
		clear(s.states[:cap(s.states)])
		*s = segmentStates{set: s.set.Reset(), states: s.states[:0]}
	}
	*p = savedSink{savedBuffers: savedBuffers{p.plan[:0], p.segments[:0], p.bytes[:0]}}
	savedSinks.Put(p)
}

// plannedState is the state of one partial.
type plannedState struct {
	partial partials.Partial
	saved   partials.Saved
	known   bool
}

// segmentStates are the states of partials of one segment that wait. Those in set are cached.
type segmentStates struct {
	table  *partials.Table
	set    partials.Set
	states []partials.Saved
	split  bool // some were merged before, so these are not all
	done   bool
}

// BeginMorsel implements [store.PartialSink].
func (*savedSink) BeginMorsel(int) {}

// EndMorsel implements [store.PartialSink].
func (p *savedSink) EndMorsel() error { return p.err }

// Wants implements [store.PartialSink].
func (p *savedSink) Wants(segment *partials.SegmentTables, blocks int) bool {
	if segment == p.segment {
		return p.table != nil
	}
	p.segment, p.table = segment, p.cache.table(segment, blocks, 0)
	for p.into = range p.segments {
		if p.segments[p.into].table == p.table {
			return p.table != nil
		}
	}
	if p.into = len(p.segments); p.into < cap(p.segments) {
		p.segments = p.segments[:p.into+1] // with the memory of an earlier query
	} else {
		p.segments = append(p.segments, segmentStates{})
	}
	p.segments[p.into].table = p.table
	return p.table != nil
}

// LookUp implements [store.PartialSink].
func (p *savedSink) LookUp(_ context.Context, list []store.BlockPartial) error {
	p.plan, p.next = p.plan[:0], 0
	p.table.Lock()
	defer p.table.Unlock()
	for i := range list {
		x := plannedState{partial: list[i].Partial}
		x.saved, x.known = p.table.FindSaved(&x.partial)
		list[i].HasState = x.known
		p.plan = append(p.plan, x)
	}
	return p.err
}

// Begin implements [store.PartialSink].
func (p *savedSink) Begin() (rows bool) {
	x := &p.plan[p.next]
	if !x.known {
		p.open = p.tooLarge < maxTooLarge &&
			p.worker.guest.MemoryBytes() < p.worker.guest.MostBytes()/savingPart
		return true
	}
	p.take(x)
	p.next++
	return false
}

// add adds rows of the open partial.
func (p *savedSink) add(b *record.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	p.plan[p.next].saved.Rows += uint32(b.Len())
	return p.worker.guest.AddToPartial(p.ctx, b)
}

// End implements [store.PartialSink]. That filters left no row of a partial is cached, too.
func (p *savedSink) End() {
	x := &p.plan[p.next]
	p.next++
	if !p.open {
		return
	}
	p.open = false
	if x.saved.Rows > 0 {
		if x.saved.State, p.err = p.worker.guest.SavePartial(p.ctx); p.err != nil {
			return
		}
	}
	if len(x.saved.State) > maxSavedBytes {
		p.tooLarge++
	} else {
		p.tooLarge = 0
		p.table.Lock()
		p.table.PutSaved(&x.partial, &x.saved)
		p.table.Unlock()
	}
	p.take(x)
}

// take has a state wait for the end of the scan, or merges all if too many do.
func (p *savedSink) take(x *plannedState) {
	if x.saved.Rows == 0 || p.err != nil {
		return
	}
	s := &p.segments[p.into]
	s.set.Add(&x.saved)
	s.states = append(s.states, x.saved)
	if p.waiting += len(x.saved.State); p.waiting <= maxWaiting {
		return
	}
	for i := range p.segments {
		s := &p.segments[i]
		if p.err == nil {
			p.err = p.merge(s.states)
		}
		clear(s.states)
		s.states, s.split = s.states[:0], true
	}
	p.waiting = 0
}

// merge merges saved states into the one group.
func (p *savedSink) merge(list []partials.Saved) error {
	if len(list) == 0 {
		return nil
	}
	a := p.worker
	id, err := a.groups.id(groupKey{predecessor: a.groups.predecessors})
	if err != nil {
		return err
	}
	for i := range list {
		a.groups.counts[id] += uint64(list[i].Rows)
	}
	p.bytes = appendStates(p.bytes[:0], list)
	return a.guest.Merge(p.ctx, p.bytes, make([]uint32, len(list)))
}

// appendStates appends states as guests take them.
func appendStates(dst []byte, list []partials.Saved) []byte {
	for i := range list {
		dst = append(dst, list[i].State...)
	}
	return dst
}

// mergeSaved merges the saved states of all workers into the one group of the first worker: those
// of each segment by one state, their union, which is cached, too. A query that repeats finds the
// same partials again, and one state of a segment has little more than that of a block.
func mergeSaved(workers []*Worker) error {
	for w, a := range workers {
		if a.savedSink == nil {
			return nil
		}
		for i := range a.savedSink.segments {
			s := &a.savedSink.segments[i]
			if s.done || len(s.states) == 0 {
				continue
			}
			for _, other := range workers[w+1:] {
				s.takeFrom(other.savedSink)
			}
			if err := workers[0].savedSink.mergeSegment(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeFrom adds what another worker has of the segment.
func (s *segmentStates) takeFrom(p *savedSink) {
	for i := range p.segments {
		o := &p.segments[i]
		if o.table != s.table || o.done {
			continue
		}
		s.set.AddAll(&o.set)
		s.states = append(s.states, o.states...)
		s.split = s.split || o.split
		o.done = true
	}
}

// mergeSegment merges all states of a segment.
func (p *savedSink) mergeSegment(s *segmentStates) error {
	if s.split || len(s.states) == 1 || !s.set.Cached() {
		return p.merge(s.states)
	}
	rows, bytes := uint32(0), 0
	for i := range s.states {
		rows += s.states[i].Rows
		bytes += len(s.states[i].State)
	}
	s.table.Lock()
	state, found := s.table.FindUnion(&s.set)
	s.table.Unlock()
	if !found {
		var err error
		p.bytes = appendStates(p.bytes[:0], s.states)
		if state, err = p.worker.guest.Join(p.ctx, p.bytes); err != nil {
			return err
		}
		if len(state) > bytes/2 {
			state = nil // the next query merges the states at once
		}
		s.table.Lock()
		s.table.PutUnion(&s.set, state)
		s.table.Unlock()
	}
	if state == nil {
		return p.merge(s.states)
	}
	return p.merge([]partials.Saved{{State: state, Rows: rows}})
}
