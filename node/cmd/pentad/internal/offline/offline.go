// Package offline runs a plugin over records in memory, by the host code of a node and without
// one, and measures what it uses.
//
// It knows nothing of files. Its main type is [Runner]; it starts no goroutines but those of its
// plugin host, which Close ends.
package offline

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// Runner holds a module.
type Runner struct {
	Doc    *plugin.Doc
	host   *wasmhost.Host
	module *wasmhost.Module
}

// New checks and compiles a module.
func New(ctx context.Context, wasm []byte) (*Runner, error) {
	host, err := wasmhost.New(ctx, wasmhost.Options{GoProfile: true})
	if err != nil {
		return nil, err
	}
	r := &Runner{host: host}
	if r.module, err = host.Load(ctx, wasm); err == nil {
		r.Doc = &plugin.Doc{Name: r.module.Name()}
		if doc := r.module.Describe().Doc; len(doc) > 0 {
			r.Doc, err = plugin.ParseDoc(doc)
		}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close frees the module.
func (r *Runner) Close() {
	if r.module != nil {
		_ = r.module.Close() // as is the host, it is not used any more
	}
	_ = r.host.Close(context.Background())
}

// Aggregates reports whether the module is run as an aggregate; else it is a filter.
func (r *Runner) Aggregates() bool { return r.module.Describe().Kinds&plugin.KindAggregate != 0 }

// MemoryPages returns how many pages of 64 KiB an instance may have.
func (r *Runner) MemoryPages() uint32 { return r.module.Limits().MemoryPages }

// Outcome is what a plugin answered and used.
type Outcome struct {
	Groups []wire.Group // of an aggregate, by key
	Kept   []int        // of a filter: the records that it keeps
	Usage  wasmhost.Usage
	// Undeclared: two instances that were merged have other last bits, and the module does not say
	// in its flags that this may be.
	Undeclared bool
	// Fuel and time of one record in full batches of these; NaN where they could not be measured.
	FuelPerRecord, NsPerRecord float64
}

// Run runs the module over records.
func (r *Runner) Run(
	ctx context.Context, b *record.Batch, params []byte, by record.GroupBy,
) (out Outcome, err error) {
	if r.Aggregates() {
		err = r.aggregate(ctx, b, params, by, &out)
	} else {
		err = r.filter(ctx, b, params, &out)
	}
	if err == nil {
		out.FuelPerRecord, out.NsPerRecord = r.measure(ctx, b, params)
	}
	return out, err
}

func (r *Runner) filter(
	ctx context.Context, b *record.Batch, params []byte, out *Outcome,
) error {
	f, err := r.module.NewFilter(ctx, params)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	keep := make([]uint64, (b.Len()+63)/64)
	if err := f.Keep(ctx, b, keep); err != nil {
		return err
	}
	out.Usage = f.Usage()
	for i := range b.Len() {
		if keep[i/64]>>(i%64)&1 != 0 {
			out.Kept = append(out.Kept, i)
		}
	}
	return nil
}

// groupKey is the parts of a key that are grouped by; the others are 0.
type groupKey struct {
	cid, moid int32
	mid, cap  int64
}

func (g groupKey) compare(o groupKey) int {
	return cmp.Or(cmp.Compare(g.cid, o.cid), cmp.Compare(g.mid, o.mid),
		cmp.Compare(g.moid, o.moid), cmp.Compare(g.cap, o.cap))
}

func keyOf(k record.Key, by record.GroupBy, cal *calendar.Calendar) (g groupKey) {
	if by.CID {
		g.cid = k.CID
	}
	if by.MID {
		g.mid = k.MID
	}
	if by.MOID {
		g.moid = k.MOID
	}
	if width := by.CapBucketNs; width > 0 {
		g.cap = k.CapNs - (k.CapNs%width+width)%width
	}
	if cal != nil {
		g.cap, _ = cal.Window(k.CapNs)
	}
	return g
}

// part is an instance and the groups that it met.
type part struct {
	guest  *wasmhost.Aggregate
	cal    *calendar.Calendar // nil where groups have no window
	links  bool               // states with their predecessors
	ids    map[groupKey]uint32
	keys   []groupKey
	counts []uint64
}

func (r *Runner) newPart(
	ctx context.Context, params []byte, by record.GroupBy,
) (p *part, err error) {
	p = &part{ids: map[groupKey]uint32{},
		links: r.module.Describe().Flags&plugin.FlagLinksPredecessors != 0}
	if by.Window != (record.Window{}) {
		if p.cal, err = calendar.New(by.Window); err != nil {
			return nil, err
		}
	}
	p.guest, err = r.module.NewAggregate(ctx, params)
	return p, err
}

func (p *part) id(k groupKey) uint32 {
	id, ok := p.ids[k]
	if !ok {
		id = uint32(len(p.keys))
		p.ids[k], p.keys, p.counts = id, append(p.keys, k), append(p.counts, 0)
	}
	return id
}

func (p *part) add(ctx context.Context, b *record.Batch, by record.GroupBy) error {
	gid := make([]uint32, b.Len())
	for i := range gid {
		gid[i] = p.id(keyOf(b.Key(i), by, p.cal))
		p.counts[gid[i]]++
	}
	return p.guest.Add(ctx, b, gid, len(p.keys))
}

// linkPredecessors gives each group its predecessor, if the module needs that.
func (p *part) linkPredecessors(ctx context.Context) error {
	if !p.links {
		return nil
	}
	order := slices.SortedFunc(slices.Values(p.keys), groupKey.compare)
	var links []wasmhost.Link
	for i := 1; i < len(order); i++ {
		a, b := order[i-1], order[i]
		if a.cap = b.cap; a == b {
			links = append(links, wasmhost.Link{Group: p.ids[order[i]],
				Predecessor: p.ids[order[i-1]]})
		}
	}
	return p.guest.LinkPredecessors(ctx, links)
}

// finish returns the groups by key.
func (p *part) finish(ctx context.Context) ([]wire.Group, error) {
	if err := p.linkPredecessors(ctx); err != nil {
		return nil, err
	}
	results, err := p.guest.Finish(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]wire.Group, len(p.keys))
	for i, k := range p.keys {
		out[i] = wire.Group{CID: k.cid, MID: k.mid, MOID: k.moid, CapNs: k.cap,
			Records: p.counts[i], Result: results[i]}
	}
	slices.SortFunc(out, func(a, b wire.Group) int {
		return cmp.Or(cmp.Compare(a.CID, b.CID), cmp.Compare(a.MID, b.MID),
			cmp.Compare(a.MOID, b.MOID), cmp.Compare(a.CapNs, b.CapNs))
	})
	return out, nil
}

// aggregate runs everything in one instance, and in two that are merged, as a node may.
func (r *Runner) aggregate(
	ctx context.Context, b *record.Batch, params []byte, by record.GroupBy, out *Outcome,
) error {
	if b.Len() == 0 {
		return nil
	}
	whole, err := r.newPart(ctx, params, by)
	if err != nil {
		return err
	}
	defer func() { _ = whole.guest.Close() }()
	if err := whole.add(ctx, b, by); err != nil {
		return err
	}
	if out.Groups, err = whole.finish(ctx); err != nil {
		return err
	}
	out.Usage = whole.guest.Usage()
	merged, err := r.merged(ctx, b, params, by)
	if err != nil {
		return fmt.Errorf("in two instances that are merged: %w", err)
	}
	differ, err := r.compare(out.Groups, merged)
	out.Undeclared = differ && r.module.Describe().Flags&(plugin.FlagMergeOrdered|
		plugin.FlagDependsOnBatches) == 0
	return err
}

func (r *Runner) merged(
	ctx context.Context, b *record.Batch, params []byte, by record.GroupBy,
) ([]wire.Group, error) {
	first, second := *b.Head(b.Len() / 2), record.Batch{}
	for i := b.Len() / 2; i < b.Len(); i++ {
		second.AppendRow(b, i)
	}
	var parts [2]*part
	for i, rows := range []*record.Batch{&first, &second} {
		p, err := r.newPart(ctx, params, by)
		if err != nil {
			return nil, err
		}
		defer func() { _ = p.guest.Close() }()
		if parts[i] = p; rows.Len() > 0 {
			if err := p.add(ctx, rows, by); err != nil {
				return nil, err
			}
		}
	}
	states, err := parts[1].guest.States(ctx)
	if err != nil {
		return nil, err
	}
	gid := make([]uint32, len(parts[1].keys))
	for i, k := range parts[1].keys {
		gid[i] = parts[0].id(k)
		parts[0].counts[gid[i]] += parts[1].counts[i]
	}
	if err := parts[0].guest.Merge(ctx, states, gid); err != nil {
		return nil, err
	}
	return parts[0].finish(ctx)
}

// MergeError says that a plugin has another answer when its states are merged.
type MergeError struct{ Detail string }

// Error implements error.
func (e *MergeError) Error() string { return "pentad_merge: " + e.Detail }

// nearly is how far sums of floating-point numbers may lie apart that were made in another order.
const nearly = 1e-9

// compare holds the groups of one instance against those of two that were merged, and reports
// whether they differ, in their last bits.
func (r *Runner) compare(one, two []wire.Group) (differ bool, err error) {
	for i := range one {
		a, b := one[i].Result, two[i].Result
		if bytes.Equal(a, b) {
			continue
		}
		differ = true
		left, err := r.Doc.Render(a)
		if err != nil {
			return differ, err
		}
		right, err := r.Doc.Render(b)
		if err != nil {
			return differ, err
		}
		for f := range min(len(left), len(right)) {
			if !near(left[f].Value, right[f].Value) {
				return differ, &MergeError{fmt.Sprintf("%s of group %d is %v in one instance and "+
					"%v in two that are merged", left[f].Name, i+1, left[f].Value, right[f].Value)}
			}
		}
	}
	return differ, nil
}

func near(a, b any) bool {
	list, isList := a.([]any)
	other, both := b.([]any)
	if isList && both && len(list) == len(other) {
		for i := range list {
			if !near(list[i], other[i]) {
				return false
			}
		}
		return true
	}
	x, isFloat := a.(float64)
	y, bothFloat := b.(float64)
	if isFloat && bothFloat {
		return x == y || math.IsNaN(x) && math.IsNaN(y) ||
			!math.IsInf(x-y, 0) && math.Abs(x-y) <= nearly*max(math.Abs(x), math.Abs(y))
	}
	return fmt.Sprint(a) == fmt.Sprint(b)
}

const (
	measureRows = 4096
	measureFor  = 50 * time.Millisecond
)

// measure returns fuel and time of a record in full batches of these records: the shortest time of
// many, for others may use the processor, too.
func (r *Runner) measure(
	ctx context.Context, b *record.Batch, params []byte,
) (fuel, ns float64) {
	if b.Len() == 0 {
		return math.NaN(), math.NaN()
	}
	var full record.Batch
	for i := range max(measureRows, b.Len()) {
		full.AppendRow(b, i%b.Len())
	}
	use, err := r.user(ctx, params, full.Len())
	if err == nil {
		defer use.close()
		err = use.call(ctx, &full) // makes space
	}
	before, calls, best := use.usage().FuelUsed, 0, time.Duration(math.MaxInt64)
	for began := time.Now(); err == nil && time.Since(began) < measureFor; calls++ {
		start := time.Now()
		err = use.call(ctx, &full)
		best = min(best, time.Since(start))
	}
	if err != nil { // it may refuse many equal records
		return math.NaN(), math.NaN()
	}
	rows := float64(full.Len())
	return float64(use.usage().FuelUsed-before) / rows / float64(calls),
		float64(best.Nanoseconds()) / rows
}

// instance is what a filter and an aggregate have in common.
type instance struct {
	call  func(ctx context.Context, b *record.Batch) error
	usage func() wasmhost.Usage
	close func() error
}

// user makes an instance that gets the same rows of one group repeatedly.
func (r *Runner) user(ctx context.Context, params []byte, rows int) (instance, error) {
	none := instance{usage: func() wasmhost.Usage { return wasmhost.Usage{} }}
	if r.Aggregates() {
		a, err := r.module.NewAggregate(ctx, params)
		if err != nil {
			return none, err
		}
		gid := make([]uint32, rows)
		add := func(ctx context.Context, b *record.Batch) error { return a.Add(ctx, b, gid, 1) }
		return instance{add, a.Usage, a.Close}, nil
	}
	f, err := r.module.NewFilter(ctx, params)
	if err != nil {
		return none, err
	}
	keep := make([]uint64, (rows+63)/64)
	call := func(ctx context.Context, b *record.Batch) error { return f.Keep(ctx, b, keep) }
	return instance{call, f.Usage, f.Close}, nil
}
