package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// testNode returns a core node with the number n.
func testNode(n int, zone string) Node {
	return Node{ID: NodeID(n), Incarnation: 1, Role: RoleCore, Zone: zone, Weight: 100,
		RaftAddr: fmt.Sprintf("10.0.%d.%d:5151", n>>8, n&255),
		HTTPAddr: fmt.Sprintf("10.0.%d.%d:5150", n>>8, n&255), MinFeature: 1, MaxFeature: 2}
}

func testCreate(groups, replicas int) *Create {
	return &Create{Cluster: ID{15: 7}, Groups: uint32(groups), Replicas: uint32(replicas),
		Feature: 1, First: testNode(1, "a")}
}

func encoded(t testing.TB, cmd Command) []byte {
	t.Helper()
	b, err := AppendCommand(nil, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func apply(t testing.TB, s *State, cmd Command) Result {
	t.Helper()
	r, err := s.Apply(encoded(t, cmd))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// must applies a command that changes something.
func must(t testing.TB, s *State, cmd Command) Result {
	t.Helper()
	r := apply(t, s, cmd)
	if r.Err != nil || !r.Changed {
		t.Fatalf("%T %+v: %+v", cmd, cmd, r)
	}
	return r
}

// same applies a command that says what is so already.
func same(t testing.TB, s *State, cmd Command) Result {
	t.Helper()
	before := s.AppendSnapshot(nil)
	r := apply(t, s, cmd)
	if r.Err != nil || r.Changed || !bytes.Equal(before, s.AppendSnapshot(nil)) {
		t.Fatalf("%T %+v: %+v, want no change", cmd, cmd, r)
	}
	return r
}

// fails applies a command that is not allowed, and leaves no trace.
func fails(t testing.TB, s *State, cmd Command, want error) Result {
	t.Helper()
	before := s.AppendSnapshot(nil)
	r := apply(t, s, cmd)
	if !errors.Is(r.Err, want) || r.Changed || !bytes.Equal(before, s.AppendSnapshot(nil)) {
		t.Fatalf("%T %+v: %+v, want %v and no change", cmd, cmd, r, want)
	}
	return r
}

func TestLifeOfANode(t *testing.T) {
	s := NewState()
	fails(t, s, &PutNode{testNode(2, "b")}, ErrRefused) // nothing is created
	must(t, s, testCreate(4, 3))
	same(t, s, testCreate(4, 3))
	other := testCreate(4, 3)
	other.Cluster[0] = 1
	fails(t, s, other, ErrRefused)

	n := testNode(2, "b")
	must(t, s, &PutNode{n})
	same(t, s, &PutNode{n})
	if got, _ := s.View().Node(2); got.State != NodeJoining {
		t.Fatalf("a new node is %v", got.State)
	}
	fails(t, s, &StartPlan{ID: 1, Group: 1, Epoch: 1, Add: 2}, ErrRefused) // it is not up
	fails(t, s, &SetNodeState{Node: 2, State: NodeDraining}, ErrRefused)
	must(t, s, &SetNodeState{Node: 2, State: NodeUp})
	same(t, s, &SetNodeState{Node: 2, State: NodeUp})
	n.Incarnation, n.HTTPAddr = 2, "other:1"
	must(t, s, &PutNode{n})
	if got, _ := s.View().Node(2); got.State != NodeUp || got.HTTPAddr != "other:1" {
		t.Fatalf("%+v", got)
	}
	fails(t, s, &PutNode{testNode(2, "b")}, ErrStale) // an older incarnation
	edge := n
	edge.Role = RoleEdge
	fails(t, s, &PutNode{edge}, ErrRefused)
	drain := &SetNodeState{Node: 2, State: NodeDraining}
	fails(t, s, drain, ErrRefused) // one node for three copies
	drain.Fewer = true
	must(t, s, drain)
	// The last one must stay, whoever wants it drained.
	fails(t, s, &SetNodeState{Node: 1, State: NodeDraining, Fewer: true}, ErrRefused)
	must(t, s, &SetNodeState{Node: 2, State: NodeUp})
	// Whoever planned that it leaves did so before it was taken back.
	fails(t, s, &SetNodeState{Node: 2, State: NodeLeft}, ErrRefused)
	must(t, s, drain)
	must(t, s, &SetNodeState{Node: 2, State: NodeLeft})
	fails(t, s, &PutNode{n}, ErrRefused)
	fails(t, s, &SetNodeState{Node: 2, State: NodeUp}, ErrRefused)
	fails(t, s, &SetNodeState{Node: 1, State: NodeLeft}, ErrRefused) // it holds everything
	fails(t, s, &SetNodeState{Node: 9, State: NodeUp}, ErrUnknown)
}

func TestARemovedNodeStaysOut(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(4, 3))
	n := testNode(2, "b")
	must(t, s, &PutNode{n})
	must(t, s, &SetNodeState{Node: 2, State: NodeUp})
	g := s.View().Groups[1]
	must(t, s, &StartPlan{ID: 77, Group: 1, Epoch: g.Epoch, Add: 2})
	must(t, s, &SetNodeState{Node: 2, State: NodeRemoving})
	same(t, s, &SetNodeState{Node: 2, State: NodeRemoving})
	fails(t, s, &SetNodeState{Node: 2, State: NodeLeft}, ErrRefused) // it holds a replica
	fails(t, s, &SetNodeState{Node: 2, State: NodeUp}, ErrRefused)
	fails(t, s, &SetNodeState{Node: 2, State: NodeDraining}, ErrRefused)
	n.Incarnation++
	fails(t, s, &PutNode{n}, ErrRefused) // it comes back
	must(t, s, &AbortPlan{77})
	must(t, s, &SetNodeState{Node: 2, State: NodeLeft})
	fails(t, s, &SetNodeState{Node: 2, State: NodeRemoving}, ErrRefused)
	fails(t, s, &PutNode{n}, ErrRefused)
}

func TestLimits(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(4, 3))
	if l := s.View().Limits; l.copies() != DefaultCopies || l.Rate() != DefaultBytesPerSec {
		t.Fatalf("at first %+v", l)
	}
	set := &SetLimits{Limits{Copies: 5, BytesPerSec: 3 << 20}}
	must(t, s, set)
	same(t, s, set)
	if l := s.View().Limits; l != set.Limits || l.copies() != 5 || l.Rate() != 3<<20 {
		t.Fatalf("then %+v", l)
	}
	for _, bad := range []Limits{{Copies: 65}, {BytesPerSec: 1<<20 - 1}, {BytesPerSec: 1<<40 + 1}} {
		if _, err := AppendCommand(nil, &SetLimits{bad}); err == nil {
			t.Errorf("%+v was encoded", bad)
		}
	}
}

func TestLifeOfAPlan(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(4, 3))
	for i := 2; i <= 3; i++ {
		must(t, s, &PutNode{testNode(i, "b")})
		must(t, s, &SetNodeState{Node: NodeID(i), State: NodeUp})
	}
	g := s.View().Groups[2]
	start := &StartPlan{ID: 77, Group: 2, Epoch: g.Epoch, Add: 2, Remove: g.Replicas[0].ID}
	replica := must(t, s, start).Replica
	if r := same(t, s, start); r.Replica != replica {
		t.Fatalf("the same plan again: replica %d, want %d", r.Replica, replica)
	}
	fails(t, s, &StartPlan{ID: 77, Group: 3, Epoch: g.Epoch, Add: 2}, ErrRefused)
	fails(t, s, &StartPlan{ID: 78, Group: 2, Epoch: g.Epoch, Add: 3}, ErrStale)
	now := s.View().Groups[2].Epoch // it has a plan
	fails(t, s, &StartPlan{ID: 78, Group: 2, Epoch: now, Add: 3}, ErrStale)
	if got := s.View().Groups[2].Replicas; len(got) != 2 || !got[1].Learner || got[1].Node != 2 {
		t.Fatalf("%+v", got)
	}
	fails(t, s, &FinishPlan{77}, ErrRefused) // it has not caught up
	must(t, s, &AbortPlan{77})
	fails(t, s, &AbortPlan{77}, ErrUnknown)

	start.Epoch = s.View().Groups[2].Epoch
	if again := must(t, s, start).Replica; again <= replica {
		t.Fatalf("replica %d was given out before", again)
	}
	must(t, s, &SwapPlan{77})
	same(t, s, &SwapPlan{77})
	fails(t, s, &AbortPlan{77}, ErrRefused)
	must(t, s, &FinishPlan{77})
	fails(t, s, &FinishPlan{77}, ErrUnknown)
	if got := s.View().Groups[2].Replicas; len(got) != 1 || got[0].Learner || got[0].Node != 2 {
		t.Fatalf("%+v", got)
	}
	last := s.View().Groups[2]
	fails(t, s, &StartPlan{ID: 79, Group: 2, Epoch: last.Epoch, Remove: last.Replicas[0].ID},
		ErrRefused) // nothing would be left
	fails(t, s, &StartPlan{ID: 79, Group: 2, Epoch: last.Epoch, Add: 3, Remove: 1 << 40},
		ErrUnknown)
	fails(t, s, &StartPlan{ID: 79, Group: 2, Epoch: last.Epoch, Add: 2}, ErrRefused) // has one
	fails(t, s, &StartPlan{ID: 79, Group: 9, Epoch: last.Epoch, Add: 3}, ErrUnknown)
}

func TestFeatureLevelWaitsForTheLast(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(1, 1))
	old := testNode(2, "b")
	old.MaxFeature = 1
	must(t, s, &PutNode{old})
	fails(t, s, &RaiseFeature{2}, ErrRefused)
	old.MaxFeature, old.Incarnation = 2, 2
	must(t, s, &PutNode{old})
	fails(t, s, &RaiseFeature{3}, ErrRefused)
	must(t, s, &RaiseFeature{2})
	same(t, s, &RaiseFeature{2})
	late := testNode(3, "c")
	late.MaxFeature = 1
	fails(t, s, &PutNode{late}, ErrRefused)
}

func TestCommandsThatMayNotBeProposed(t *testing.T) {
	f := func(change func(n *Node)) {
		t.Helper()
		n := testNode(1, "a")
		change(&n)
		if b, err := AppendCommand(nil, &PutNode{n}); err == nil {
			t.Errorf("%+v was encoded as %x", n, b)
		}
	}
	f(func(n *Node) { n.ID = 0 })
	f(func(n *Node) { n.Role = 3 })
	f(func(n *Node) { n.Weight = 0 })
	f(func(n *Node) { n.MinFeature = 3 })
	f(func(n *Node) { n.DiskPercent = 101 })
	f(func(n *Node) { n.RaftAddr = "" })
	f(func(n *Node) { n.RaftAddr = "host" })
	f(func(n *Node) { n.RaftAddr = "host:0" })
	f(func(n *Node) { n.HTTPAddr = "0.0.0.0:5150" })
	f(func(n *Node) { n.HTTPAddr = "[::]:5150" })
	f(func(n *Node) { n.Zone = string(make([]byte, 65)) })
	for _, c := range []*Create{testCreate(0, 3), testCreate(3, 3), testCreate(8192, 3),
		testCreate(4, 0), testCreate(4, 2), testCreate(4, 9)} {
		if _, err := AppendCommand(nil, c); err == nil {
			t.Errorf("%d groups with %d replicas were encoded", c.Groups, c.Replicas)
		}
	}
}

func TestUnknownCommandsStopTheNode(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(1, 1))
	for _, src := range [][]byte{{1, 15}, {1, lastCommand + 1}, {1, 0}, {2, 1}, {2, 200, 3},
		{1, commandIdempotent, 7, 15}} {
		var unknown *UnknownCommandError
		if _, err := s.Apply(src); !errors.As(err, &unknown) {
			t.Errorf("%x: %v", src, err)
		}
	}
	for _, src := range [][]byte{nil, {1}, {1, 5}, {1, 5, 0x80}, {1, 5, 0x80, 0}, {1, 5, 1, 1},
		{1, 16, 0}, {1, 16, 6}, {1, 10, 7}, {1, 10, 7, 10, 8, 5, 1}} {
		if _, err := s.Apply(src); !errors.Is(err, errForm) {
			t.Errorf("%x: %v", src, err)
		}
	}
}

// randomCommand returns a command that has a fair chance to be allowed, or was sent before.
func randomCommand(r *rand.Rand, s *State) Command {
	cmd := randomPlain(r, s)
	if r.IntN(4) == 0 {
		return &Idempotent{ID: 1 + r.Uint64N(40), Command: cmd}
	}
	return cmd
}

func randomPlain(r *rand.Rand, s *State) Command {
	id := NodeID(1 + r.IntN(8))
	switch r.IntN(14) {
	case 13:
		return &SetProgram{Node: id, Program: fmt.Sprint("v", r.IntN(3))}
	case 12:
		g := r.IntN(len(s.groups)+1) + 1
		if g < len(s.groups) && r.IntN(2) == 0 {
			return &SplitGroup{Group: GroupID(g), Epoch: s.groups[g].Epoch}
		}
		return &EndSplit{Group: GroupID(g)}
	case 0, 1:
		n := testNode(int(id), string(rune('a'+id%3)))
		n.Incarnation, n.DiskPercent = uint64(1+r.IntN(3)), uint32(r.IntN(101))
		n.MaxFeature = min(uint32(1+r.IntN(4))+s.feature/2*2, newestFeature)
		return &PutNode{n}
	case 2, 3:
		x := &SetNodeState{Node: id, State: NodeState(1 + r.IntN(4)), Fewer: r.IntN(2) == 0}
		if r.IntN(20) == 0 {
			x.State = NodeRemoving
		}
		return x
	case 4, 5:
		g := r.IntN(len(s.groups) + 1)
		x := &StartPlan{ID: PlanID(1 + r.IntN(1000)), Group: GroupID(g), Add: NodeID(r.IntN(9))}
		if g < len(s.groups) {
			replicas := s.groups[g].Replicas
			x.Epoch = s.groups[g].Epoch
			if r.IntN(2) == 0 || x.Add == 0 {
				x.Remove = replicas[r.IntN(len(replicas))].ID
			}
		} else if x.Add == 0 {
			x.Add = 1
		}
		return x
	case 6, 7, 8:
		var plan PlanID
		for p := range s.plans {
			plan = max(plan, p)
		}
		return []Command{&SwapPlan{plan}, &FinishPlan{plan}, &AbortPlan{plan}}[r.IntN(3)]
	case 9:
		if r.IntN(2) == 0 {
			return &SetLimits{Limits{Copies: uint32(r.IntN(4))}}
		}
		return &RaiseFeature{min(s.feature+uint32(r.IntN(3)), newestFeature)}
	default:
		return randomTold(r, s)
	}
}

// TestSameCommandsMakeTheSameState applies random commands to two states, one of which is saved and
// restored now and then.
func TestSameCommandsMakeTheSameState(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	changed := map[string]int{}
	runs, all := 40, true
	if testing.Short() {
		runs, all = 8, false // too few for every kind of command
	}
	missing := func() uint8 { // a kind of command that has changed nothing yet; 0 for none
		for kind := uint8(commandPutNode); all && kind <= lastCommand; kind++ {
			if ofKind(kind) != nil && changed[fmt.Sprint(kind)] == 0 {
				return kind
			}
		}
		return 0
	}
	for run := 0; run < runs || missing() != 0; run++ {
		if run == 1000 {
			t.Fatalf("no command of kind %d changed anything: %v", missing(), changed)
		}
		a, b := NewState(), NewState()
		create := testCreate(1<<r.IntN(4), 3)
		create.Feature = []uint32{1, programFeature - 1, programFeature}[r.IntN(3)]
		create.First.MaxFeature = newestFeature
		must(t, a, create)
		must(t, b, create)
		for range 400 {
			if r.IntN(20) == 0 {
				var err error
				if b, err = ParseState(b.AppendSnapshot(nil)); err != nil {
					t.Fatal(err)
				}
			}
			cmd := encoded(t, randomCommand(r, a))
			x, err := a.Apply(cmd)
			if err != nil {
				t.Fatal(err)
			}
			y, err := b.Apply(cmd)
			if err != nil || fmt.Sprint(x) != fmt.Sprint(y) {
				t.Fatalf("%x: %+v, and %+v %v", cmd, x, y, err)
			}
			if p, q := a.AppendSnapshot(nil), b.AppendSnapshot(nil); !bytes.Equal(p, q) {
				t.Fatalf("%x: states differ\n%x\n%x", cmd, p, q)
			}
			if x.Changed {
				changed[fmt.Sprint(cmd[1])]++
			}
		}
	}
}

// TestDamagedSnapshotsAreRefused bends every byte, and cuts everywhere.
func TestDamagedSnapshotsAreRefused(t *testing.T) {
	s := NewState()
	must(t, s, testCreate(4, 3))
	must(t, s, &CommitCursor{Cursor: testCursor("bills", 1)})
	must(t, s, pushCommand("mine", "one"))
	must(t, s, quantityCommand(7))
	must(t, s, registerCommand(8, 1e5))
	snapshot := s.AppendSnapshot(nil)
	for i := range snapshot {
		bent := bytes.Clone(snapshot)
		bent[i] ^= 1
		if _, err := ParseState(bent); err == nil {
			t.Fatalf("byte %d bent, and nobody noticed", i)
		}
		if _, err := ParseState(snapshot[:i]); err == nil {
			t.Fatalf("cut at byte %d, and nobody noticed", i)
		}
	}
}
