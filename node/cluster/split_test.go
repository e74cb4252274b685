package cluster

import (
	"bytes"
	"errors"
	"testing"

	"github.com/pentad-db/pentad/node/internal/slots"
)

// A group that is split keeps the lower half of its slots, and neither part moves before the other
// one has begun.
func TestSplitGroup(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(4, 3))
	must(t, s, &PutNode{Node: testNode(2, "b")})
	must(t, s, &SetNodeState{Node: 2, State: NodeUp})
	refuses := func(cmd Command, want error) {
		t.Helper()
		before := s.AppendSnapshot(nil)
		r := apply(t, s, cmd)
		if !errors.Is(r.Err, want) || !bytes.Equal(before, s.AppendSnapshot(nil)) {
			t.Errorf("%T %+v: %v, want %v", cmd, cmd, r.Err, want)
		}
	}
	first := &SplitGroup{Group: 2, Epoch: s.groups[2].Epoch}
	refuses(first, ErrRefused) // at feature level 1
	must(t, s, &RaiseFeature{Level: splitFeature})
	refuses(&SplitGroup{Group: 9, Epoch: 1}, ErrUnknown)
	must(t, s, first)
	refuses(first, ErrStale)
	refuses(&SplitGroup{Group: 5, Epoch: s.groups[5].Epoch}, ErrStale)
	for _, group := range []GroupID{2, 5} {
		refuses(&StartPlan{ID: 7, Group: group, Epoch: s.groups[group].Epoch, Add: 2}, ErrStale)
	}
	f := func(group GroupID, from, to uint32) {
		t.Helper()
		v := s.View()
		if a, b := v.Span(group); a != from || b != to {
			t.Errorf("group %d owns [%d, %d), want [%d, %d)", group, a, b, from, to)
		}
		for slot := from; slot < to; slot++ {
			if g := v.Owners().Group(slot); g != group {
				t.Fatalf("slot %d is of group %d, want group %d", slot, g, group)
			}
		}
	}
	f(2, 4096, 6144)
	f(5, 6144, 8192)
	must(t, s, &EndSplit{Group: 5})
	same(t, s, &EndSplit{Group: 5})
	must(t, s, &SplitGroup{Group: 5, Epoch: s.groups[5].Epoch})
	f(1, 0, 4096)
	f(5, 6144, 7168)
	f(6, 7168, 8192)
	again, err := ParseState(s.AppendSnapshot(nil))
	if err != nil || !bytes.Equal(again.AppendSnapshot(nil), s.AppendSnapshot(nil)) {
		t.Fatalf("a state with splits is not read again: %v", err)
	}
	again.groups[6].Slots = slots.Range{From: 7167, To: 8192}
	if _, err := ParseState(again.AppendSnapshot(nil)); err == nil {
		t.Error("a state whose groups overlap is read")
	}
}

// The planner waits with both parts for the replicas of the one that was split off.
func TestPlanOfSplit(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(2, 1))
	must(t, s, &RaiseFeature{Level: splitFeature})
	must(t, s, &SplitGroup{Group: 1, Epoch: s.groups[1].Epoch})
	must(t, s, &PutNode{Node: testNode(2, "b")})
	must(t, s, &SetNodeState{Node: 2, State: NodeUp})
	h := Health{Groups: make([]GroupHealth, 4)}
	for g := range 3 {
		id := s.groups[g].Replicas[0].ID
		h.Groups[g] = GroupHealth{Leader: 1, Voters: []ReplicaID{id}, Live: []ReplicaID{id}}
	}
	for _, m := range NextMoves(s.View(), h, PlanOptions{}).Moves {
		if m.Group == 1 || m.Group == 3 {
			t.Errorf("before it has begun: %+v", m)
		}
	}
	id := s.groups[3].Replicas[0].ID
	h.Groups[3] = GroupHealth{Leader: 1, Voters: []ReplicaID{id}, Live: []ReplicaID{id}}
	moves := NextMoves(s.View(), h, PlanOptions{}).Moves
	if len(moves) == 0 || moves[0].Command == nil || moves[0].Command.kind() != commandEndSplit {
		t.Errorf("once it has begun: %+v", moves)
	}
}

// A replica that its node does not trust cannot begin, and is replaced only when the split has
// ended; nor can one whose state such a replica of the parent was to leave.
func TestASplitEndsWithoutABrokenReplica(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(1, 3))
	for id, name := range []string{2: "b", 3: "c"} {
		if name != "" {
			must(t, s, &PutNode{Node: testNode(id, name)})
			must(t, s, &SetNodeState{Node: NodeID(id), State: NodeUp})
		}
	}
	for id := range NodeID(3) {
		s.groups[1].Replicas = append(s.groups[1].Replicas[:id:id],
			Replica{ID: 50 + ReplicaID(id), Node: id + 1})
	}
	s.nextReplica = 53
	must(t, s, &RaiseFeature{Level: splitFeature})
	must(t, s, &SplitGroup{Group: 1, Epoch: s.groups[1].Epoch})
	parent, child := s.groups[1].Replicas, s.groups[2].Replicas
	ends := func(why string, of1, of2 []ReplicaID, want bool) {
		t.Helper()
		h := Health{Groups: make([]GroupHealth, 3)}
		h.Groups[1] = GroupHealth{Leader: 1, Live: []ReplicaID{parent[0].ID, parent[1].ID},
			Broken: of1}
		h.Groups[2] = GroupHealth{Leader: 1, Live: []ReplicaID{child[0].ID, child[1].ID},
			Broken: of2}
		got := false
		for _, m := range NextMoves(s.View(), h, PlanOptions{}).Moves {
			got = got || m.Command != nil && m.Command.kind() == commandEndSplit
		}
		if got != want {
			t.Errorf("%s: the split ends: %v", why, got)
		}
	}
	ends("the third has not begun", nil, nil, false)
	ends("it is not trusted", nil, []ReplicaID{child[2].ID}, true)
	ends("its parent is not trusted", []ReplicaID{parent[2].ID}, nil, true)
	ends("another one's parent is not trusted", []ReplicaID{parent[1].ID}, nil, false)
}
