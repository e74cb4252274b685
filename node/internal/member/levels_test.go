package member

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store/commands"
)

// below are the levels of a program that does not know the newest one.
var below = cluster.Features{First: 1, Last: cluster.InDevelopment().Last - 1}

// raised returns a state at the newest level.
func raised(t *testing.T) *cluster.State {
	t.Helper()
	s := cluster.NewState()
	last := cluster.InDevelopment().Last
	for _, c := range []cluster.Command{
		&cluster.Create{Cluster: cluster.ID{1: 9}, Groups: 4, Replicas: 3, Feature: last - 1,
			First: cluster.Node{ID: 7, Incarnation: 1, Role: cluster.RoleCore,
				RaftAddr: "10.0.0.1:1", HTTPAddr: "10.0.0.1:2", MinFeature: 1, MaxFeature: last,
				Weight: 100}},
		&cluster.RaiseFeature{Level: last}} {
		data, err := cluster.AppendCommand(nil, c)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.Apply(data); err != nil || r.Err != nil {
			t.Fatal(err, r.Err)
		}
	}
	return s
}

// A node whose program does not run the level of its cluster ends: what it has is not damaged, and
// stays as it is.
func TestANodeOfOtherRulesEnds(t *testing.T) {
	s := raised(t)
	m := &Member{opt: Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)},
		features: below, meta: cluster.NewMeta(cluster.NewState())}
	if err := os.Mkdir(m.path("cluster"), 0o755); err != nil {
		t.Fatal(err)
	}
	view := m.path("cluster", viewName)
	for _, text := range [][]byte{s.AppendSnapshot(nil), []byte("bent")} {
		if err := os.WriteFile(view, text, 0o600); err != nil {
			t.Fatal(err)
		}
		err := m.loadView()
		if errors.Is(err, cluster.ErrOtherRules) != (len(text) > 4) {
			t.Errorf("a view of %d bytes: %v", len(text), err)
		}
	}

	dir := t.TempDir()
	k := testMetaReplica(t, dir)
	k.features = cluster.InDevelopment()
	k.replace(make([]byte, stateHeader), s)
	src := k.encode()
	name := filepath.Join(dir, stateName)
	if err := os.WriteFile(name, src, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openMetaReplica(dir, cluster.InDevelopment(), func() {}); err != nil {
		t.Fatal(err)
	}
	_, err := openMetaReplica(dir, below, func() {})
	if !errors.Is(err, cluster.ErrOtherRules) || errors.As(err, new(*durable.CorruptError)) ||
		m.replaceable(cluster.MetaGroup, err) ||
		!errors.Is(m.advise(0, err), cluster.ErrOtherRules) {
		t.Errorf("a state of a higher level: %v", err)
	}
	src[len(src)-1] ^= 1
	if err := os.WriteFile(name, src, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = openMetaReplica(dir, below, func() {})
	if !errors.As(err, new(*durable.CorruptError)) {
		t.Errorf("a corrupt state: %v", err)
	}
	if m.replaceable(1, errors.Join(replica.ErrStopped, commands.ErrUnknown)) {
		t.Error("a replica with a command of a newer program is to be replaced")
	}
}

// The log of a node that was stopped before the cluster was raised may hold the raise.
func TestARaiseInTheLogStopsAnOlderProgram(t *testing.T) {
	k := testMetaReplica(t, t.TempDir())
	k.meta.RunAs(below)
	s := raised(t)
	var entries []replica.Entry
	for i, c := range []cluster.Command{
		&cluster.Create{Cluster: cluster.ID{1: 9}, Groups: 4, Replicas: 3, Feature: below.Last,
			First: s.View().Nodes[0]},
		&cluster.RaiseFeature{Level: below.Last + 1}} {
		data, err := cluster.AppendCommand(nil, c)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, replica.Entry{Index: uint64(i) + 1, Data: data})
	}
	err := k.Apply(entries, make([]any, len(entries)))
	if !errors.Is(err, cluster.ErrOtherRules) || k.Applied() != 1 ||
		k.meta.View().Feature != below.Last {
		t.Errorf("%v: applied %d, level %d", err, k.Applied(), k.meta.View().Feature)
	}
}
