package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// list keeps the first bytes of payloads.
type list struct{ seen []byte }

type lists struct{ limit int }

func (*lists) Describe() Description {
	return Description{Doc: plugin.Doc{Name: "list"}, Flags: plugin.FlagMergeOrdered,
		Need: plugin.NeedGID | plugin.NeedData | plugin.NeedOffsets}
}

func (*lists) Init(Params) error { return nil }

func (*lists) Reset(s *list) { s.seen = []byte{'<'} }

func (*lists) Add(b *Batch, states States[list]) error {
	for i, g := range b.GID {
		s := states.At(g)
		s.seen = append(s.seen, b.Payload(i)...)
	}
	return nil
}

func (*lists) Save(s *list, dst []byte) ([]byte, error) { return append(dst, s.seen[1:]...), nil }

func (l *lists) Load(s *list, src []byte) error {
	if len(src) > l.limit {
		return &Error{plugin.StatusPayload, "too long"}
	}
	s.seen = append(s.seen, src...)
	return nil
}

func (*lists) Finish(s *list, dst []byte) ([]byte, error) {
	if len(s.seen) > 100 {
		return nil, errors.New("long")
	}
	return append(dst, s.seen...), nil
}

func newLists() *module {
	m, l := &module{}, &lists{limit: 64}
	m.setGrowing(newGrowing[list](l), l)
	return m
}

// A life of two instances whose states own memory.
func TestGrowingLife(t *testing.T) {
	m := newLists()
	d := m.memory.view(m.descriptor(), plugin.DescriptorSize)
	if flags := binary.LittleEndian.Uint32(d[32:]); flags != plugin.FlagGrows|
		plugin.FlagMergeOrdered || d[16] != 4 || d[20] != 4 {
		t.Errorf("descriptor %x", d)
	}
	array := m.memory.alloc(64)
	m.states.reset(m.array(array, 2))
	for range 2 {
		if status := m.add(give(t, m, "batch"), array); status != 0 {
			t.Fatalf("%d: %s", status, m.text)
		}
	}
	out := m.memory.alloc(64)
	want := "\x0a\x0b\x14\x15\x16\x0a\x0b\x14\x15\x16"
	if n := m.save(array, out, 64); n != 10 || string(m.memory.view(out, 10)) != want {
		t.Errorf("saved %d bytes, %x", n, m.memory.view(out, 64))
	}
	if n := m.save(array, out, 9); n != plugin.StatusCapacity {
		t.Errorf("10 bytes saved into 9: %d", n)
	}

	other := newLists()
	// The host moves states about by their bytes, here into the reverse order.
	states := other.memory.alloc(64)
	other.states.reset(other.array(states, 3))
	slices.Reverse(cells[uint32](other.array(states, 3)))
	in := other.memory.alloc(128)
	copy(other.memory.view(in, 10), want)
	for range 2 {
		if status := other.load(states, in, 10); status != 0 {
			t.Fatal(status)
		}
	}
	if status := other.load(states, in, 65); status != plugin.StatusPayload {
		t.Errorf("65 bytes loaded: %d", status)
	}
	if n := other.finish(states, 1, out, 0); n != plugin.StatusCapacity {
		t.Errorf("a result without room: %d", n)
	}
	to := other.memory.alloc(64)
	n := other.finish(states, 1, to, 64)
	if got := other.memory.view(to, 64); n != 28 || string(got[4:25]) != "<"+want+want {
		t.Errorf("finished %d bytes, %x", n, got)
	}
	if n := other.finish(states+4, 1, to, 64); n != 8 || other.memory.view(to, 64)[4] != '<' {
		t.Errorf("an empty state gives %d bytes", n)
	}
	if status := other.merge(states, states, 1); status != plugin.StatusUnsupported {
		t.Errorf("merged: %d", status)
	}
	if status := newModule(fixedSum()).save(0, 0, 0); status != plugin.StatusUnsupported {
		t.Errorf("states of one size are saved: %d", status)
	}
}

// chained are sums, each of which has its predecessor in it.
type chained struct{ *sum }

func (chained) LinkPredecessor(s, predecessor *total) error {
	if predecessor.n < 0 {
		return errors.New("below nothing")
	}
	s.n += predecessor.n
	return nil
}

// tailed are lists, each of which has its predecessor behind it.
type tailed struct{ *lists }

func (tailed) LinkPredecessor(s, predecessor *list) error {
	s.seen = append(s.seen, predecessor.seen...)
	return nil
}

func TestLinkPredecessor(t *testing.T) {
	m, c := &module{}, chained{fixedSum()}
	m.setAggregate(newStates[total](c), c)
	d := m.memory.view(m.descriptor(), plugin.DescriptorSize)
	if flags := binary.LittleEndian.Uint32(d[32:]); flags != plugin.FlagLinksPredecessors {
		t.Errorf("flags %d", flags)
	}
	array := m.memory.alloc(64)
	states := cells[total](m.array(array, 2))
	states[0].n, states[1].n = 40, 2
	status := m.linkPredecessor(array+8, array)
	if status != 0 || states[1].n != 42 || states[0].n != 40 {
		t.Errorf("status %d, states %v", status, states)
	}
	states[0].n = -1
	status = m.linkPredecessor(array+8, array)
	if status != statusOwn || string(m.text) != "below nothing" {
		t.Errorf("status %d, %s", status, m.text)
	}

	g, l := &module{}, tailed{&lists{}}
	g.setGrowing(newGrowing[list](l), l)
	d = g.memory.view(g.descriptor(), plugin.DescriptorSize)
	if flags := binary.LittleEndian.Uint32(d[32:]); flags !=
		plugin.FlagLinksPredecessors|plugin.FlagGrows|plugin.FlagMergeOrdered {
		t.Errorf("flags %d", flags)
	}
	at := g.memory.alloc(64)
	g.states.reset(g.array(at, 2))
	if status := g.linkPredecessor(at, at+4); status != 0 {
		t.Error(status)
	}
	out := g.memory.alloc(64)
	if n := g.save(at, out, 64); n != 1 || g.memory.view(out, 1)[0] != '<' {
		t.Errorf("%d bytes, %x", n, g.memory.view(out, 64))
	}
	if status := newLists().linkPredecessor(0, 0); status != plugin.StatusUnsupported {
		t.Errorf("states that link no predecessors are linked: %d", status)
	}
}

// A text that was appended is taken again, and nothing is taken that lies beyond the end.
func FuzzTakeText(f *testing.F) {
	f.Add(AppendText(AppendText(nil, []byte("12345678")), []byte("abc")))
	f.Add(binary.LittleEndian.AppendUint64(nil, 1<<64-1))
	f.Add(append(binary.LittleEndian.AppendUint64(nil, 1), 0))
	f.Fuzz(func(t *testing.T, src []byte) {
		text, rest, ok := TakeText(src)
		if !ok {
			return
		}
		whole := AppendText(nil, text)
		if len(whole)+len(rest) != len(src) || !bytes.HasPrefix(src, whole[:8+len(text)]) {
			t.Errorf("%x is %x and %x", src, text, rest)
		}
	})
}
