package member

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/accept"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/wire"
)

// underLeader returns a member without replicas of a cluster whose only node is a server.
func underLeader(t *testing.T, leader http.HandlerFunc) *Member {
	t.Helper()
	server := httptest.NewServer(leader)
	t.Cleanup(server.Close)
	files, err := replica.Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := replica.Open(replica.Options{Node: 8, Files: files, PlainTCP: true,
		Listener: accept.New(listener, nil),
		Resolve:  func(uint64) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	create, err := cluster.ParseCommand(createCommand(t))
	if err != nil {
		t.Fatal(err)
	}
	create.(*cluster.Create).First.HTTPAddr = strings.TrimPrefix(server.URL, "http://")
	command, err := cluster.AppendCommand(nil, create)
	if err != nil {
		t.Fatal(err)
	}
	m := &Member{self: cluster.Self{ID: 8}, run: run, http: newHTTP(),
		meta:  cluster.NewMeta(cluster.NewState()),
		hints: map[cluster.GroupID]cluster.NodeID{}, sessionAcqs: map[cluster.GroupID]int64{}}
	if _, err := m.meta.Apply(command); err != nil {
		t.Fatal(err)
	}
	m.open, m.close = context.WithCancel(t.Context())
	t.Cleanup(func() {
		m.close()
		m.http.CloseIdleConnections()
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// A command whose answer is lost comes again as the same one; and who sent it hears that what is
// said about it may be that it was done.
func TestCommandsAreKnownWhenTheyComeAgain(t *testing.T) {
	var mu sync.Mutex
	var came [][]byte
	m := underLeader(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if came = append(came, body); len(came)%2 == 1 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(wire.AppendError(nil, &wire.Error{Kind: wire.KindNotFound}))
	})
	drain := &cluster.SetNodeState{Node: 7, State: cluster.NodeDraining}
	for range 2 {
		if answer, err := m.Command(t.Context(), drain); err == nil || !answer.Retried {
			t.Errorf("%+v, %v", answer, err)
		}
	}
	mu.Lock()
	first := slices.Clone(came)
	mu.Unlock()
	if len(first) != 4 || !bytes.Equal(first[0], first[1]) || bytes.Equal(first[1], first[2]) {
		t.Fatalf("%x", first)
	}
	cmd, err := cluster.ParseCommand(first[0])
	once, ok := cmd.(*cluster.Idempotent)
	if err != nil || !ok || *once.Command.(*cluster.SetNodeState) != *drain {
		t.Errorf("%+v, %v", cmd, err)
	}
	answer, err := m.Propose(t.Context(), 1, []byte("remove"), false)
	if err == nil || answer.Retried {
		t.Errorf("the first time: %+v, %v", answer, err)
	}
}

// A repeated admin command is the same one under any leader.
func TestActsAreKnownWhenTheyComeAgain(t *testing.T) {
	var mu sync.Mutex
	var came [][]byte
	m := underLeader(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if came = append(came, body); len(came) == 1 {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte("{}"))
	})
	if _, err := m.Admin(t.Context(), AdminCommand{Verb: Drain, Node: "7"}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(came) != 2 || !bytes.Equal(came[0], came[1]) ||
		bytes.Contains(came[0], []byte(`"id":0`)) {
		t.Errorf("%s", came)
	}
}
