package node

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/pentad-db/pentad/node/internal/kept"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// defaultStateBytes is what a hundred dashboards over a billion records take, a state of 48 bytes
// for each block that they have in part.
const defaultStateBytes = 64 << 20

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

// identify makes the key of what rows go through: the filters of a query and its aggregate.
func (k *keeping) identify(q *record.Query, filters []*pluginVersion) {
	var text []byte
	add := func(v *pluginVersion, params []byte) {
		digest := v.module.Digest()
		text = append(text, digest[:]...)
		text = binary.LittleEndian.AppendUint64(text, uint64(len(params)))
		text = append(text, params...)
	}
	for i, v := range filters {
		add(v, q.Filters[i].Params)
	}
	add(k.module, q.Aggregate.Params)
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

// parts is a worker's half of an aggregate that takes parts of blocks apart. Each has a place among
// the states apart from groups, until there are as many as there can be; then all are merged.
// Whether the state of a part was known changes nothing of what comes out, not the last bit of a
// sum.
type parts struct {
	of *keeping
	to *aggregator

	segment *kept.Segment // whose table is at hand
	table   *kept.Table

	places []partState
	known  []bool // by place
	states []byte // by place
	next   int    // place of the part that comes next
	open   bool   // rows are of the part that comes next
}

// partState is what one part comes to.
type partState struct {
	part  kept.Part
	state kept.State
	table *kept.Table // nil: it is not to be kept
}

// newParts returns nil where there are none: with groups, and where states do not lend themselves
// to it.
func newParts(k *keeping, a *aggregator) *parts {
	if !a.groups.all() || a.guest.Apart() == 0 {
		return nil
	}
	return &parts{of: k, to: a}
}

// Plan implements [store.Apart].
func (p *parts) Plan(
	ctx context.Context, segment *kept.Segment, blocks int, list []store.Part,
) error {
	if len(p.places)+len(list) > p.to.guest.Apart() {
		if err := p.gather(ctx); err != nil {
			return err
		}
	}
	size := p.to.guest.StateSize()
	if segment != p.segment {
		p.segment, p.table = segment, p.of.table(segment, blocks, size)
	}
	p.next = len(p.places)
	for i := range list {
		p.places = append(p.places, partState{part: list[i].Part, table: p.table})
		p.known = append(p.known, false)
	}
	if need := len(p.places) * size; need > cap(p.states) {
		p.states = append(make([]byte, 0, max(2*cap(p.states), need)), p.states...)
	}
	p.states = p.states[:len(p.places)*size]
	if p.table == nil {
		return nil
	}
	p.table.Lock()
	defer p.table.Unlock()
	in := uint16(p.to.guest.ApartRows())
	for i := range list {
		at := p.next + i
		x := &p.places[at]
		x.state, p.known[at] = p.table.Find(&x.part, in, p.states[at*size:][:size])
		if list[i].Known = p.known[at]; p.known[at] {
			in = x.state.Out
		}
	}
	return nil
}

// Begin implements [store.Apart]. A state that was made with other batches than would be made now
// is none.
func (p *parts) Begin() (rows bool, err error) {
	x, guest := &p.places[p.next], p.to.guest
	if p.known[p.next] && int(x.state.In) == guest.ApartRows() {
		guest.SetApartRows(int(x.state.Out))
		p.next++
		return false, nil
	}
	p.known[p.next] = false
	x.state = kept.State{In: uint16(guest.ApartRows())}
	p.open = true
	return true, nil
}

// End implements [store.Apart].
func (p *parts) End() error {
	p.places[p.next].state.Out = uint16(p.to.guest.ApartRows())
	p.next++
	p.open = false
	return nil
}

// add takes rows of the part that is open.
func (p *parts) add(ctx context.Context, b *record.Batch) error {
	p.places[p.next].state.Rows += uint32(b.Len())
	return p.to.guest.AddApart(ctx, b, p.next)
}

// gather merges what all parts come to into the one group, and keeps what was not known.
func (p *parts) gather(ctx context.Context) error {
	if p == nil {
		return nil
	}
	rows := uint64(0)
	for i := range p.places {
		rows += uint64(p.places[i].state.Rows)
	}
	if rows > 0 {
		id, err := p.to.groups.id(groupKey{})
		if err != nil {
			return err
		}
		p.to.groups.counts[id] += rows
		err = p.to.guest.Gather(ctx, p.states, p.known, int(id), len(p.to.groups.keys))
		if err != nil {
			return err
		}
		p.keep()
	}
	p.places, p.known, p.states = p.places[:0], p.known[:0], p.states[:0]
	return nil
}

// keep puts what was not known into the tables.
func (p *parts) keep() {
	size := p.to.guest.StateSize()
	var held *kept.Table
	for i := range p.places {
		x := &p.places[i]
		if p.known[i] || x.table == nil {
			continue
		}
		if x.table != held {
			if held != nil {
				held.Unlock()
			}
			held = x.table
			held.Lock()
		}
		held.Put(&x.part, x.state, p.states[i*size:][:size])
	}
	if held != nil {
		held.Unlock()
	}
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
