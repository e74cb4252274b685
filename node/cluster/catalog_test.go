package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/sdk/plugin"
)

func testCursor(name string, acqNs int64) cursors.Cursor {
	return cursors.Cursor{Name: name, AcqNs: acqNs, CommittedNs: 1000}
}

func pushCommand(name, module string) *ChangeCatalog {
	return &ChangeCatalog{Module: []byte(module), Change: catalog.Change{Push: &catalog.Push{
		Name: name, Version: catalog.Version{SHA256: digestOf([]byte(module)),
			Bytes: int64(len(module))}}}}
}

func registerCommand(moid int32, modulus float64) *ChangeCatalog {
	return &ChangeCatalog{Change: catalog.Change{Quantity: &plugin.Quantity{MOID: moid,
		Name: "heat", Type: plugin.F64, Modulus: modulus}}}
}

func quantityCommand(moid int32) *ChangeCatalog {
	return &ChangeCatalog{Change: catalog.Change{Quantity: &plugin.Quantity{MOID: moid,
		Name: "pump", Type: plugin.Struct, Fields: []plugin.QuantityField{
			{Name: "speed", Type: plugin.F32, Offset: 4}}}}}
}

func refOf(name, module string) *catalog.Ref {
	return &catalog.Ref{Name: name, SHA256: digestOf([]byte(module))}
}

func removal(name string) catalog.Change {
	return catalog.Change{Remove: &catalog.Ref{Name: name}}
}

// randomTold returns a command of what people tell.
func randomTold(r *rand.Rand, s *State) Command {
	name, module := fmt.Sprint("n", r.IntN(4)), fmt.Sprint("module ", r.IntN(3))
	moid := r.Int32N(4)
	switch r.IntN(8) {
	case 0, 1:
		return pushCommand(name, module)
	case 2:
		return &ChangeCatalog{Change: catalog.Change{Promote: refOf(name, module)}}
	case 3:
		gone := refOf(name, module)
		if r.IntN(3) == 0 {
			gone.SHA256 = ""
		}
		return &ChangeCatalog{Change: catalog.Change{Remove: gone}}
	case 4:
		if r.IntN(2) == 0 {
			return registerCommand(moid, 1e5)
		}
		return quantityCommand(moid)
	case 5:
		return &ChangeCatalog{Change: catalog.Change{Forget: &moid}}
	case 6:
		c := testCursor(name, int64(s.cursors[name].AcqNs)+r.Int64N(9)-3)
		c.Question = []string{"", "one", "two"}[r.IntN(3)]
		return &CommitCursor{Cursor: c, Force: r.IntN(4) == 0}
	default:
		return &DropCursor{name}
	}
}

func TestCursorsOnlyMoveForward(t *testing.T) {
	m := NewMeta(NewState())
	s := m.state
	must(t, s, testCreate(1, 1))
	one := must(t, s, &CommitCursor{Cursor: testCursor("bills", 10)}).Version
	two := must(t, s, &CommitCursor{Cursor: testCursor("bills", 10)}).Version
	fails(t, s, &CommitCursor{Cursor: testCursor("bills", 9)}, cursors.ErrBehind)
	if c, err := m.Cursor("bills"); err != nil || c.AcqNs != 10 || two <= one ||
		m.Version() != two {
		t.Fatalf("%+v, %v, versions %d, %d and %d", c, err, one, two, m.Version())
	}
	must(t, s, &CommitCursor{Cursor: testCursor("bills", -5), Force: true})
	must(t, s, &CommitCursor{Cursor: testCursor("audit", 7)})
	all := []cursors.Cursor{testCursor("audit", 7), testCursor("bills", -5)}
	if got := m.Cursors(); !slices.Equal(got, all) {
		t.Fatalf("%+v, want %+v", got, all)
	}
	must(t, s, &DropCursor{"bills"})
	fails(t, s, &DropCursor{"bills"}, cursors.ErrUnknown)
	if _, err := m.Cursor("bills"); !errors.Is(err, cursors.ErrUnknown) {
		t.Error(err)
	}
	for i := range cursors.Max - 1 {
		must(t, s, &CommitCursor{Cursor: testCursor(fmt.Sprint(i), 1)})
	}
	fails(t, s, &CommitCursor{Cursor: testCursor("late", 1)}, cursors.ErrFull)
	must(t, s, &CommitCursor{Cursor: testCursor("audit", 8)})
}

// TestLaterFields reads states with moduli and questions, and those of programs that had none.
func TestLaterFields(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(1, 1))
	must(t, s, registerCommand(7, 0))
	must(t, s, &CommitCursor{Cursor: testCursor("bills", 1)})
	before := len(s.AppendSnapshot(nil))
	c := testCursor("bills", 2)
	c.Question = "one"
	must(t, s, &CommitCursor{Cursor: c})
	must(t, s, registerCommand(7, 1e5))
	snapshot := s.AppendSnapshot(nil)
	read, err := ParseState(snapshot)
	if err != nil || read.catalog.Quantities[7].Modulus != 1e5 ||
		read.cursors["bills"].Question != "one" || len(snapshot) <= before {
		t.Fatalf("%+v, %v", read, err)
	}
	must(t, s, &CommitCursor{Cursor: testCursor("bills", 3)}) // leaves the question as it is
	c.AcqNs, c.Question = 4, "two"
	fails(t, s, &CommitCursor{Cursor: c}, cursors.ErrQuestion)
	must(t, s, &CommitCursor{Cursor: testCursor("bills", 3), Force: true})
	must(t, s, registerCommand(7, 0))
	if after := len(s.AppendSnapshot(nil)); after != before {
		t.Errorf("%d bytes without either, %d before", after, before)
	}
	if r := apply(t, s, registerCommand(7, -1)); r.Err == nil {
		t.Error("a negative modulus")
	}
	c.Question = "no name"
	if b, err := AppendCommand(nil, &CommitCursor{Cursor: c}); err == nil {
		t.Errorf("encoded as %x", b)
	}
}

func TestCatalogue(t *testing.T) {
	m := NewMeta(NewState())
	s := m.state
	must(t, s, testCreate(1, 1))
	before := m.At()
	must(t, s, pushCommand("mine", "one"))
	was := m.Catalog()
	if !before.Before(m.At()) || m.At().Before(before) {
		t.Errorf("%+v became %+v", before, m.At())
	}
	must(t, s, pushCommand("mine", "two"))
	if p := m.Catalog().Plugins["mine"]; len(p.Versions) != 2 || p.Current != 1 {
		t.Errorf("%+v", p)
	}
	if p := was.Plugins["mine"]; len(p.Versions) != 1 {
		t.Errorf("what was taken before has changed: %+v", p)
	}
	promote := &ChangeCatalog{Change: catalog.Change{Promote: refOf("mine", "one")}}
	must(t, s, promote)
	fails(t, s, &ChangeCatalog{Change: catalog.Change{Remove: refOf("mine", "one")}},
		catalog.ErrCurrent)
	must(t, s, &ChangeCatalog{Change: catalog.Change{Remove: &catalog.Ref{Name: "mine"}}})
	fails(t, s, promote, catalog.ErrUnknown)
	must(t, s, quantityCommand(7))
	at := m.At()
	must(t, s, &CommitCursor{Cursor: testCursor("bills", 1)})
	if m.At() != at {
		t.Error("a cursor makes a state newer, and states are sent for what is newer")
	}
	if r := apply(t, s, quantityCommand(-1)); r.Err == nil || r.Changed {
		t.Errorf("%+v", r)
	}
	moid := int32(7)
	must(t, s, &ChangeCatalog{Change: catalog.Change{Forget: &moid}})
}

func TestNewerStatesAreTaken(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(1, 1))
	copied := func() *State {
		c, err := ParseState(s.AppendSnapshot(nil))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	m, old := NewMeta(copied()), copied()
	must(t, s, pushCommand("mine", "one"))
	if !m.Advance(copied()) || m.Advance(old) || m.Advance(copied()) {
		t.Error("a state was taken that is not newer, or one was not that is")
	}
	if len(m.Catalog().Plugins) != 1 {
		t.Errorf("%+v", m.Catalog())
	}
}

func TestPushesBringTheirModules(t *testing.T) {
	f := func(change func(*ChangeCatalog)) {
		t.Helper()
		x := pushCommand("mine", "one")
		change(x)
		if b, err := AppendCommand(nil, x); err == nil {
			t.Errorf("encoded as %x", b)
		}
	}
	f(func(x *ChangeCatalog) { x.Module = []byte("two") })
	f(func(x *ChangeCatalog) { x.Module = nil })
	f(func(x *ChangeCatalog) { x.Push.Bytes++ })
	f(func(x *ChangeCatalog) { *x = *pushCommand("mine", string(make([]byte, maxModuleBytes+1))) })
	f(func(x *ChangeCatalog) { x.Promote = refOf("mine", "one") })
	f(func(x *ChangeCatalog) { x.Push = nil })
}
