package node

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
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
	rounds.NotUnderRace(t, "other clusters do the same under load")
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
	lonely.Dir, lonely.Cluster.Join = t.TempDir(), []string{freeaddr.New(t)}
	n := openTest(t, lonely)
	if status, text := readiness(t, n); status != 503 || !strings.Contains(text, "has not heard") {
		t.Errorf("a node that was not let in answers %d: %s", status, text)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.nodes[2] = openTest(t, c.options[2])
	c.until("the node is ready again", ready(c.nodes[2]))
	c.sameReplicas()
}

// A node that was started while another one is down has never heard of that in gossip: it is ready
// all the same, and says that groups have too few copies.
func TestReadyNodeNamesFewCopies(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	c := openTogether(t, 3, 4)
	c.stop(2)
	c.stop(1)
	c.nodes[1] = openTest(t, c.options[1])
	c.until("the node is ready, with few copies", func() bool {
		status, text := readiness(t, c.nodes[1])
		return status == 200 && strings.Contains(text, `"code":"few_copies"`)
	})
	c.nodes[2] = openTest(t, c.options[2])
	c.until("all copies are there", func() bool {
		status, text := readiness(t, c.nodes[1])
		return status == 200 && !strings.Contains(text, "few_copies")
	})
}

// figure returns what /metrics of a node says, -1 for nothing.
func figure(t *testing.T, n *Node, name string) float64 {
	t.Helper()
	resp, err := http.Get("http://" + n.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "pentad_"+name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			return v
		}
	}
	return -1
}

// The metrics of a node are those of all its replicas, and what they count never goes back.
func TestAClusterHasMetrics(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	c := openTogether(t, 3, 4)
	c.put(c.nodes[0], readings(0, 1000), store.WriterSeq{ID: [16]byte{1}, Seq: 1})
	c.sameReplicas()
	alive := `cluster_nodes{gossip="alive",state="up"}`
	for _, n := range c.nodes {
		for name, want := range map[string]float64{"store_rows_put_total": 1000, "store_rows": 1000,
			"cluster_replicas": 5, "cluster_groups_without_leader": 0,
			"cluster_replicas_stopped": 0, alive: 3} {
			c.until(name, func() bool { return figure(t, n, name) == want })
		}
		if lag := figure(t, n, "cluster_horizon_lag_seconds"); lag < -1 || lag > 60 {
			t.Errorf("the horizon is %v s behind the clock", lag)
		}
	}
	led := func() (sum float64) {
		for _, n := range c.nodes {
			sum += figure(t, n, "cluster_groups_led")
		}
		return sum
	}
	c.until("each group is led once", func() bool { return led() == 5 })

	n := c.nodes[0]
	n.storeTotals.last[new(store.Store)] = store.Counts{RowsPut: 7} // it will be missed
	for range 2 {
		if got := n.StoreStats().RowsPut; got != 1007 {
			t.Errorf("with a store that has gone, %d rows were put", got)
		}
	}
}
