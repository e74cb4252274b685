package member

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/wire"
)

// ledGroups are groups of which only leaders are known.
type ledGroups struct {
	groups
	leaders map[cluster.GroupID]uint64
}

func (l ledGroups) Groups() map[cluster.GroupID]uint64 { return l.leaders }

func (l ledGroups) Status(group cluster.GroupID) (replica.Status, error) {
	return replica.Status{Leader: l.leaders[group]}, nil
}

// A group without a leader is a problem after a while; a node of which all groups are so takes no
// writes and is not ready, until one has a leader again.
func TestANodeWithoutLeadersIsNotReady(t *testing.T) {
	leaders, start := map[cluster.GroupID]uint64{0: 7, 1: 7, 2: 0}, time.Unix(1000, 0)
	m := &Member{run: ledGroups{leaders: leaders}}
	f := func(after time.Duration, problems int, ready bool) {
		t.Helper()
		all := m.leaderProblems(start.Add(after))
		unready := 0
		for _, p := range all {
			if p.Code != "no_leader" || p.Advice == "" {
				t.Errorf("%+v", p)
			}
			if p.NotReady {
				unready++
			}
		}
		if len(all) != problems || (unready == 0) != ready || unready > 0 && unready < len(all) {
			t.Errorf("after %v: %+v, want %d problems, ready %v", after, all, problems, ready)
		}
	}
	f(0, 0, true)
	f(leaderlessAfter, 1, true)
	leaders[0], leaders[1] = 0, 0
	f(leaderlessAfter+1, 1, true) // an election
	f(2*leaderlessAfter, 1, true)
	f(2*leaderlessAfter+1, 3, false)
	leaders[1] = 8
	f(2*leaderlessAfter+2, 2, true)
}

// A group with a leader has a quorum, also when its nodes did not answer in time; of one without,
// those that did are counted.
func TestNoQuorum(t *testing.T) {
	v := &cluster.View{Groups: make([]cluster.Group, 3)}
	for g := range v.Groups {
		for id := range cluster.NodeID(3) {
			v.Groups[g].Replicas = append(v.Groups[g].Replicas, cluster.Replica{
				ID: cluster.ReplicaID(id + 1), Node: id + 1})
		}
	}
	h := &cluster.Health{Groups: []cluster.GroupHealth{{Leader: 1}, {}, {}}}
	late := nodeReports{err: errors.New("late")}
	said := map[cluster.NodeID]nodeReports{1: {}, 2: late, 3: late}
	got := noQuorum(v, h, said, []string{"group 2: its copy is lost"})
	if len(got) != 1 || !strings.HasPrefix(got[0], "group 1: it has no leader, and 1 of its 3 ") {
		t.Errorf("%q", got)
	}
	said[2] = nodeReports{}
	if got := noQuorum(v, h, said, nil); len(got) > 0 {
		t.Errorf("two of three answer: %q", got)
	}
}

// A node that gossip never heard of was down before this one was started: its copies do not count.
// Before any node answers, nothing is known of others.
func TestAbsent(t *testing.T) {
	v := &cluster.View{}
	for id := range cluster.NodeID(4) {
		v.Nodes = append(v.Nodes, cluster.Node{ID: id + 1})
	}
	peer := func(id cluster.NodeID, state cluster.PeerState) cluster.Peer {
		return cluster.Peer{State: state, Meta: cluster.GossipMeta{Node: cluster.Node{ID: id}}}
	}
	f := func(want []cluster.NodeID, peers ...cluster.Peer) {
		t.Helper()
		var got []cluster.NodeID
		for id, gone := range absent(v, 1, peers) {
			if gone {
				got = append(got, id)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%v are absent, want %v", got, want)
		}
	}
	f(nil)
	f([]cluster.NodeID{2}, peer(2, cluster.PeerDead))
	f([]cluster.NodeID{3, 4}, peer(2, cluster.PeerAlive))
	f([]cluster.NodeID{3, 4}, peer(2, cluster.PeerAlive), peer(3, cluster.PeerDead))
	f(nil, peer(2, cluster.PeerAlive), peer(3, cluster.PeerAlive), peer(4, cluster.PeerAlive))
}

// A node that has the address of another one, which lost its disk or moved, does nothing in its
// place: what was to be sent to that is sent again.
func TestWhatIsForAnotherNodeIsSentAgain(t *testing.T) {
	m := &Member{key: "k"}
	m.self.ID = 1
	args := func(name string) string { return map[string]string{"for": "2", "group": "1"}[name] }
	_, known, err := m.Serve(t.Context(), "POST", RouteCommand, "k", args, nil)
	var sent *wire.Error
	if !known || !errors.As(err, &sent) || sent.Kind != wire.KindUnavailable {
		t.Fatalf("%v, %v", known, err)
	}
	var frame wire.Error
	_, payload, _, err := wire.ParseFrame(wire.AppendError(nil, sent), 1<<20)
	if err == nil {
		err = wire.ParseError(payload, &frame)
	}
	got := decodeLeaderError(1, &frame)
	if err != nil || !sendAgain(got, false) || !errors.Is(got, errNoAnswer) ||
		errors.Is(got, replica.ErrUnknown) {
		t.Errorf("%v, heard as %v", err, got)
	}
}
