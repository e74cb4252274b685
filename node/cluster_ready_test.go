package node

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/store"
)

// readiness asks a node over HTTP whether it is ready.
func readiness(t *testing.T, n *Node) (status int, text string) {
	t.Helper()
	resp, err := http.Get("http://" + n.Addr().String() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestAClusterSaysWhoIsReady(t *testing.T) {
	c := openTogether(t, 3, 4)
	ready := func(n *Node) func() bool {
		return func() bool {
			status, text := readiness(t, n)
			if status != 200 && status != 503 {
				t.Fatalf("%d: %s", status, text)
			}
			return status == 200
		}
	}
	for _, n := range c.nodes {
		c.until("a node is ready", ready(n))
	}
	c.stop(2)
	for seq := range 3 {
		c.put(c.nodes[0], readings(int64(seq)*1000, 1000), store.WriterSeq{ID: [16]byte{1},
			Seq: uint64(seq + 1)})
	}
	lonely := c.options[2]
	lonely.Dir, lonely.Cluster.Join = t.TempDir(), []string{freeAddr(t)}
	n := openTest(t, lonely)
	if status, text := readiness(t, n); status != 503 || !strings.Contains(text, "has not heard") {
		t.Errorf("a node that nobody let in answers %d: %s", status, text)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.nodes[2] = openTest(t, c.options[2])
	c.until("the node is ready again", ready(c.nodes[2]))
	c.sameReplicas()
}
