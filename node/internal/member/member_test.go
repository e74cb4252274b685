package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/wire"
)

func createCommand(t testing.TB) []byte {
	t.Helper()
	levels := cluster.Supported()
	command, err := cluster.AppendCommand(nil, &cluster.Create{Cluster: cluster.ID{1: 9}, Groups: 4,
		Replicas: 3, Feature: levels.First, First: cluster.Node{ID: 7, Incarnation: 1,
			Role: cluster.RoleCore, RaftAddr: "10.0.0.1:1", HTTPAddr: "10.0.0.1:2",
			MinFeature: levels.First, MaxFeature: levels.Last, Weight: 100}})
	if err != nil {
		t.Fatal(err)
	}
	return command
}

func testMetaReplica(t testing.TB, dir string) *metaReplica {
	t.Helper()
	k, err := openMetaReplica(dir, cluster.Supported(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestMetaReplicaIsSyncedAndInstalled(t *testing.T) {
	dir := t.TempDir()
	k := testMetaReplica(t, dir)
	results := make([]any, 2)
	if err := k.Apply([]replica.Entry{{Index: 1}, {Index: 2, Data: createCommand(t)}},
		results); err != nil {
		t.Fatal(err)
	}
	if r, ok := results[1].(cluster.Result); !ok || r.Err != nil || !r.Changed {
		t.Fatalf("%+v", results[1])
	}
	if k.Applied() != 2 || k.Durable() != 0 || testMetaReplica(t, dir).Applied() != 0 {
		t.Fatal("something is durable before it was synced")
	}
	if err := k.Sync(); err != nil {
		t.Fatal(err)
	}
	again := testMetaReplica(t, dir)
	if again.Durable() != 2 || again.meta.View().DataGroups() != 4 {
		t.Fatalf("opened at %d with %+v", again.Durable(), again.meta.View())
	}
	s, err := k.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	other := testMetaReplica(t, t.TempDir())
	err = other.Install(t.Context(), s.Manifest(), func(_ context.Context, name string,
		_ int64) (io.ReadCloser, error) {
		return s.Open(name)
	})
	if err != nil || other.Durable() != 2 || !bytes.Equal(other.encode(), k.encode()) {
		t.Fatalf("installed: %v, at %d", err, other.Durable())
	}
}

func FuzzMetaReplica(f *testing.F) {
	k := testMetaReplica(f, f.TempDir())
	f.Add(k.encode())
	entries := []replica.Entry{{Index: 2, Data: createCommand(f)}}
	if err := k.Apply(entries, make([]any, 1)); err != nil {
		f.Fatal(err)
	}
	f.Add(k.encode())
	f.Fuzz(func(t *testing.T, src []byte) {
		k := testMetaReplica(t, t.TempDir())
		if k.setState(src) == nil && !bytes.Equal(k.encode(), src) {
			t.Error("what was taken is encoded otherwise")
		}
	})
}

func TestErrorsCrossTheNetwork(t *testing.T) {
	f := func(err error) {
		t.Helper()
		var sent *wire.Error
		if !errors.As(encodeLeaderError(err), &sent) {
			t.Fatalf("%v is not sent", err)
		}
		var frame wire.Error
		_, payload, _, parse := wire.ParseFrame(wire.AppendError(nil, sent), 1<<20)
		if parse == nil {
			parse = wire.ParseError(payload, &frame)
		}
		if got := decodeLeaderError(3, &frame); parse != nil || !errors.Is(got, err) {
			t.Errorf("%v is heard as %v", err, got)
		}
	}
	f(replica.ErrUnknown)
	f(replica.ErrOverloaded)
	f(replica.ErrGroupUnknown)
	f(replica.ErrNotLeader)
	id := replica.NewID(5, 6)
	sent := encodeLeaderError(&replica.NotLeaderError{Group: 3, Leader: id})
	var not *replica.NotLeaderError
	if !errors.As(decodeLeaderError(3, sent.(*wire.Error)), &not) || not.Leader != id {
		t.Errorf("%v is heard as %+v", sent, not)
	}
}

// A command may have been decided although its leader was lost, its group has stopped or the node
// closes: who must not send it twice does not, wherever the leader was.
func TestWhatMayBeDecidedIsNotSentAgain(t *testing.T) {
	for _, cause := range []error{&replica.NotLeaderError{Group: 3, Leader: replica.NewID(5, 6)},
		replica.ErrStopped, replica.ErrGroupUnknown, replica.ErrClosed, context.Canceled} {
		var sent *wire.Error
		err := fmt.Errorf("propose to group 3: %w: %w", replica.ErrUnknown, cause)
		if !errors.As(encodeLeaderError(err), &sent) {
			t.Fatalf("%v is not sent", err)
		}
		for _, err := range []error{err, decodeLeaderError(3, sent)} {
			if !errors.Is(err, replica.ErrUnknown) || sendAgain(err, false) ||
				!sendAgain(err, true) {
				t.Errorf("after %v: again %v", err, sendAgain(err, false))
			}
		}
	}
	for _, err := range []error{&replica.NotLeaderError{}, replica.ErrStopped, ErrUnavailable} {
		if !sendAgain(err, false) {
			t.Errorf("after %v it is not sent again", err)
		}
	}
}
