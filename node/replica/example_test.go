package replica_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/pentad-db/pentad/node/replica"
)

// words is a state machine that keeps what it is given. Its state is in memory alone, so it is
// never durable and the log keeps everything.
type words struct {
	all     []string
	applied uint64
}

func (w *words) Apply(entries []replica.Entry, results []any) error {
	for i, e := range entries {
		if len(e.Data) > 0 {
			w.all = append(w.all, string(e.Data))
			results[i] = len(w.all)
		}
		w.applied = e.Index
	}
	return nil
}

func (w *words) Applied() uint64 { return w.applied }
func (w *words) Durable() uint64 { return 0 }
func (w *words) Sync() error     { return nil }

func (w *words) Snapshot() (replica.Snapshot, error) {
	return &snapshot{index: w.applied, text: strings.Join(w.all, " ")}, nil
}

func (w *words) Install(ctx context.Context, manifest []byte, fetch replica.Fetch) error {
	file, err := fetch(ctx, "words", 0)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(file)
	w.all = strings.Fields(string(text))
	if err == nil {
		_, err = fmt.Sscan(string(manifest), &w.applied)
	}
	return errors.Join(err, file.Close())
}

type snapshot struct {
	index uint64
	text  string
}

func (s *snapshot) Index() uint64    { return s.index }
func (s *snapshot) Manifest() []byte { return fmt.Append(nil, s.index) }
func (s *snapshot) Close()           {}
func (s *snapshot) Open(string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(s.text)), nil
}

// Three nodes in one process keep one list of words the same.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "replica")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()

	listeners := map[uint64]net.Listener{}
	var voters []uint64
	for node := uint64(1); node <= 3; node++ {
		listeners[node], err = net.Listen("tcp", "127.0.0.1:0")
		check(err)
		voters = append(voters, replica.NewID(node, 1))
	}
	nodes := map[uint64]*replica.Runtime{}
	for node, listener := range listeners {
		files, err := replica.Directory(filepath.Join(dir, fmt.Sprint(node)))
		check(err)
		nodes[node], _, err = replica.Open(replica.Options{Node: node, Files: files,
			Listener: listener, PlainTCP: true,
			Resolve: func(node uint64) (string, bool) {
				return listeners[node].Addr().String(), true
			},
			Fail: func(err error) { fmt.Fprintln(os.Stderr, err); os.Exit(75) }})
		check(err)
		check(nodes[node].Create(ctx, 1, replica.NewID(node, 1), voters))
		check(nodes[node].Start(1, &words{}))
	}

	for _, word := range []string{"one", "two", "three"} {
		fmt.Println(word, propose(ctx, nodes, word))
	}
	index, err := nodes[3].ReadIndex(ctx, 1)
	check(err)
	fmt.Println("node 3 has all of it:", index > 0)
	for _, node := range nodes {
		check(node.Close())
	}
	// Output:
	// one 1
	// two 2
	// three 3
	// node 3 has all of it: true
}

// propose asks every node until it meets the leader.
func propose(ctx context.Context, nodes map[uint64]*replica.Runtime, word string) any {
	for {
		for _, node := range nodes {
			result, err := node.Propose(ctx, 1, []byte(word))
			if err == nil {
				return result
			}
			if !errors.Is(err, replica.ErrNotLeader) {
				check(err)
			}
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
