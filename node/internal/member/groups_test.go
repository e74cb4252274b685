package member

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// openOne makes a cluster of one node with one group of data, and waits until that has a leader.
func openOne(t *testing.T) *Member {
	t.Helper()
	token, err := cluster.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), Options{Dir: t.TempDir(), Cluster: cluster.Config{TokenFile: file,
		Init: true, FoundWait: 1, Groups: 1, Replicas: 1, RaftBind: "127.0.0.1:0",
		Bind: freeaddr.New(t), HTTPListen: "127.0.0.1:1"},
		Log: slog.New(slog.DiscardHandler), Changed: func() {},
		Fail: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	until(t, "the group has a leader", func() bool { return m.Store(1) != nil })
	return m
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for timeout := time.After(2 * time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("waited two minutes until %s", what)
		}
	}
}

// A replica whose store cannot be opened is noted in the log of the groups, and starts when it can.
func TestAReplicaThatDidNotStartIsTriedAgain(t *testing.T) {
	m := openOne(t)
	v := *m.View()
	const group = 2
	v.Groups = append(slices.Clone(v.Groups), cluster.Group{Replicas: []cluster.Replica{
		{ID: firstReplica + group, Node: m.Self()}}})
	inTheWay := m.path("groups", dirOf(group, firstReplica+group))
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.updateReplicas(t.Context(), &v)
	if m.run.Groups()[group] == 0 || m.Stores()[group] != nil {
		t.Fatal("it is not noted, or has started")
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	m.updateReplicas(t.Context(), &v)
	if m.Stores()[group] != nil {
		t.Error("it is tried without a pause")
	}
	until(t, "it leads its group", func() bool {
		m.mu.Lock()
		clear(m.tried) // as if a pause were over
		m.mu.Unlock()
		m.updateReplicas(t.Context(), &v)
		return m.Store(group) != nil
	})
}

// A view may have a new replica in place of an old one that this node has not seen removed. The new
// one stays; if it is gone all the same, the cluster is told to make another one.
func TestAReplicaTakesThePlaceOfAnother(t *testing.T) {
	m := openOne(t)
	v := *m.View()
	const group = 2
	replicas := func(list ...cluster.Replica) *cluster.View {
		out := v
		out.NextReplica = v.NextReplica + 100
		out.Groups = append(slices.Clone(v.Groups), cluster.Group{Replicas: list})
		return &out
	}
	m.updateReplicas(t.Context(),
		replicas(cluster.Replica{ID: firstReplica + group, Node: m.Self()}))
	if m.run.Groups()[group] == 0 {
		t.Fatal("there is no replica")
	}
	next := replicas(cluster.Replica{ID: v.NextReplica + 1, Node: m.Self(), Learner: true})
	for range 2 {
		m.updateReplicas(t.Context(), next)
		id := replicaID(next.Groups[group].Replicas[0])
		if now := m.run.Groups()[group]; now != id || m.Stores()[group] == nil {
			t.Fatalf("replica %x is here, want %x", now, id)
		}
	}
	if err := m.drop(t.Context(), group, m.run.Groups()[group]); err != nil {
		t.Fatal(err)
	}
	m.updateReplicas(t.Context(), next)
	if err := m.distrust(group); !errors.Is(err, errReplicaLost) {
		t.Errorf("what is wrong with a replica that was removed: %v", err)
	}
}

// A replica goes while someone still reads from it: what follows the view does not wait for
// that, and the files go when no one does.
func TestAReplicaThatIsReadGoes(t *testing.T) {
	m := openOne(t)
	id := m.run.Groups()[1]
	reading, goOn := make(chan bool, 64), make(chan bool)
	read := make(chan error, 1)
	s := m.Store(1)
	go func() {
		_, err := s.Scan(t.Context(), &record.Query{}, func(int) (store.Sink, error) {
			reading <- true
			<-goOn
			return func(*record.Batch) error { return nil }, nil
		})
		read <- err
	}()
	<-reading
	dropped := make(chan error, 1)
	go func() { dropped <- m.drop(t.Context(), 1, id) }()
	select {
	case err := <-dropped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("to remove a replica waits for who reads from it")
	}
	if m.Store(1) != nil {
		t.Error("it is asked yet")
	}
	close(goOn)
	if err := <-read; err != nil {
		t.Error(err)
	}
	until(t, "its files are gone", func() bool {
		_, err := os.Stat(m.path("groups", dirOf(1, id)))
		return errors.Is(err, os.ErrNotExist)
	})
}

// The first replica of a group begins alone, but not where others have joined it: then it was lost
// with its log, and would decide without them.
func TestAFirstReplicaIsNotMadeAgain(t *testing.T) {
	first := cluster.Replica{ID: firstReplica + 3, Node: 7}
	v := &cluster.View{Groups: make([]cluster.Group, 4)}
	v.Groups[3].Replicas = []cluster.Replica{first, {ID: 20, Node: 8}}
	if err := new(Member).createReplica(t.Context(), v, 3, first); err == nil {
		t.Error("it begins anew")
	}
	s := cluster.NewState()
	if _, err := s.Apply(createCommand(t)); err != nil {
		t.Fatal(err)
	}
	m := &Member{meta: cluster.NewMeta(s), opt: Options{Cluster: cluster.Config{Init: true}}}
	if err := m.createCluster(t.Context()); err != nil { // nor has it a log to write to
		t.Error(err)
	}
}

// A node ends that has come back from an earlier state of its directory.
func TestANodeOfAnEarlierTimeEnds(t *testing.T) {
	s := cluster.NewState()
	if _, err := s.Apply(createCommand(t)); err != nil {
		t.Fatal(err)
	}
	f := func(starts uint64, state cluster.NodeState, want error) {
		t.Helper()
		command, err := cluster.AppendCommand(nil, &cluster.SetNodeState{Node: 7, State: state,
			Fewer: true})
		if err == nil && state != cluster.NodeUp {
			_, err = s.Apply(command)
		}
		if err != nil {
			t.Fatal(err)
		}
		m := &Member{self: cluster.Self{ID: 7, Incarnation: starts}}
		if err := m.removed(s.View()); !errors.Is(err, want) || err != nil && want == nil {
			t.Errorf("start %d of a node that is %v: %v", starts, state, err)
		}
	}
	f(0, cluster.NodeUp, ErrReplaced)
	f(1, cluster.NodeUp, nil)
	f(2, cluster.NodeUp, nil) // it has not said so yet
	f(0, cluster.NodeRemoving, ErrReplaced)
	f(1, cluster.NodeRemoving, nil)
	f(2, cluster.NodeRemoving, ErrRemoved)
}

// However many groups a node has, their heads take about what those of one store do.
func TestHeadsOfGroups(t *testing.T) {
	for _, c := range []struct {
		all    int64
		groups int
		want   int64
	}{{0, 0, 2 << 30}, {0, 16, 128 << 20}, {0, 4096, 64 << 20}, {16 << 30, 16, 1 << 30}} {
		if got := headsOf(c.all, c.groups); got != c.want {
			t.Errorf("%d bytes for %d groups: %d each, want %d", c.all, c.groups, got, c.want)
		}
	}
}
