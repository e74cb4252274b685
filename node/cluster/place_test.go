package cluster

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
)

// core returns n nodes with random ids in zones.
func core(r *rand.Rand, n, zones int) []Candidate {
	var out []Candidate
	for i := range n {
		out = append(out, Candidate{ID: NodeID(r.Uint64()), Zone: fmt.Sprint(i % zones),
			Weight: 100})
	}
	return out
}

func wanted(groups, replicas int, now [][]NodeID) []Wanted {
	out := make([]Wanted, groups)
	for g := range out {
		out[g] = Wanted{Group: GroupID(g), Replicas: replicas}
		if now != nil {
			out[g].Now = now[g]
		}
	}
	return out
}

// loads counts replicas and first places by node.
func loads(placed [][]NodeID) (all, first map[NodeID]int) {
	all, first = map[NodeID]int{}, map[NodeID]int{}
	for _, nodes := range placed {
		for i, n := range nodes {
			all[n]++
			if i == 0 {
				first[n]++
			}
		}
	}
	return all, first
}

// moved counts replicas that are where none was.
func moved(from, to [][]NodeID) int {
	n := 0
	for g := range to {
		for _, id := range to[g] {
			if !slices.Contains(from[g], id) {
				n++
			}
		}
	}
	return n
}

// checkPlaced wants every group whole, no node twice, and zones apart.
func checkPlaced(t *testing.T, nodes []Candidate, placed [][]NodeID, replicas int) {
	t.Helper()
	zoneOf := map[NodeID]string{}
	zones := map[string]int{}
	for _, n := range nodes {
		zoneOf[n.ID] = n.Zone
		zones[n.Zone]++
	}
	for g, on := range placed {
		if len(on) != min(replicas, len(nodes)) {
			t.Fatalf("group %d has %d replicas", g, len(on))
		}
		in := map[string]int{}
		met := map[NodeID]bool{}
		for _, id := range on {
			if met[id] || zoneOf[id] == "" {
				t.Fatalf("group %d is twice on %v, or that is no candidate", g, id)
			}
			met[id] = true
			in[zoneOf[id]]++
		}
		for z, n := range in {
			for other, members := range zones {
				if n > in[other]+1 && members > in[other] {
					t.Fatalf("group %d: %d replicas in zone %s, %d in %s", g, n, z, in[other],
						other)
				}
			}
		}
	}
}

// checkLoads wants no one beyond the bound, and returns the fullest and emptiest part of a share.
func checkLoads(t *testing.T, nodes []Candidate, placed [][]NodeID, replicas int) (lo, hi float64) {
	t.Helper()
	all, _ := loads(placed)
	p := newPlacer(nodes, wanted(len(placed), replicas, nil))
	lo = math.Inf(1)
	for i, n := range p.nodes {
		if all[n.ID] > p.most(i) || all[n.ID] < p.fewest(i) {
			t.Errorf("node %v holds %d replicas, %d to %d are its share of %.1f", n.ID, all[n.ID],
				p.fewest(i), p.most(i), p.share[i])
		}
		lo, hi = min(lo, float64(all[n.ID])/p.share[i]), max(hi, float64(all[n.ID])/p.share[i])
	}
	return lo, hi
}

// TestPlacement holds balance and movement against what is promised, for sizes from a laptop's to
// that of the plan for large clusters, and prints them.
func TestPlacement(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 8))
	t.Logf("%6s %7s %6s | %11s %8s | %8s %6s | %8s %6s", "nodes", "groups", "zones",
		"least, most", "leaders", "join", "/ideal", "leave", "/ideal")
	for _, size := range []struct{ nodes, groups, zones int }{{3, 16, 1}, {3, 16, 3}, {3, 256, 3},
		{10, 16, 3}, {10, 256, 5}, {10, 4096, 3}, {100, 16, 4}, {100, 256, 4}, {100, 4096, 10},
		{1000, 4096, 3}, {1000, 4096, 20}} {
		if work := size.nodes * size.groups; testing.Short() && work > 100_000 ||
			!rounds.Long() && work > 1_000_000 && size.zones < 10 {
			continue
		}
		nodes := core(r, size.nodes, size.zones)
		placed := Place(nodes, wanted(size.groups, 3, nil))
		checkPlaced(t, nodes, placed, 3)
		lo, hi := checkLoads(t, nodes, placed, 3)
		_, first := loads(placed)
		leaders := 0
		for _, n := range first {
			leaders = max(leaders, n)
		}
		if again := Place(nodes, wanted(size.groups, 3, placed)); moved(placed, again) != 0 {
			t.Errorf("%+v: %d moves where nothing happened", size, moved(placed, again))
		}

		more := append(slices.Clone(nodes), Candidate{NodeID(r.Uint64()), "0", 100})
		joined := Place(more, wanted(size.groups, 3, placed))
		checkPlaced(t, more, joined, 3)
		p := newPlacer(more, wanted(size.groups, 3, nil))
		newest := slices.Index(p.nodes, more[size.nodes])
		join, joinIdeal := moved(placed, joined), p.share[newest]
		if float64(join) > joinIdeal+1 {
			t.Errorf("%+v: a join moves %d replicas, its share is %.1f", size, join, joinIdeal)
		}
		if join < p.fewest(newest) {
			t.Errorf("%+v: the new node gets %d replicas", size, join)
		}

		fewer := nodes[1:]
		left := Place(fewer, wanted(size.groups, 3, placed))
		checkPlaced(t, fewer, left, 3)
		all, _ := loads(placed)
		leave, leaveIdeal := moved(placed, left), all[nodes[0].ID]
		if len(fewer) >= 3 && float64(leave) > 1.3*float64(leaveIdeal)+2 {
			t.Errorf("%+v: a leave moves %d replicas, it held %d", size, leave, leaveIdeal)
		}
		t.Logf("%6d %7d %6d | %.2f, %5.2f %8.2f | %8d %6.2f | %8d %6.2f", size.nodes, size.groups,
			size.zones, lo, hi, float64(leaders)*float64(size.nodes)/float64(size.groups), join,
			float64(join)/max(joinIdeal, 1), leave, float64(leave)/max(float64(leaveIdeal), 1))
	}
}

// TestWeights gives a node of three times the weight three times as much, give or take the bounds.
func TestWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	nodes := core(r, 12, 12)
	nodes[0].Weight = 300
	placed := Place(nodes, wanted(1024, 3, nil))
	checkLoads(t, nodes, placed, 3)
	all, _ := loads(placed)
	for _, n := range nodes[1:] {
		ratio := float64(all[nodes[0].ID]) / float64(all[n.ID])
		if ratio < 3*loadFloor/loadBound || ratio > 3*loadBound/loadFloor {
			t.Errorf("weight 300 holds %.2f times what 100 does", ratio)
		}
	}
}

// TestSmallZones has one node in a zone of its own, which must hold all of what has three zones.
func TestSmallZones(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 10))
	nodes := core(r, 21, 2)
	nodes[20].Zone = "alone"
	placed := Place(nodes, wanted(64, 3, nil))
	checkPlaced(t, nodes, placed, 3)
	checkLoads(t, nodes, placed, 3)
	if all, _ := loads(placed); all[nodes[20].ID] != 64 {
		t.Errorf("the node alone in its zone holds %d of 64", all[nodes[20].ID])
	}
}

func TestFewNodes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 11))
	for n := range 4 {
		nodes := core(r, n, 3)
		checkPlaced(t, nodes, Place(nodes, wanted(16, 3, nil)), 3)
	}
}

// TestRandomClustersStayPlaced lets nodes come and go; groups must stay whole, and zones apart.
func TestRandomClustersStayPlaced(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 12))
	for range 60 {
		zones := 1 + r.IntN(5)
		nodes := core(r, 1+r.IntN(12), zones)
		groups, replicas := 1<<r.IntN(8), 1+2*r.IntN(3)
		var placed [][]NodeID
		for range 12 {
			if r.IntN(2) == 0 {
				nodes = append(nodes, Candidate{NodeID(r.Uint64()), fmt.Sprint(r.IntN(zones)), 100})
			} else if len(nodes) > 1 {
				i := r.IntN(len(nodes))
				nodes = slices.Delete(nodes, i, i+1)
			}
			placed = Place(nodes, wanted(groups, replicas, placed))
			checkPlaced(t, nodes, placed, replicas)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 13))
	nodes := core(r, 1000, 10)
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			Place(nodes, wanted(4096, 3, nil))
		}
	})
	placed := Place(nodes, wanted(4096, 3, nil))
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			Place(nodes, wanted(4096, 3, placed))
		}
	})
}
