package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
)

// splitGroup is a replica of a group and all that it should hold, as a slice.
type splitGroup struct {
	*testing.T
	opt    Options
	store  *Store
	held   slots.Range
	rows   []modelRow
	events []event.Event
	index  uint64
	floor  int64 // greatest horizon that was seen
}

func (g *splitGroup) open() {
	g.Helper()
	s, _, err := Open(context.Background(), divided(g.T, g.opt))
	if err != nil {
		g.Fatal(err)
	}
	g.store = s
}

func (g *splitGroup) close() {
	g.Helper()
	if err := g.store.Close(); err != nil {
		g.Fatal(err)
	}
}

// apply applies one command.
func (g *splitGroup) apply(clock int64, data []byte) Outcome {
	g.Helper()
	g.index++
	out, err := g.store.Apply(context.Background(), []Command{{g.index, clock, data}})
	if err != nil || len(out) != 1 {
		g.Fatal(err)
	}
	return out[0]
}

func (g *splitGroup) has(r *modelRow) bool {
	return g.held.To == 0 || g.held.Has(r.key.CID, r.key.MID)
}

// put stores rows of any devices: all if the group holds them, or none.
func (g *splitGroup) put(rng *rand.Rand, sh *shape, clock int64) {
	g.Helper()
	b := sh.batch(rng, 1+rng.IntN(30), clock)
	if g.held.To > 0 && rng.IntN(5) > 0 {
		own := &record.Batch{}
		for i := range b.Len() {
			if g.held.Has(b.CID[i], b.MID[i]) {
				own.AppendRows(b, i, i+1)
			}
		}
		if b = own; b.Len() == 0 {
			return
		}
	}
	data, err := commands.AppendPut(nil, b, WriterSeq{ID: [16]byte{1}, Seq: g.index + 1})
	if err != nil {
		g.Fatal(err)
	}
	var rows []modelRow
	for i := range b.Len() {
		rows = append(rows, modelRowOf(b, i))
	}
	all := !slices.ContainsFunc(rows, func(r modelRow) bool { return !g.has(&r) })
	within := g.held
	if rng.IntN(5) == 0 {
		within, all = slots.Range{From: 5, To: 6}, false // of a view that is too old, or too new
	}
	out := g.apply(clock, commands.AppendForSlots(nil, within, data))
	if all != (out.Err == nil) || !all && !errors.Is(out.Err, ErrOtherSlots) {
		g.Fatalf("a put of a group that holds %v: %+v", g.held, out)
	}
	for i := range rows {
		if rows[i].key.AcqNs = out.Put.FirstAcqNs + int64(i); all {
			g.rows = append(g.rows, rows[i])
		}
	}
}

// hide erases or purges, with the slots that the group holds or others.
func (g *splitGroup) hide(rng *rand.Rand, sh *shape, clock int64) {
	g.Helper()
	box := sh.eventBox(rng, &model{rows: g.rows})
	kind, encode := event.Erase, commands.AppendErase
	if rng.IntN(3) == 0 {
		kind, encode = event.Purge, commands.AppendPurge
	}
	data, err := encode(nil, box)
	if err != nil {
		g.Fatal(err)
	}
	within := g.held
	if rng.IntN(4) == 0 {
		within.From, within.To = 5, 5+1+uint32(rng.IntN(9))
	}
	out := g.apply(clock, commands.AppendForSlots(nil, within, data))
	if within != g.held {
		if !errors.Is(out.Err, ErrOtherSlots) {
			g.Fatalf("%v of a group that holds %v, for one with %v: %+v", kind, g.held, within, out)
		}
		return
	}
	if out.Err != nil {
		g.Fatal(out.Err)
	}
	g.events = append(g.events, event.Event{AcqNs: out.AcqNs, Kind: kind, Box: box})
}

// split leaves half of the slots to a child, which it returns.
func (g *splitGroup) split(clock int64, name string) *splitGroup {
	g.Helper()
	held := g.held
	if held.To == 0 {
		held.To = slots.Count
	}
	middle := held.From + (held.To-held.From)/2
	sp := &commands.Split{Keep: slots.Range{From: held.From, To: middle},
		Leave: slots.Range{From: middle, To: held.To}, Child: 7, Group: name}
	data, err := commands.AppendSplit(nil, sp)
	if err != nil {
		g.Fatal(err)
	}
	child := &splitGroup{T: g.T, opt: g.opt, held: sp.Leave, index: g.index, floor: g.floor}
	child.opt.Dir = filepath.Join(g.TempDir(), "child")
	if _, err := g.store.Snapshot(context.Background(), child.opt.Dir); err != nil {
		g.Fatal(err)
	}
	child.open()
	if err := child.store.Inherit(context.Background(), sp); err != nil {
		g.Fatal(err)
	}
	child.close()
	child.opt.Group = name
	child.open()
	for range 2 { // it may come twice
		if out := g.apply(clock, data); out.Err != nil {
			g.Fatal(out.Err)
		}
	}
	if g.store.Slots() != sp.Keep || child.store.Slots() != sp.Leave ||
		child.store.IndexBase() != child.index-1 || child.store.Applied() != child.index {
		g.Fatalf("they hold %v and %v; the child has base %d and applied %d, split after %d",
			g.store.Slots(), child.store.Slots(), child.store.IndexBase(), child.store.Applied(),
			child.index)
	}
	for _, s := range []*Store{g.store, child.store} { // a copy of it must not take it for an erase
		st, err := s.State(context.Background())
		if err != nil || len(st.Events) != len(s.Events()) {
			g.Fatalf("a state has the events %v, want %v; %v", st.Events, s.Events(), err)
		}
	}
	g.held, child.events = sp.Keep, slices.Clone(g.events)
	var own []modelRow
	for _, r := range g.rows {
		if g.has(&r) {
			own = append(own, r)
		} else {
			child.rows = append(child.rows, r)
		}
	}
	g.rows = own
	return child
}

// check compares with the model what the group shows, and what came of it as a feed.
func (g *splitGroup) check(rng *rand.Rand, sh *shape) {
	g.Helper()
	horizon, err := g.store.ExtendHorizon(g.Context())
	if err != nil || horizon < g.floor {
		g.Fatalf("horizon %d, and before it was %d: %v", horizon, g.floor, err)
	}
	g.floor = horizon
	m, what := &model{rows: g.rows, events: g.events}, fmt.Sprint("slots ", g.held)
	q := &record.Query{}
	compare(g, what, scanRows(g, g.store, q), m.query(q))
	q = sh.query(rng, m)
	compare(g, what, scanRows(g, g.store, q), m.query(q))
	checkFeed(g.T, what, rng, g.store, m, record.Box{}, 0)
	if got := plainEvents(g.store.Events()); !maps.Equal(got, plainEvents(m.events)) {
		g.Fatalf("%s: events %v, want %v", what, got, plainEvents(m.events))
	}
}

// change does something random with the group.
func (g *splitGroup) change(rng *rand.Rand, sh *shape, clock int64) {
	g.Helper()
	switch op := rng.IntN(20); {
	case op < 12:
		g.put(rng, sh, clock)
	case op < 14:
		g.hide(rng, sh, clock)
	case op < 16:
		g.apply(clock, commands.AppendHorizon(nil))
	case op < 17:
		if err := g.store.WaitForMerges(g.Context()); err != nil {
			g.Fatal(err)
		}
	case op < 18: // as a killed process leaves it, also in the midst of removing rows
		dir := g.TempDir()
		err := g.store.onCommitter(g.Context(), func() {
			g.store.manifestMu.Lock()
			defer g.store.manifestMu.Unlock()
			copyDir(g, g.opt.Dir, dir)
		})
		if err != nil {
			g.Fatal(err)
		}
		g.close()
		g.opt.Dir = dir
		g.open()
	default:
		g.check(rng, sh)
	}
}

// TestSplitsAgainstSlices holds groups that are split at random moments, and split again, against
// slices of what each should hold.
func TestSplitsAgainstSlices(t *testing.T) {
	rng := randomSource(t)
	sh := &shape{cids: 2, mids: 2000, moids: 2, caps: 20}
	g := &splitGroup{T: t, opt: Options{Dir: t.TempDir(), Group: testGroup, SealRows: 300,
		retainEvery: time.Hour}}
	g.open()
	groups := []*splitGroup{g}
	t.Cleanup(func() {
		for _, g := range groups {
			_ = g.store.Close()
		}
	})
	clock := int64(1)
	for step := range 240 {
		clock += rng.Int64N(1000)
		g := groups[rng.IntN(len(groups))]
		if step%50 == 40 {
			groups = append(groups, g.split(clock, fmt.Sprintf("%032x", step)))
		}
		g.change(rng, sh, clock)
	}
	for _, g := range groups {
		if err := g.store.WaitForMerges(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.check(rng, sh)
		rows := 0
		for _, seg := range g.store.allShards[0].State.Load().Sealed {
			rows += seg.Index.Rows()
		}
		if rows > len(g.rows) { // erased ones are still there
			t.Errorf("slots %v: %d rows on disk, %d are of the group", g.held, rows, len(g.rows))
		}
	}
}

// TestSplitsAreChecked: what no group can do is refused, and changes nothing.
func TestSplitsAreChecked(t *testing.T) {
	f := func(keepFrom, keepTo, leaveFrom, leaveTo uint32, group string, want bool) {
		t.Helper()
		sp := &commands.Split{Keep: slots.Range{From: keepFrom, To: keepTo},
			Leave: slots.Range{From: leaveFrom, To: leaveTo}, Child: 2, Group: group}
		data, err := commands.AppendSplit(nil, sp)
		if (err == nil) != want {
			t.Errorf("%+v: %v", sp, err)
		}
		if got, ok := commands.ParseSplit(data); ok != want || want && *got != *sp {
			t.Errorf("%+v is read as %+v", sp, got)
		}
	}
	f(0, 8, 8, 16, testGroup, true)
	f(8, 16, 0, 8, testGroup, true)
	f(0, 8, 9, 16, testGroup, false) // a hole
	f(0, 8, 8, 8, testGroup, false)
	f(0, 8, 8, slots.Count+1, testGroup, false)
	f(0, 8, 8, 16, "ff", false)
	f(0, 8, 8, 16, "x", false)
}
