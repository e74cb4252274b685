package cluster

import (
	"bytes"
	"testing"
)

// A command that comes again when no answer came does not undo what was done meanwhile, also where
// the state was installed since, and answers as it did.
func TestCommandsAreDoneOnce(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(1, 1))
	for i := 2; i <= 3; i++ {
		must(t, s, &PutNode{testNode(i, "b")})
		must(t, s, &SetNodeState{Node: NodeID(i), State: NodeUp})
	}
	drain := &Idempotent{ID: 5, Command: &SetNodeState{Node: 2, State: NodeDraining}}
	must(t, s, drain)
	push := &Idempotent{ID: 6, Command: pushCommand("mine", "one")}
	version := must(t, s, push).Version
	must(t, s, &Idempotent{ID: 7, Command: &SetNodeState{Node: 2, State: NodeUp}})
	must(t, s, &ChangeCatalog{Change: removal("mine")})
	installed, err := ParseState(s.AppendSnapshot(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*State{s, installed} {
		before := s.AppendSnapshot(nil)
		a, b := must(t, s, drain), must(t, s, push)
		if a.Version != 0 || b.Version != version ||
			!bytes.Equal(before, s.AppendSnapshot(nil)) {
			t.Errorf("%+v, %+v: %+v", a, b, s.View())
		}
	}
}

// What changed nothing is decided when it comes again; and a state knows the newest ids only.
func TestFewCommandsAreKnown(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(1, 1))
	must(t, s, &PutNode{testNode(2, "b")})
	early := &Idempotent{ID: 9, Command: &SetNodeState{Node: 2, State: NodeDraining}}
	fails(t, s, early, ErrRefused)
	must(t, s, &SetNodeState{Node: 2, State: NodeUp})
	must(t, s, early)
	for i := range uint64(maxDone) {
		set := &SetLimits{Limits{Copies: uint32(1 + i%2)}}
		must(t, s, &Idempotent{ID: 100 + i, Command: set})
	}
	if len(s.done) != maxDone || s.done[0].id != 100 {
		t.Errorf("%d are known, the oldest is %d", len(s.done), s.done[0].id)
	}
	if n := len(s.AppendSnapshot(nil)); n > 20<<10 {
		t.Errorf("the state has %d bytes", n)
	}
}

func TestWhatCannotBeSentOnce(t *testing.T) {
	drain := &SetNodeState{Node: 2, State: NodeDraining}
	for _, x := range []*Idempotent{{ID: 1}, {Command: drain}, {ID: 1, Command: testCreate(1, 1)},
		{ID: 1, Command: &Idempotent{ID: 2, Command: drain}},
		{ID: 1, Command: &SetNodeState{Node: 2}}} {
		if b, err := AppendCommand(nil, x); err == nil {
			t.Errorf("%+v was encoded as %x", x, b)
		}
	}
}
