package aggregate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/internal/partials"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// PartialCache is the use that one aggregate makes of the partial-aggregate cache; its workers
// share it.
type PartialCache struct {
	cache  *partials.Cache // nil: the cache is not used
	module *registry.Version
	key    partials.Key

	mu     sync.Mutex
	tables map[*partials.SegmentTables]*partials.Table // guarded by mu; nil where there is none
}

// NewPartialCache returns the use that an aggregate makes of a cache, nil to use none.
func NewPartialCache(cache *partials.Cache, module *registry.Version) *PartialCache {
	return &PartialCache{cache: cache, module: module,
		tables: map[*partials.SegmentTables]*partials.Table{}}
}

// SetKey sets the key: the condition, filters and aggregate of a query. A module that is not built
// in may leak rows of one partial into the state of another, so its states are only shared among
// queries over the same tenants.
func (k *PartialCache) SetKey(q *record.Query, filters []*registry.Version) {
	var text []byte
	number := func(n int64) { text = binary.LittleEndian.AppendUint64(text, uint64(n)) }
	allBuiltIn := true
	add := func(v *registry.Version, params []byte) {
		digest := v.Module.Digest()
		text = append(text, digest[:]...)
		number(int64(len(params)))
		text = append(text, params...)
		allBuiltIn = allBuiltIn && v.Owner == registry.StandardOwner
	}
	number(int64(len(q.Where)))
	text = append(text, q.Where...)
	for i, v := range filters {
		add(v, q.Filters[i].Params)
	}
	add(k.module, q.Aggregate.Params)
	if !allBuiltIn {
		for _, r := range q.Box[record.CID] {
			number(r.From)
			number(r.To)
		}
	}
	number(int64(len(filters)))
	k.key = sha256.Sum256(text)
}

// table returns the table of a segment, which all workers share, or nil.
func (k *PartialCache) table(s *partials.SegmentTables, blocks, stateBytes int) *partials.Table {
	if k.cache == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.tables[s]
	if !ok {
		t = k.cache.Table(s, k.key, blocks, stateBytes)
		k.tables[s] = t
	}
	return t
}

// partialSink aggregates partials of blocks separately, for one worker. Each partial that has
// rows gets a partial state of its own, and so do the other rows of a morsel if states depend on
// the order of merging. At the end of a morsel these are merged; the results of all morsels are
// merged in the order of morsels when all are done. So the result does not depend, down to the last
// bit of a sum, on which worker does a morsel and on which states were cached.
type partialSink struct {
	ctx    context.Context
	cache  *PartialCache
	worker *Worker

	segment *partials.SegmentTables // of table
	table   *partials.Table

	next int  // index into plan
	open bool // rows belong to plan[next]

	morsel int
	rest   int    // index of the state of rows that belong to no partial, -1 for none
	used   int    // states in use
	rows   uint64 // in these

	partialBuffers
}

type partialBuffers struct {
	plan  []partialState // of the next partials
	found []byte         // states of plan that are known

	copied []partialState
	copies []wasmhost.StateCopy // of copied
	states []byte               // of copied

	done   []mergedState
	merged []byte // states of done
}

// partialSinks reuses memory: a page fault of fresh memory takes as long as ten blocks.
var partialSinks = sync.Pool{New: func() any { return new(partialSink) }}

// giveBack returns the sink to the pool.
func (p *partialSink) giveBack() {
	clear(p.plan[:cap(p.plan)]) // tables of segments that merges replace
	clear(p.copied[:cap(p.copied)])
	*p = partialSink{partialBuffers: partialBuffers{p.plan[:0], p.found[:0], p.copied[:0],
		p.copies[:0], p.states[:0], p.done[:0], p.merged[:0]}}
	partialSinks.Put(p)
}

// mergedState is the result of a morsel, or of some of the partials of a morsel that has more of
// them than there are partial states.
type mergedState struct {
	morsel int
	rows   uint64
}

// partialState is the state of one partial.
type partialState struct {
	partial partials.Partial
	rows    uint32
	known   bool
	table   *partials.Table // nil: the cache is not used
}

// BeginMorsel implements [store.PartialSink].
func (p *partialSink) BeginMorsel(number int) { p.morsel, p.rest = number, -1 }

// EndMorsel implements [store.PartialSink].
func (p *partialSink) EndMorsel() error { return p.gather() }

// newPartialSink returns nil for queries with groups, and for states that cannot be partial.
func newPartialSink(ctx context.Context, k *PartialCache, a *Worker) *partialSink {
	if !a.groups.all() || a.guest.MaxPartials() == 0 {
		return nil
	}
	p := partialSinks.Get().(*partialSink)
	p.cache, p.worker, p.ctx = k, a, ctx
	return p
}

// Wants implements [store.PartialSink]. Where states do not depend on the order of merging, a query
// that is the first of its kind has no cost for partials.
func (p *partialSink) Wants(segment *partials.SegmentTables, blocks int) bool {
	if segment != p.segment {
		p.segment, p.table = segment, p.cache.table(segment, blocks, p.worker.guest.StateSize())
	}
	return p.table != nil || !p.worker.guest.OrderIndependent()
}

// LookUp implements [store.PartialSink].
func (p *partialSink) LookUp(_ context.Context, list []store.BlockPartial) error {
	if p.used+len(list) >= p.worker.guest.MaxPartials() {
		if err := p.gather(); err != nil {
			return err
		}
	}
	p.plan, p.next = p.plan[:0], 0
	for i := range list {
		p.plan = append(p.plan, partialState{partial: list[i].Partial, table: p.table})
	}
	if p.table == nil {
		return nil
	}
	size := p.worker.guest.StateSize()
	p.found = slices.Grow(p.found[:0], len(list)*size)[:len(list)*size]
	p.table.Lock()
	defer p.table.Unlock()
	for i := range p.plan {
		x := &p.plan[i]
		x.rows, x.known = p.table.Find(&x.partial, p.found[i*size:][:size])
		list[i].HasState = x.known
	}
	return nil
}

// Begin implements [store.PartialSink].
func (p *partialSink) Begin() (rows bool) {
	x := &p.plan[p.next]
	if p.open = !x.known; p.open {
		return true
	}
	if x.rows > 0 {
		state := p.claim(x)
		copy(state, p.found[p.next*len(state):])
	}
	p.next++
	return false
}

// End implements [store.PartialSink]. That filters left no row of a partial is cached, too.
func (p *partialSink) End() {
	x := &p.plan[p.next]
	switch {
	case x.rows > 0:
		p.claim(x) // gather copies its state
	case x.table != nil:
		none := p.found[p.next*p.worker.guest.StateSize():][:p.worker.guest.StateSize()]
		clear(none) // the memory is reused
		x.table.Lock()
		x.table.Put(&x.partial, 0, none)
		x.table.Unlock()
	}
	p.next++
	p.open = false
}

// claim assigns the next partial state to a partial, and returns the buffer for a copy of it, nil
// when none is needed.
func (p *partialSink) claim(x *partialState) (state []byte) {
	index := p.used
	p.used++
	p.rows += uint64(x.rows)
	if x.table == nil {
		return nil
	}
	p.copied = append(p.copied, *x)
	p.copies = append(p.copies, wasmhost.StateCopy{Index: index, Load: x.known})
	from, to := len(p.states), len(p.states)+p.worker.guest.StateSize()
	p.states = slices.Grow(p.states, to-from)[:to]
	return p.states[from:]
}

// add adds rows of the open partial, or of none.
func (p *partialSink) add(b *record.Batch) error {
	if p.open {
		p.plan[p.next].rows += uint32(b.Len())
		return p.worker.guest.AddPartial(p.ctx, b, p.used)
	}
	if p.rest < 0 {
		p.rest = p.used
		p.used++
	}
	p.rows += uint64(b.Len())
	return p.worker.guest.AddPartial(p.ctx, b, p.rest)
}

// gather merges the states of the morsel, and stores those that were not cached.
func (p *partialSink) gather() error {
	if p.used == 0 {
		return nil
	}
	from, size := len(p.merged), p.worker.guest.StateSize()
	p.merged = slices.Grow(p.merged, size)[:from+size]
	err := p.worker.guest.GatherPartials(p.ctx, p.used, p.copies, p.states, p.merged[from:])
	if err != nil {
		return err
	}
	p.done = append(p.done, mergedState{morsel: p.morsel, rows: p.rows})
	p.keep()
	p.used, p.rows, p.rest = 0, 0, -1
	p.copied, p.copies, p.states = p.copied[:0], p.copies[:0], p.states[:0]
	return nil
}

// MergeMorsels merges the results of all morsels into the one group of the first worker.
func MergeMorsels(ctx context.Context, workers []*Worker) error {
	if err := mergeSaved(workers); err != nil {
		return err
	}
	type place struct{ worker, at int }
	results := 0
	for _, a := range workers {
		if a.partialSink == nil {
			return nil
		}
		results += len(a.partialSink.done)
	}
	if results == 0 {
		return nil
	}
	all := make([]place, 0, results)
	for i, a := range workers {
		for at := range a.partialSink.done {
			all = append(all, place{i, at})
		}
	}
	of := func(p place) mergedState { return workers[p.worker].partialSink.done[p.at] }
	slices.SortStableFunc(all, func(a, b place) int { return of(a).morsel - of(b).morsel })
	into := workers[0]
	id, err := into.groups.id(groupKey{})
	if err != nil {
		return err
	}
	size := into.guest.StateSize()
	states := slices.Grow(into.partialSink.states[:0], results*size)
	for _, p := range all {
		into.groups.counts[id] += of(p).rows
		states = append(states, workers[p.worker].partialSink.merged[p.at*size:][:size]...)
	}
	into.partialSink.states = states
	return into.guest.MergePartials(ctx, states, int(id), len(into.groups.keys))
}

// keep stores the states that were not cached.
func (p *partialSink) keep() {
	size := p.worker.guest.StateSize()
	var held *partials.Table
	for i := range p.copied {
		x := &p.copied[i]
		if x.known {
			continue
		}
		if x.table != held {
			if held != nil {
				held.Unlock()
			}
			held = x.table
			held.Lock()
		}
		held.Put(&x.partial, x.rows, p.states[i*size:][:size])
	}
	if held != nil {
		held.Unlock()
	}
}

// partialLookup counts partials whose states are cached, without storing any, for explain.
type partialLookup struct {
	of    *PartialCache
	table *partials.Table
}

// Wants implements [store.PartialSink].
func (l *partialLookup) Wants(segment *partials.SegmentTables, _ int) bool {
	l.table = l.of.cache.Peek(segment, l.of.key)
	return true
}

// LookUp implements [store.PartialSink].
func (l *partialLookup) LookUp(_ context.Context, list []store.BlockPartial) error {
	if l.table == nil {
		return nil
	}
	l.table.Lock()
	defer l.table.Unlock()
	for i := range list {
		list[i].HasState = l.table.Has(&list[i].Partial)
	}
	return nil
}

// BeginMorsel implements [store.PartialSink].
func (*partialLookup) BeginMorsel(int) {}

// EndMorsel implements [store.PartialSink].
func (*partialLookup) EndMorsel() error { return nil }

// Begin implements [store.PartialSink].
func (*partialLookup) Begin() (rows bool) { return true }

// End implements [store.PartialSink].
func (*partialLookup) End() {}

// Lookups returns what makes lookups for a query, nil if its states are never cached.
func (k *PartialCache) Lookups(
	q *record.Query, filters []*registry.Version,
) func() store.PartialSink {
	d := k.module.Module.Describe()
	partial := d.MaxPartials() > 0 || d.SavesPartials()
	if k.cache == nil || !partial || q.GroupBy != (record.GroupBy{}) || q.Moving != "" {
		return nil
	}
	k.SetKey(q, filters)
	return func() store.PartialSink { return &partialLookup{of: k} }
}
