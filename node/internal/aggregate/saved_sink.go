package aggregate

import (
	"context"

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
	// mergeBytes is how many bytes of saved states are merged at once.
	mergeBytes = 256 << 10
	// savingPart is the part of the memory of an instance beyond which no states are saved, as what
	// they own is not freed while it lives.
	savingPart = 2 // of half of the limit
)

// savedSink is partialSink for states that own memory: a partial that is not cached gets a state,
// which is saved, cached and merged into that of the query, like those that are cached.
type savedSink struct {
	ctx        context.Context
	cache      *PartialCache
	aggregator *Worker

	segment *partials.SegmentTables // of table
	table   *partials.Table

	plan     []savedState // of the next partials
	next     int          // index into plan
	open     bool         // rows belong to plan[next]
	tooLarge int          // states in a row

	states []byte // to be merged
	count  int    // of them
	err    error  // of End, which returns none
}

// savedState is the state of one partial.
type savedState struct {
	partial partials.Partial
	rows    uint32
	known   bool
	state   []byte // if it is known
}

// BeginMorsel implements [store.PartialSink].
func (*savedSink) BeginMorsel(int) {}

// EndMorsel implements [store.PartialSink].
func (p *savedSink) EndMorsel() error {
	if p.err != nil {
		return p.err
	}
	return p.merge()
}

// Wants implements [store.PartialSink].
func (p *savedSink) Wants(segment *partials.SegmentTables, blocks int) bool {
	if segment != p.segment {
		p.segment, p.table = segment, p.cache.table(segment, blocks, 0)
	}
	return p.table != nil
}

// LookUp implements [store.PartialSink].
func (p *savedSink) LookUp(_ context.Context, list []store.BlockPartial) error {
	p.plan, p.next = p.plan[:0], 0
	p.table.Lock()
	defer p.table.Unlock()
	for i := range list {
		x := savedState{partial: list[i].Partial}
		x.state, x.rows, x.known = p.table.FindSaved(&x.partial)
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
			p.aggregator.guest.MemoryBytes() < p.aggregator.guest.MostBytes()/savingPart
		return true
	}
	if x.rows > 0 {
		p.take(x.rows, x.state)
	}
	p.next++
	return false
}

// add adds rows of the open partial.
func (p *savedSink) add(b *record.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	p.plan[p.next].rows += uint32(b.Len())
	return p.aggregator.guest.AddToPartial(p.ctx, b)
}

// End implements [store.PartialSink]. That filters left no row of a partial is cached, too.
func (p *savedSink) End() {
	x := &p.plan[p.next]
	p.next++
	if !p.open {
		return
	}
	p.open = false
	var state []byte
	if x.rows > 0 {
		if state, p.err = p.aggregator.guest.SavePartial(p.ctx); p.err != nil {
			return
		}
		p.take(x.rows, state)
	}
	if len(state) > maxSavedBytes {
		p.tooLarge++
		return
	}
	p.tooLarge = 0
	p.table.Lock()
	p.table.PutSaved(&x.partial, x.rows, state)
	p.table.Unlock()
}

// take has a state merged, soon.
func (p *savedSink) take(rows uint32, state []byte) {
	if p.err != nil {
		return
	}
	id, err := p.aggregator.groups.id(groupKey{predecessor: p.aggregator.groups.predecessors})
	if err != nil {
		p.err = err
		return
	}
	p.aggregator.groups.counts[id] += uint64(rows)
	p.states, p.count = append(p.states, state...), p.count+1
	if len(p.states) > mergeBytes {
		p.err = p.merge()
	}
}

// merge merges the states that were taken into the one group.
func (p *savedSink) merge() error {
	if p.count == 0 {
		return nil
	}
	err := p.aggregator.guest.Merge(p.ctx, p.states, make([]uint32, p.count))
	p.states, p.count = p.states[:0], 0
	return err
}
