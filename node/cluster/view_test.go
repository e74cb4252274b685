package cluster

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/record"
)

func TestGroupsOfDevicesAndBoxes(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(64, 3))
	v := s.View()
	owned := 0
	for group := range v.Data() {
		from, to := v.Span(group)
		owned += int(to - from)
	}
	if owned != slots.Count {
		t.Fatalf("groups own %d slots", owned)
	}
	for mid := range int64(10_000) {
		g := v.GroupOf(3, mid)
		if from, to := v.Span(g); slots.Of(3, mid) < from || slots.Of(3, mid) >= to {
			t.Fatalf("device %d is in group %d", mid, g)
		}
	}
	var box record.Box
	if got := v.GroupsOf(&box); len(got) != 64 || got[0] != 1 || got[63] != 64 {
		t.Fatalf("everything is in groups %v", got)
	}
	box[record.CID] = record.RangeSet{record.At(3)}
	box[record.MID] = record.RangeSet{{From: 200, To: 300}}
	want := []GroupID{v.GroupOf(3, 200), v.GroupOf(3, 299)} // two ranges of 256 devices
	slices.Sort(want)
	if got := v.GroupsOf(&box); !slices.Equal(got, slices.Compact(want)) {
		t.Fatalf("groups %v, want %v", got, want)
	}
}

func TestViewsNeverChange(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 6))
	m := NewMeta(NewState())
	if _, err := m.Apply(encoded(t, testCreate(4, 3))); err != nil {
		t.Fatal(err)
	}
	kept := map[string]*View{}
	for range 700 {
		kept[fmt.Sprintf("%+v", *m.View())] = m.View()
		if _, err := m.Apply(encoded(t, randomCommand(r, m.state))); err != nil {
			t.Fatal(err)
		}
	}
	if len(kept) < 50 {
		t.Fatalf("only %d views", len(kept))
	}
	for text, v := range kept {
		if now := fmt.Sprintf("%+v", *v); now != text {
			t.Fatalf("a view was\n%s\nand is now\n%s", text, now)
		}
	}
}

// TestReadersBesideCommands is for the race detector, and wants epochs to rise for each reader.
func TestReadersBesideCommands(t *testing.T) {
	m := NewMeta(NewState())
	if _, err := m.Apply(encoded(t, testCreate(4, 3))); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			last, at := uint64(0), 0
			for {
				v := m.View()
				if v.Epoch < last || len(v.Groups) < 5 || v.Voters(m.View().GroupOf(1, 2)) == nil {
					t.Errorf("epoch %d after %d", v.Epoch, last)
					return
				}
				last = v.Epoch
				m.Leader(1)
				m.Cursors()
				for _, p := range m.Catalog().Plugins {
					at = max(at, len(p.Versions[p.Current].Owner))
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(1, 7))
	for i := range 2000 {
		if _, err := m.Apply(encoded(t, randomCommand(r, m.state))); err != nil {
			t.Fatal(err)
		}
		m.SetLeader(1, NodeID(i%3))
	}
	close(done)
	wg.Wait()
}

func TestLeaderHintsMustHoldAReplica(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(1, 3))
	must(t, s, &PutNode{testNode(2, "b")})
	must(t, s, &SetNodeState{Node: 2, State: NodeUp})
	must(t, s, &StartPlan{ID: 1, Group: 1, Epoch: 1, Add: 2})
	m := NewMeta(s)
	f := func(hint, want NodeID) {
		t.Helper()
		m.SetLeader(1, hint)
		if got := m.Leader(1); got != want {
			t.Errorf("hint %v: leader %v, want %v", hint, got, want)
		}
	}
	f(0, 1)
	f(9, 1) // holds nothing
	f(2, 1) // a learner
	for _, cmd := range []Command{&SwapPlan{1}, &FinishPlan{1}} {
		if _, err := m.Apply(encoded(t, cmd)); err != nil {
			t.Fatal(err)
		}
	}
	f(2, 2)
}

func TestMetaRestores(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(4, 3))
	a, b := NewMeta(s), NewMeta(NewState())
	if err := b.Restore(a.AppendSnapshot(nil)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.AppendSnapshot(nil), b.AppendSnapshot(nil)) || b.View().DataGroups() != 4 {
		t.Fatal("the copy differs")
	}
	if err := b.Restore([]byte("nothing")); err == nil || b.View().DataGroups() != 4 {
		t.Fatalf("%v, and %d groups", err, b.View().DataGroups())
	}
}

// A view without groups, which a node that joins has at first, has no voters and no replicas.
func TestViewWithoutGroups(t *testing.T) {
	v := &View{}
	if got := v.Voters(MetaGroup); len(got) != 0 {
		t.Errorf("voters: %v, want none", got)
	}
	if r, ok := v.ReplicaOn(MetaGroup, 1); ok {
		t.Errorf("a replica: %v, want none", r)
	}
}
