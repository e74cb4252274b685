package edge

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/sdk/client"
)

// TestClusterIsFound: an edge with a token finds the nodes of a cluster by gossip and ships to
// them; the cluster shows it, and gives it no copy.
func TestClusterIsFound(t *testing.T) {
	token, err := cluster.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	seed := freeaddr.New(t)
	var nodes []*node.Node
	for i := range 3 {
		opt := node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Cluster: cluster.Config{
			TokenFile: file, RaftBind: freeaddr.New(t), Bind: freeaddr.New(t)},
			Fail: func(err error) { t.Errorf("node %d must end: %v", i, err) }}
		if i == 0 {
			opt.Cluster.Init, opt.Cluster.Groups, opt.Cluster.Bind = true, 4, seed
		} else {
			opt.Cluster.Join = []string{seed}
		}
		n, err := node.Open(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close(context.Background()) })
		nodes = append(nodes, n)
	}
	e := openEdge(t, Options{Node: node.Options{Dir: t.TempDir()}, Retry: 50 * time.Millisecond,
		Batch: 100, Cluster: cluster.Config{TokenFile: file, Join: []string{seed},
			Bind: freeaddr.New(t)}})
	from := newSource(mathrand.New(mathrand.NewPCG(5, 5)))
	for range 5 {
		put(t, e, from.batch(400))
	}
	idle(t, e)
	until(t, "all is in the cluster", func() bool {
		return rowsOf(t, nodes[1]).Len() >= from.total
	})
	got, _ := seriesOf(t, rowsOf(t, nodes[1]))
	from.check(t, got)
	c, err := client.New(nodes[0].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Follows(t.Context(), e.outbox.writer, 1); err != nil {
		t.Errorf("a cluster loses none: %v", err)
	}
	until(t, "the cluster is settled and shows the edge", func() bool {
		s, err := c.Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cores, edges := 0, 0
		for _, n := range s.Nodes {
			switch {
			case n.Role == "edge" && (n.Replicas > 0 || n.Leads > 0):
				t.Fatalf("the edge has copies: %+v", n)
			case n.Role == "edge" && n.Gossip == "alive":
				edges++
			case n.Replicas == 5:
				cores++
			}
		}
		return cores == 3 && edges == 1
	})
}
