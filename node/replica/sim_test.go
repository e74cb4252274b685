package replica

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/cryptotest"
	"time"
)

// simulation runs the cores of some nodes in one goroutine: who does what next, what gets lost
// and who loses power is drawn from one source.
type simulation struct {
	t      *testing.T
	rng    *rand.Rand
	now    time.Duration
	groups uint32
	nodes  []*simNode
	queue  []simMessage
	cut    map[[2]uint64]bool
	acked  map[uint32]map[string]bool
	sent   int
	lossy  bool
	trace  []byte
	counts map[string]int
}

type simMessage struct {
	from, to uint64
	group    uint32
	data     []byte
}

type simNode struct {
	s        *simulation
	id       uint64
	run      int
	core     *Core
	disk     *disk
	machines map[uint32]*list
	failed   error
}

func (n *simNode) Send(to uint64, group uint32, message []byte) bool {
	n.s.queue = append(n.s.queue, simMessage{n.id, to, group, message})
	return true
}

func (n *simNode) Open(_ context.Context, node uint64, f SnapshotFile) (io.ReadCloser, error) {
	other := n.s.nodes[node-1]
	if n.s.cut[[2]uint64{n.id, node}] || other.core == nil {
		return nil, errors.New("cut off")
	}
	n.s.counts["fetches"]++
	return other.core.OpenSnapshot(f)
}

func newSimulation(t *testing.T, seed uint64, nodes int, groups uint32) *simulation {
	cryptotest.SetGlobalRandom(t, seed)
	s := &simulation{t: t, rng: rand.New(rand.NewPCG(seed, 7)), groups: groups,
		cut: map[[2]uint64]bool{}, acked: map[uint32]map[string]bool{}, counts: map[string]int{}}
	for g := uint32(1); g <= groups; g++ {
		s.acked[g] = map[string]bool{}
	}
	var voters []uint64
	for id := uint64(1); id <= uint64(nodes); id++ {
		voters = append(voters, NewID(id, 1))
		s.nodes = append(s.nodes, &simNode{s: s, id: id, disk: newDisk(),
			machines: map[uint32]*list{}})
	}
	for _, n := range s.nodes {
		n.start()
		for g := uint32(1); g <= groups; g++ {
			n.core.Create(g, NewID(n.id, 1), voters, func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			})
			n.core.StepFlusher()
			n.machines[g] = &list{}
			if err := n.core.Start(g, n.machines[g]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// start opens the log of a node and starts the groups that it has there.
func (n *simNode) start() {
	core, report, err := OpenCore(CoreOptions{Node: n.id, Files: n.disk, Network: n,
		Now: func() time.Duration { return n.s.now }, Fail: func(err error) { n.failed = err }})
	if err != nil {
		n.s.t.Fatal(err)
	}
	if len(report.Damage)+len(report.Quarantined) > 0 {
		n.s.t.Fatalf("node %d: damage %v, quarantined %v", n.id, report.Damage, report.Quarantined)
	}
	core.retain, core.journal.fileBytes, core.journal.cacheBytes = 1500, 8<<10, 200
	core.journal.keepBytes = 60 << 10
	n.core, n.run = core, n.run+1
	for g := uint32(1); g <= n.s.groups; g++ {
		if core.Groups()[g] == 0 {
			continue
		}
		n.machines[g] = n.machines[g].afterCrash()
		if err := core.Start(g, n.machines[g]); err != nil {
			n.s.t.Fatal(err)
		}
	}
}

func (s *simulation) crash(n *simNode) {
	s.counts["crashes"]++
	n.core = nil
	n.disk = n.disk.crash(s.rng)
}

func (s *simulation) pick() *simNode { return s.nodes[s.rng.IntN(len(s.nodes))] }

// deliver takes one message of those under way, not always the oldest.
func (s *simulation) deliver() {
	if len(s.queue) == 0 {
		return
	}
	i := s.rng.IntN(min(len(s.queue), 3))
	m := s.queue[i]
	s.queue = append(s.queue[:i], s.queue[i+1:]...)
	to := s.nodes[m.to-1]
	if to.core == nil || s.cut[[2]uint64{m.from, m.to}] || s.lossy && s.rng.IntN(50) == 0 {
		return
	}
	to.core.Deliver(m.from, m.group, m.data)
	if s.lossy && s.rng.IntN(50) == 0 {
		to.core.Deliver(m.from, m.group, m.data)
	}
}

func (s *simulation) propose() {
	n := s.pick()
	if n.core == nil {
		return
	}
	group := 1 + s.rng.Uint32N(s.groups)
	if st, err := n.core.Status(group); err == nil && st.Leader != 0 && s.rng.IntN(10) != 0 {
		if leader := s.nodes[Node(st.Leader)-1]; leader.core != nil {
			n = leader
		}
	}
	s.sent++
	command := fmt.Sprintf("c%d-%0*d", s.sent, 1+s.rng.IntN(120), 0)
	n.core.Propose(group, []byte(command), func(_ any, err error) {
		switch {
		case err == nil:
			s.acked[group][command] = true
		case errors.Is(err, ErrUnknown), errors.Is(err, ErrNotLeader),
			errors.Is(err, ErrOverloaded):
		default:
			s.t.Fatalf("propose: %v", err)
		}
	})
}

func (s *simulation) tick() {
	s.now += 50 * time.Millisecond
	for _, n := range s.nodes {
		if n.core != nil {
			n.core.Tick()
		}
	}
}

// step lets one thing happen.
func (s *simulation) step() {
	n := s.pick()
	switch k := s.rng.IntN(100); {
	case k < 40:
		s.deliver()
	case k < 60:
		if n.core != nil {
			n.core.StepWorker(0)
		}
	case k < 70:
		if n.core != nil {
			n.core.StepFlusher()
		}
	case k < 82:
		if n.core != nil {
			n.core.StepApplier()
		}
	case k < 90:
		s.propose()
	case k < 94:
		s.tick()
	case k < 95:
		if n.core != nil {
			n.core.TransferLeader(1, NewID(s.pick().id, 1))
		}
	}
	if n.failed != nil {
		s.t.Fatal(n.failed)
	}
}

// fault lets something bad happen, or end.
func (s *simulation) fault() {
	n := s.pick()
	switch s.rng.IntN(6) {
	case 0:
		if n.core != nil {
			s.crash(n)
		}
	case 1, 2:
		if n.core == nil {
			n.start()
		}
	case 3:
		s.counts["cuts"]++
		s.cut[[2]uint64{n.id, s.pick().id}] = true
	case 4:
		clear(s.cut)
	case 5:
		s.lossy = !s.lossy
	}
}

// heal ends all faults and lets time pass until nothing more is to be done.
func (s *simulation) heal() {
	clear(s.cut)
	s.lossy = false
	for _, n := range s.nodes {
		if n.core == nil {
			n.start()
		}
	}
	for range 1500 { // 75 s: the longest wait is for a snapshot that nobody fetches
		s.tick()
		for more := true; more; {
			more = len(s.queue) > 0
			for range len(s.queue) {
				s.deliver()
			}
			for _, n := range s.nodes {
				more = n.core.StepWorker(0) || more
				more = n.core.StepFlusher() || more
				more = n.core.StepApplier() || more
			}
		}
	}
}

// agree checks that each machine has what the shortest has, in the same order.
func (s *simulation) agree(group uint32) {
	for _, n := range s.nodes[1:] {
		a, b := s.nodes[0].machines[group], n.machines[group]
		for i := range min(len(a.commands), len(b.commands)) {
			if a.commands[i] != b.commands[i] || a.indexes[i] != b.indexes[i] {
				s.t.Fatalf("group %d: command %d is %s at %d on node 1 and %s at %d on node %d",
					group, i, a.commands[i], a.indexes[i], b.commands[i], b.indexes[i], n.id)
			}
		}
	}
}

// finish heals and checks: all machines are the same, and have each acknowledged command once.
func (s *simulation) finish() {
	s.heal()
	for group := uint32(1); group <= s.groups; group++ {
		s.agree(group)
		count := map[string]int{}
		for _, c := range s.nodes[0].machines[group].commands {
			if count[c]++; count[c] > 1 {
				s.t.Fatalf("group %d: %s was applied twice", group, c)
			}
		}
		for c := range s.acked[group] {
			if count[c] != 1 {
				s.t.Fatalf("group %d: %s was acknowledged and is not there", group, c)
			}
		}
		for _, n := range s.nodes {
			a := n.machines[group]
			st, err := n.core.Status(group)
			if err != nil || st.Err != nil || st.Leader == 0 {
				s.t.Fatalf("group %d on node %d: %+v, %v", group, n.id, st, err)
			}
			if len(a.commands) != len(s.nodes[0].machines[group].commands) {
				s.t.Fatalf("group %d: node %d has %d commands, node 1 %d; %+v", group, n.id,
					len(a.commands), len(s.nodes[0].machines[group].commands), st)
			}
			s.trace = fmt.Appendf(s.trace, "%s %d;", a, st.Term)
		}
	}
}

func simulate(t *testing.T, seed uint64, nodes int) (hash uint64, counts map[string]int) {
	s := newSimulation(t, seed, nodes, 2)
	for i := range 12000 {
		s.step()
		if i%60 == 0 && s.rng.IntN(3) == 0 {
			s.fault()
		}
		if i%500 == 0 {
			s.agree(1)
		}
	}
	s.finish()
	for _, acked := range s.acked {
		s.counts["acked"] += len(acked)
	}
	h := fnv.New64a()
	h.Write(s.trace)
	return h.Sum64(), s.counts
}

// Nodes crash, lose what was not synced, and are cut off from one another; what was acknowledged is
// on all of them afterwards, once, in the same order. PENTAD_SEED repeats one run, PENTAD_SEEDS
// sets their number.
func TestSimulation(t *testing.T) {
	seeds, first := 30, uint64(time.Now().UnixNano())
	if testing.Short() {
		seeds = 8
	}
	if n, err := strconv.Atoi(os.Getenv("PENTAD_SEEDS")); err == nil {
		seeds = n
	}
	if n, err := strconv.ParseUint(os.Getenv("PENTAD_SEED"), 10, 64); err == nil {
		seeds, first = 1, n
	}
	total := map[string]int{}
	for i := range seeds {
		seed := first + uint64(i)
		t.Run("", func(t *testing.T) {
			t.Logf("PENTAD_SEED=%d", seed)
			_, counts := simulate(t, seed, 3+2*(i%2))
			for k, n := range counts {
				total[k] += n
			}
		})
	}
	t.Logf("%d seeds: %v", seeds, total)
	if !t.Failed() && seeds > 5 && (total["acked"] < 100*seeds || total["fetches"] == 0 ||
		total["crashes"] < seeds) {
		t.Errorf("too little happened to prove anything: %v", total)
	}
}

// The same seed is the same run.
func TestSimulationRepeats(t *testing.T) {
	var hashes []uint64
	for range 2 {
		t.Run("", func(t *testing.T) {
			hash, _ := simulate(t, 42, 3)
			hashes = append(hashes, hash)
		})
	}
	if len(hashes) == 2 && hashes[0] != hashes[1] {
		t.Errorf("two runs of a seed differ: %x, %x", hashes[0], hashes[1])
	}
}
