package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// planned is what a planner does about data group 1 of four nodes in zones of their own, three of
// which hold it: a word for each move of a command, or of the leadership.
type planned struct {
	*sim
	voters []Replica // the leader's is the last
	free   NodeID    // holds nothing
}

func newPlanned(t *testing.T) *planned {
	p := &planned{sim: newSim(t, rand.New(rand.NewPCG(1, 17)), 1)}
	for i := 2; i <= 3; i++ {
		must(t, p.state, &PutNode{testNode(i, string(rune('a'+i)))})
	}
	p.settle()
	p.free = 4
	must(t, p.state, &PutNode{testNode(4, "d")})
	must(t, p.state, &SetNodeState{Node: 4, State: NodeUp})
	p.voters = p.state.View().Voters(1)
	p.groups[1].leader = p.voters[2].Node
	return p
}

// start begins to replace a voter, or with -1 none, by the free node; its learner has caught up or
// not.
func (p *planned) start(remove int, caughtUp bool) {
	plan := &StartPlan{ID: 1, Group: 1, Epoch: p.state.groups[1].Epoch, Add: p.free}
	if remove >= 0 {
		plan.Remove = p.voters[remove].ID
	}
	replica := must(p.t, p.state, plan).Replica
	p.groups[1].learners[replica] = p.free
	p.groups[1].caughtUp[replica] = caughtUp
	if !caughtUp {
		delete(p.groups[1].caughtUp, replica)
	}
}

func (p *planned) want(want string) {
	p.t.Helper()
	got := ""
	for _, m := range NextMoves(p.state.View(), p.health(), PlanOptions{}).Moves {
		if m.Group == 1 && m.Command == nil {
			got += "transfer "
		} else if m.Group == 1 {
			got += fmt.Sprintf("%T ", m.Command)[len("*cluster."):]
		}
	}
	if got != want {
		p.t.Errorf("did %q, want %q", got, want)
	}
}

func TestWhenAGroupMaySwap(t *testing.T) {
	f := func(remove int, caughtUp bool, want string, down ...int) {
		t.Helper()
		p := newPlanned(t)
		p.start(remove, caughtUp)
		for _, i := range down {
			p.silent[p.voters[i].Node] = time.Minute // within the grace
		}
		p.want(want)
	}
	f(0, true, "SwapPlan ")
	f(0, false, "")            // the learner lacks something
	f(2, true, "transfer ")    // the leader goes
	f(0, true, "SwapPlan ", 0) // who goes is down
	f(0, true, "", 1)          // the new one could not be lost on the way
	f(0, true, "", 0, 1)       // no quorum
	f(0, false, "", 1)         // wait: it may come back
	f(2, true, "SwapPlan ", 2) // also when it led: consensus has chosen another, or will
	f(2, true, "", 2, 0)       // and has not, without a quorum
}

// A leadership that one voter does not take is offered to the other one after some rounds.
func TestALeadershipIsOfferedToAll(t *testing.T) {
	p := newPlanned(t)
	p.start(2, true)
	var offered []NodeID
	for round := range uint64(3 * offerRounds) {
		moves := NextMoves(p.state.View(), p.health(), PlanOptions{Round: round}).Moves
		for _, m := range moves {
			if m.Group == 1 && m.Leader != p.voters[2].Node {
				t.Fatalf("node %v is asked to hand over, node %v leads", m.Leader, p.voters[2].Node)
			}
			if m.Group == 1 && (len(offered) == 0 || offered[len(offered)-1] != m.Transfer) {
				offered = append(offered, m.Transfer)
			}
		}
	}
	want := []NodeID{p.voters[0].Node, p.voters[1].Node, p.voters[0].Node}
	if !slices.Equal(offered, want) {
		t.Errorf("offered to %v, want %v", offered, want)
	}
}

// A replica that its node does not trust gets a new one on the same node, where a quorum of others
// answers; one that leads hands over first.
func TestADistrustedReplicaIsReplaced(t *testing.T) {
	f := func(broken int, want string, down ...int) {
		t.Helper()
		p := newPlanned(t)
		r := p.voters[broken]
		p.distrusted = map[ReplicaID]bool{r.ID: true}
		for _, i := range down {
			p.silent[p.voters[i].Node] = time.Minute
		}
		p.want(want)
		for _, m := range NextMoves(p.state.View(), p.health(), PlanOptions{}).Moves {
			if c, ok := m.Command.(*StartPlan); ok && (c.Add != r.Node || c.Remove != r.ID) {
				t.Errorf("replica %v is replaced by %+v", r, c)
			}
		}
	}
	f(0, "StartPlan ")
	f(2, "transfer ")
	f(0, "", 1)    // no quorum without it
	f(0, "", 0)    // its node does not answer
	f(0, "", 1, 2) // nothing to make it from
	p := newPlanned(t)
	r := p.voters[0]
	p.distrusted = map[ReplicaID]bool{r.ID: true}
	p.free = r.Node
	p.start(0, true)
	p.want("SwapPlan ")
	must(t, p.state, &SwapPlan{1})
	must(t, p.state, &FinishPlan{1})
	on, _ := p.state.View().ReplicaOn(1, r.Node)
	if got := p.state.View().Voters(1); len(got) != 3 || on.ID <= r.ID || on.Learner {
		t.Errorf("%v is on the node, in %v", on, got)
	}
	if _, err := ParseState(p.state.AppendSnapshot(nil)); err != nil {
		t.Error(err)
	}
}

func TestACopyNotTrustedMeanwhileComesFirst(t *testing.T) {
	p := newPlanned(t)
	p.start(0, false)
	p.distrusted = map[ReplicaID]bool{p.voters[1].ID: true}
	p.want("AbortPlan ")
	must(t, p.state, &AbortPlan{1})
	p.want("StartPlan ") // for that one
	moves := NextMoves(p.state.View(), p.health(), PlanOptions{}).Moves
	start, ok := moves[len(moves)-1].Command.(*StartPlan)
	if !ok || start.Remove != p.voters[1].ID {
		t.Errorf("it goes on with %+v", moves)
	}
}

func TestACopyLostMeanwhileComesFirst(t *testing.T) {
	p := newPlanned(t)
	p.start(0, false)
	p.silent[p.voters[1].Node] = time.Hour
	p.want("AbortPlan ")
	must(t, p.state, &AbortPlan{1})
	p.want("StartPlan ")
	p = newPlanned(t)
	p.start(1, false)
	p.silent[p.voters[1].Node] = time.Hour
	p.want("") // it is what the plan replaces
	p.silent[p.free] = time.Hour
	p.want("AbortPlan ")
	p = newPlanned(t)
	p.start(-1, true)
	p.want("SwapPlan ")
	p.silent[p.voters[1].Node] = time.Minute
	p.want("") // two of four would be left if the new one were lost, too
	p.silent[p.voters[1].Node] = time.Hour
	p.want("AbortPlan ")
	must(t, p.state, &AbortPlan{1})
	p.want("StartPlan ")
}

// A copy that answers on a node that is removed was replaced before one that is lost, given up for
// that one, and replaced again, for ever.
func TestALostCopyComesBeforeOneThatAnswers(t *testing.T) {
	for lost := range 2 {
		p := newPlanned(t)
		must(t, p.state, &PutNode{testNode(5, "e")})
		must(t, p.state, &SetNodeState{Node: 5, State: NodeUp})
		p.silent[p.voters[lost].Node] = time.Hour
		for i := range 2 {
			must(t, p.state, &SetNodeState{Node: p.voters[i].Node, State: NodeRemoving})
		}
		o := NextMoves(p.state.View(), p.health(), PlanOptions{})
		var begun []ReplicaID
		for _, m := range o.Moves {
			if c, ok := m.Command.(*StartPlan); ok && m.Group == 1 {
				begun = append(begun, c.Remove)
			}
		}
		if len(begun) != 1 || begun[0] != p.voters[lost].ID {
			t.Errorf("replaces %v of %v, whose copy %d is lost", begun, p.voters, lost)
		}
	}
}

func TestWhenAPlanMayStart(t *testing.T) {
	f := func(want string, change func(p *planned)) {
		t.Helper()
		p := newPlanned(t)
		change(p)
		p.want(want)
	}
	drain := func(p *planned, i int) {
		must(t, p.state, &SetNodeState{Node: p.voters[i].Node, State: NodeDraining, Fewer: true})
	}
	f("", func(*planned) {})
	f("StartPlan ", func(p *planned) { drain(p, 0) })
	f("", func(p *planned) { // no one can take it now
		drain(p, 0)
		p.silent[p.free] = time.Minute
	})
	f("", func(p *planned) { // the new one could not be lost on the way
		drain(p, 0)
		p.silent[p.voters[1].Node] = time.Minute
	})
	leave := func(p *planned) {
		must(t, p.state, &SetNodeState{Node: p.free, State: NodeRemoving})
		must(t, p.state, &SetNodeState{Node: p.free, State: NodeLeft})
	}
	f("StartPlan ", func(p *planned) { // two are left, which is all there are
		leave(p)
		drain(p, 0)
	})
	f("transfer ", func(p *planned) {
		leave(p)
		drain(p, 2)
	})
	f("", func(p *planned) { // one of two would be left
		leave(p)
		drain(p, 0)
		p.silent[p.voters[1].Node] = time.Minute
	})
}

// A group of which no leader is heard, as in an election, is not said to have no quorum.
func TestAnElectionIsNotBlocked(t *testing.T) {
	p := newPlanned(t)
	must(t, p.state, &SetNodeState{Node: p.voters[0].Node, State: NodeDraining, Fewer: true})
	h := p.health()
	h.Groups[1] = GroupHealth{}
	o := NextMoves(p.state.View(), h, PlanOptions{})
	waits := ""
	for _, c := range o.Changes {
		if c.Group == 1 {
			waits += c.Waits
		}
	}
	if len(o.Blocked) > 0 || waits != "no leader of the group answers" {
		t.Errorf("waits: %q, blocked: %q", waits, o.Blocked)
	}
}

// TestChangesSayWhatTheyWaitFor has more to do than may be done at a time.
func TestChangesSayWhatTheyWaitFor(t *testing.T) {
	s := newSim(t, rand.New(rand.NewPCG(1, 19)), 8)
	must(t, s.state, &PutNode{testNode(2, "b")})
	must(t, s.state, &SetNodeState{Node: 2, State: NodeUp})
	f := func(copies uint32, want int) {
		t.Helper()
		must(t, s.state, &SetLimits{Limits{Copies: copies}})
		o := NextMoves(s.state.View(), s.health(), PlanOptions{})
		begin := 0
		for _, c := range o.Changes {
			if begin += count(c.Waits == ""); c.Waits != "" && !strings.Contains(c.Waits,
				fmt.Sprintf("takes in %d copies at a time", copies)) {
				t.Errorf("waits: %q", c.Waits)
			}
		}
		if starts := len(o.Moves); starts != want || begin != want || len(o.Changes) != 9 {
			t.Errorf("%d copies at a time: %d begin, %d of %d wait for nothing", copies, starts,
				begin, len(o.Changes))
		}
	}
	f(1, 1)
	f(4, 4)
	f(64, 9)
	s.silent[2] = time.Second
	for _, c := range NextMoves(s.state.View(), s.health(), PlanOptions{}).Changes {
		if !strings.Contains(c.Waits, "does not answer") {
			t.Errorf("waits: %q", c.Waits)
		}
	}
}

// TestLostGroups are named, and nothing is done to them.
func TestLostGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 15))
	s := newSim(t, r, 1)
	for i := 2; i <= 3; i++ {
		must(t, s.state, &PutNode{testNode(i, string(rune('a'+i%3)))})
	}
	s.settle()
	f := func(want string, dead ...NodeID) {
		t.Helper()
		for _, id := range dead {
			s.silent[id] = time.Hour
		}
		o := NextMoves(s.state.View(), s.health(), PlanOptions{})
		for _, m := range o.Moves {
			if m.Command != nil {
				t.Errorf("%v dead: %+v", dead, m)
			}
		}
		if !strings.Contains(o.String(), want) {
			t.Errorf("%v dead: no %q in\n%v", dead, want, o)
		}
	}
	f("no node can take its place", 3)
	must(t, s.state, &PutNode{testNode(4, "d")})
	must(t, s.state, &SetNodeState{Node: 4, State: NodeUp})
	f("1 of its 3 voters answer its leader, which is no quorum", 2, 3)
}

// smallGroups is a cluster of two nodes that hold a copy of each group, and of two that hold none.
func smallGroups(t *testing.T) *sim {
	s := newSim(t, rand.New(rand.NewPCG(1, 20)), 1)
	must(t, s.state, &PutNode{testNode(2, "b")})
	s.settle()
	for i := 3; i <= 4; i++ {
		must(t, s.state, &PutNode{testNode(i, string(rune('a'+i)))})
		must(t, s.state, &SetNodeState{Node: NodeID(i), State: NodeUp})
	}
	return s
}

// A group of two replaced a copy that answers, and stopped for ever when the node of the new copy
// died before the group began: a place for the third copy was known, but its node took no copy
// then, or the copy that answers was on a node that is to be removed.
func TestASmallGroupGetsItsMissingCopiesFirst(t *testing.T) {
	f := func(state NodeState, leaves, waits NodeID) (waited bool) {
		t.Helper()
		s := smallGroups(t)
		must(t, s.state, &SetNodeState{Node: leaves, State: state})
		if waits != 0 {
			s.silent[waits] = time.Second
		}
		o := NextMoves(s.state.View(), s.health(), PlanOptions{})
		for _, c := range o.Changes {
			waited = waited || c.Waits == "the group gets its missing copies first"
			if c.Waits == "" && c.Remove != 0 {
				t.Errorf("node %v is %v, node %v does not answer: begins with %+v", leaves, state,
					waits, c)
			}
		}
		return waited
	}
	for leaves := range NodeID(2) {
		f(NodeDraining, leaves+1, 0)
		f(NodeRemoving, leaves+1, 0)
		for _, state := range []NodeState{NodeDraining, NodeRemoving} {
			if a, b := f(state, leaves+1, 3), f(state, leaves+1, 4); !a && !b {
				t.Errorf("node %v is %v: no change waits for the third copy", leaves+1, state)
			}
		}
	}
}

// The node of a new copy dies when the command to swap it in is on its way, and does not come back.
func TestANewCopyIsLostAsItsGroupSwaps(t *testing.T) {
	for _, state := range []NodeState{NodeDraining, NodeRemoving} {
		s := smallGroups(t)
		must(t, s.state, &PutNode{testNode(5, "f")})
		must(t, s.state, &SetNodeState{Node: 5, State: NodeUp})
		must(t, s.state, &SetNodeState{Node: 1, State: state})
		lost := NodeID(0)
		for step := 0; lost == 0; step++ {
			if step == 1000 {
				t.Fatal("no copy comes")
			}
			o := NextMoves(s.state.View(), s.health(), PlanOptions{})
			for _, m := range o.Moves {
				if swap, ok := m.Command.(*SwapPlan); ok && m.Group == 1 {
					lost = s.state.plans[swap.ID].Add
					s.silent[lost] = time.Second
				}
			}
			s.act(o, true)
			s.work() // fails if the group has no quorum
		}
		s.settle()
	}
}

func TestACopyOfASilentNodeIsNotSwappedIn(t *testing.T) {
	p := newPlanned(t)
	p.start(0, true)
	p.want("SwapPlan ")
	p.silent[p.free] = time.Second
	p.want("")
}

// A change that has begun needs a quorum of the voters to come. If it is safe, there is one also
// when the new copy is lost on the way, but in groups of one or two, where that cannot be had.
func TestWhenAChangeIsSafe(t *testing.T) {
	const none, dead, answers = 0, 1, 2
	f := func(want bool, voters, live, removes, added int) {
		t.Helper()
		var group Group
		var h GroupHealth
		for id := range ReplicaID(voters) {
			group.Replicas = append(group.Replicas, Replica{ID: id + 1, Node: NodeID(id + 1)})
			if int(id) >= voters-live {
				h.Live = append(h.Live, id+1)
			}
		}
		p := &planner{view: &View{Groups: []Group{group}}, health: Health{Groups: []GroupHealth{h}}}
		remove := map[int]ReplicaID{dead: 1, answers: ReplicaID(voters)}[removes]
		if got := p.safe(0, remove, added); got != want {
			t.Errorf("%d of %d voters answer, %d is removed, %d added: %v", live, voters, remove,
				added, got)
		}
	}
	f(true, 1, 1, none, 1) // a group begins with one
	f(true, 1, 1, answers, 1)
	f(true, 2, 2, none, 1)
	f(false, 2, 1, none, 1) // no quorum
	f(false, 2, 1, dead, 1)
	f(true, 3, 3, none, 1)
	f(false, 3, 2, none, 1) // two of four would be left
	f(true, 3, 2, dead, 1)
	f(true, 3, 3, answers, 1)
	f(false, 3, 2, answers, 1)
	f(true, 4, 3, none, 1)
	f(true, 4, 3, dead, 1)
	f(false, 5, 3, none, 1)
	f(true, 5, 4, none, 1)
	f(true, 5, 4, answers, 1)
	f(false, 5, 3, answers, 1)
	f(true, 5, 3, dead, 1)
	f(true, 4, 4, answers, 0)
	f(false, 4, 3, answers, 0) // one more could not be lost
	f(true, 4, 3, dead, 0)
	f(true, 3, 3, answers, 0) // two are all that is wanted
	f(true, 3, 2, dead, 0)
	f(true, 2, 2, answers, 0)
	f(false, 1, 1, answers, 0) // none would be left
}
