package node

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/internal/kept"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// mostStateBytes is what a hundred dashboards over a billion records take, a state of 48 bytes
// for each block that they have in part.
const mostStateBytes = 64 << 20

// keeping is what the workers of one aggregate share: which states are looked for, and kept.
type keeping struct {
	cache  *kept.Cache // nil: none are
	module *pluginVersion
	key    kept.Key

	mu     sync.Mutex
	tables map[*kept.Segment]*kept.Table // guarded by mu; nil where there is none
}

func (n *Node) keepingOf(ctx context.Context, module *pluginVersion) *keeping {
	k := &keeping{cache: n.states, module: module, tables: map[*kept.Segment]*kept.Table{}}
	if scopeOf(ctx).fresh {
		k.cache = nil
	}
	return k
}

// identify makes the key of what rows go through: the filters of a query and its aggregate. A
// module that is not the node's own may put into the state of one part what it saw of another, so
// its states are for those alone who ask for the same tenants.
func (k *keeping) identify(q *record.Query, filters []*pluginVersion) {
	var text []byte
	number := func(n int64) { text = binary.LittleEndian.AppendUint64(text, uint64(n)) }
	own := true
	add := func(v *pluginVersion, params []byte) {
		digest := v.module.Digest()
		text = append(text, digest[:]...)
		number(int64(len(params)))
		text = append(text, params...)
		own = own && v.Owner == standardOwner
	}
	for i, v := range filters {
		add(v, q.Filters[i].Params)
	}
	add(k.module, q.Aggregate.Params)
	if !own {
		for _, r := range q.Box[record.CID] {
			number(r.From)
			number(r.To)
		}
	}
	number(int64(len(filters)))
	k.key = sha256.Sum256(text)
}

// table returns the table of a segment, the same for all workers, nil for none.
func (k *keeping) table(s *kept.Segment, blocks, stateBytes int) *kept.Table {
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

// parts is a worker's half of an aggregate that takes parts of blocks apart. Each that has rows
// gets a place among the states apart from groups, and so have the other rows of a lot where states
// do not come out the same in any way. At its end they are merged; what lots come to is merged in
// their order when all are done. So neither which worker does a lot nor whether the state of a part
// was known changes what comes out, not the last bit of a sum.
type parts struct {
	ctx context.Context
	of  *keeping
	to  *aggregator

	segment *kept.Segment // whose table is at hand
	table   *kept.Table

	next int  // of those that come next
	open bool // rows are of the part that comes next

	lot    int
	others int    // the place of rows that belong to no part, -1 for none
	places int    // that are taken
	rows   uint64 // in their states

	partsMemory
}

type partsMemory struct {
	plan  []partState // parts that come next
	found []byte      // states of these, where they are known

	copied []partState
	copies []wasmhost.Copy // of these
	states []byte          // of these

	done   []lotState
	merged []byte // states of these
}

// partsPool hands memory on: what is allocated anew lies in pages that the system has to give, of
// which one takes as long as ten blocks.
var partsPool = sync.Pool{New: func() any { return new(parts) }}

// giveBack ends the use of parts.
func (p *parts) giveBack() {
	clear(p.plan[:cap(p.plan)]) // tables of segments that merges replace
	clear(p.copied[:cap(p.copied)])
	*p = parts{partsMemory: partsMemory{p.plan[:0], p.found[:0], p.copied[:0], p.copies[:0],
		p.states[:0], p.done[:0], p.merged[:0]}}
	partsPool.Put(p)
}

// lotState is what a lot comes to, or a part of one that had more parts than there are places.
type lotState struct {
	lot  int
	rows uint64
}

// partState is what one part comes to.
type partState struct {
	part  kept.Part
	rows  uint32
	known bool
	table *kept.Table // nil: it is neither known nor to be kept
}

// BeginLot implements [store.Apart].
func (p *parts) BeginLot(number int) { p.lot, p.others = number, -1 }

// EndLot implements [store.Apart].
func (p *parts) EndLot() error { return p.gather() }

// newParts returns nil where there are none: with groups, and where states do not lend themselves
// to it.
func newParts(ctx context.Context, k *keeping, a *aggregator) *parts {
	if !a.groups.all() || a.guest.Apart() == 0 {
		return nil
	}
	p := partsPool.Get().(*parts)
	p.of, p.to, p.ctx = k, a, ctx
	return p
}

// Wants implements [store.Apart]. Where states come out the same in any way, who asks once pays
// nothing for parts.
func (p *parts) Wants(segment *kept.Segment, blocks int) bool {
	if segment != p.segment {
		p.segment, p.table = segment, p.of.table(segment, blocks, p.to.guest.StateSize())
	}
	return p.table != nil || !p.to.guest.Exact()
}

// Plan implements [store.Apart].
func (p *parts) Plan(_ context.Context, list []store.Part) error {
	if p.places+len(list) >= p.to.guest.Apart() {
		if err := p.gather(); err != nil {
			return err
		}
	}
	p.plan, p.next = p.plan[:0], 0
	for i := range list {
		p.plan = append(p.plan, partState{part: list[i].Part, table: p.table})
	}
	if p.table == nil {
		return nil
	}
	size := p.to.guest.StateSize()
	p.found = slices.Grow(p.found[:0], len(list)*size)[:len(list)*size]
	p.table.Lock()
	defer p.table.Unlock()
	for i := range p.plan {
		x := &p.plan[i]
		x.rows, x.known = p.table.Find(&x.part, p.found[i*size:][:size])
		list[i].Known = x.known
	}
	return nil
}

// Begin implements [store.Apart].
func (p *parts) Begin() (rows bool) {
	x := &p.plan[p.next]
	if p.open = !x.known; p.open {
		return true
	}
	if x.rows > 0 {
		state := p.take(x)
		copy(state, p.found[p.next*len(state):])
	}
	p.next++
	return false
}

// End implements [store.Apart]. Of a part of which filters left nothing there is no state, which is
// worth knowing.
func (p *parts) End() {
	x := &p.plan[p.next]
	switch {
	case x.rows > 0:
		p.take(x) // its state comes with gather
	case x.table != nil:
		none := p.found[p.next*p.to.guest.StateSize():][:p.to.guest.StateSize()]
		clear(none) // of what an aggregate before left there
		x.table.Lock()
		x.table.Put(&x.part, 0, none)
		x.table.Unlock()
	}
	p.next++
	p.open = false
}

// take gives a part the next place, and returns where its state is to be copied, nil if nowhere.
func (p *parts) take(x *partState) (state []byte) {
	place := p.places
	p.places++
	p.rows += uint64(x.rows)
	if x.table == nil {
		return nil
	}
	p.copied = append(p.copied, *x)
	p.copies = append(p.copies, wasmhost.Copy{Place: place, To: x.known})
	from, to := len(p.states), len(p.states)+p.to.guest.StateSize()
	p.states = slices.Grow(p.states, to-from)[:to]
	return p.states[from:]
}

// add takes rows of the part that is open, or of none.
func (p *parts) add(b *record.Batch) error {
	if p.open {
		p.plan[p.next].rows += uint32(b.Len())
		return p.to.guest.AddApart(p.ctx, b, p.places)
	}
	if p.others < 0 {
		p.others = p.places
		p.places++
	}
	p.rows += uint64(b.Len())
	return p.to.guest.AddApart(p.ctx, b, p.others)
}

// gather merges what came of the lot, and keeps what was not known.
func (p *parts) gather() error {
	if p.places == 0 {
		return nil
	}
	from, size := len(p.merged), p.to.guest.StateSize()
	p.merged = slices.Grow(p.merged, size)[:from+size]
	err := p.to.guest.Gather(p.ctx, p.places, p.copies, p.states, p.merged[from:])
	if err != nil {
		return err
	}
	p.done = append(p.done, lotState{lot: p.lot, rows: p.rows})
	p.keep()
	p.places, p.rows, p.others = 0, 0, -1
	p.copied, p.copies, p.states = p.copied[:0], p.copies[:0], p.states[:0]
	return nil
}

// mergeLots merges what came of the lots of all workers into the one group of the first.
func mergeLots(ctx context.Context, workers []*aggregator) error {
	type place struct{ worker, at int }
	lots := 0
	for _, a := range workers {
		if a.parts == nil {
			return nil
		}
		lots += len(a.parts.done)
	}
	if lots == 0 {
		return nil
	}
	all := make([]place, 0, lots)
	for i, a := range workers {
		for at := range a.parts.done {
			all = append(all, place{i, at})
		}
	}
	of := func(p place) lotState { return workers[p.worker].parts.done[p.at] }
	slices.SortStableFunc(all, func(a, b place) int { return of(a).lot - of(b).lot })
	into := workers[0]
	id, err := into.groups.id(groupKey{})
	if err != nil {
		return err
	}
	size := into.guest.StateSize()
	states := slices.Grow(into.parts.states[:0], lots*size)
	for _, p := range all {
		into.groups.counts[id] += of(p).rows
		states = append(states, workers[p.worker].parts.merged[p.at*size:][:size]...)
	}
	into.parts.states = states
	return into.guest.MergeApart(ctx, states, int(id), len(into.groups.keys))
}

// keep puts what was not known into the tables.
func (p *parts) keep() {
	size := p.to.guest.StateSize()
	var held *kept.Table
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
		held.Put(&x.part, x.rows, p.states[i*size:][:size])
	}
	if held != nil {
		held.Unlock()
	}
}

// looking counts parts whose states are kept, and keeps none.
type looking struct {
	of    *keeping
	table *kept.Table
}

// Wants implements [store.Apart].
func (l *looking) Wants(segment *kept.Segment, _ int) bool {
	l.table = l.of.cache.Look(segment, l.of.key)
	return true
}

// Plan implements [store.Apart].
func (l *looking) Plan(_ context.Context, list []store.Part) error {
	if l.table == nil {
		return nil
	}
	l.table.Lock()
	defer l.table.Unlock()
	for i := range list {
		list[i].Known = l.table.Has(&list[i].Part)
	}
	return nil
}

// BeginLot implements [store.Apart].
func (*looking) BeginLot(int) {}

// EndLot implements [store.Apart].
func (*looking) EndLot() error { return nil }

// Begin implements [store.Apart].
func (*looking) Begin() (rows bool) { return true }

// End implements [store.Apart].
func (*looking) End() {}

// lookingFor returns what looks for the states of an aggregate, nil where none can be kept.
func (n *local) lookingFor(ctx context.Context, q *record.Query) (func() store.Apart, error) {
	if q.Aggregate.Name == "" {
		return nil, nil
	}
	module, err := n.plugins.useCall(ctx, &q.Aggregate, plugin.KindAggregate)
	if err != nil {
		return nil, err
	}
	defer n.plugins.release(module)
	filters, err := n.useFilters(ctx, q)
	defer n.releaseFilters(filters)
	if err != nil {
		return nil, err
	}
	k, d := n.keepingOf(ctx, module), module.module.Describe()
	if k.cache == nil || d.Apart() == 0 || q.GroupBy != (record.GroupBy{}) {
		return nil, nil
	}
	k.identify(q, filters)
	return func() store.Apart { return &looking{of: k} }, nil
}

// collectStates publishes the figures of the states that are kept.
func (n *Node) collectStates(count, gauge func(name, help string, v float64)) {
	if n.states == nil {
		return
	}
	k := n.states.Stats()
	count("node_states_found_total", "Parts of blocks whose state was kept.", float64(k.Hits))
	count("node_states_missed_total", "Parts of blocks that were looked for and read.",
		float64(k.Misses))
	count("node_states_kept_total", "States that were kept.", float64(k.Kept))
	count("node_states_evicted_total", "States that went for others.", float64(k.Evicted))
	gauge("node_states", "States that are kept.", float64(k.States))
	gauge("node_states_bytes", "Memory of these.", float64(k.Bytes))
}
