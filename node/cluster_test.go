package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// nodesTogether is a cluster in one process.
type nodesTogether struct {
	*testing.T
	nodes   []*Node
	options []Options
}

// openTogether starts a cluster and waits until every group has three voters and a leader.
func openTogether(t *testing.T, nodes, groups int) *nodesTogether {
	t.Helper()
	return openTogetherWith(t, nodes, groups, func(*Options) {})
}

// openTogetherWith is openTogether with other options.
func openTogetherWith(
	t *testing.T, nodes, groups int, change func(opt *Options),
) *nodesTogether {
	t.Helper()
	t.Parallel() // nodes of a cluster wait most of the time
	c := &nodesTogether{T: t}
	token, err := cluster.NewToken(bytesFrom(7))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	first := freeaddr.New(t)
	for i := range nodes {
		opt := Options{Dir: t.TempDir(), Listen: freeaddr.New(t), Cluster: cluster.Config{
			TokenFile: file, RaftBind: freeaddr.New(t), Bind: freeaddr.New(t),
			Zone: fmt.Sprint("z", i)}, Store: store.Options{SealRows: 5000, HeadShards: 1 + i%3},
			Fail: func(err error) { t.Errorf("node %d must end: %v", i, err) }}
		if testing.Verbose() {
			opt.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", i)
		}
		if i == 0 {
			opt.Cluster.Init, opt.Cluster.Groups, opt.Cluster.Bind = true, groups, first
			opt.Cluster.FoundWait = 1
		} else {
			opt.Cluster.Join = []string{first}
		}
		change(&opt)
		n := openTest(t, opt)
		c.nodes, c.options = append(c.nodes, n), append(c.options, opt)
	}
	c.until("all groups have their replicas", func() bool { return c.settled(min(nodes, 3)) })
	return c
}

// bytesFrom is a source of bytes that are not random.
type bytesFrom byte

func (b bytesFrom) Read(dst []byte) (int, error) {
	for i := range dst {
		dst[i] = byte(b)
	}
	return len(dst), nil
}

// until waits for a state of the cluster.
func (c *nodesTogether) until(what string, ok func() bool) {
	c.Helper()
	tick := time.NewTicker(50 * time.Millisecond) // what it asks costs all nodes
	defer tick.Stop()
	timeout := time.After(5 * time.Minute) // a slow machine is no failure
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			for i, n := range c.nodes {
				if m := n.member.Load(); m != nil {
					c.Logf("node %d: %+v", i, m.Status())
				}
			}
			c.Fatalf("waited five minutes until %s", what)
		}
	}
}

// settled reports whether all nodes agree that each group has that many voters, and can reach all.
func (c *nodesTogether) settled(voters int) bool {
	for _, n := range c.nodes {
		m := n.member.Load()
		v := m.View()
		if v.DataGroups() == 0 || len(v.Plans) > 0 {
			return false
		}
		for g := range v.Groups {
			if len(v.Voters(cluster.GroupID(g))) != voters || m.Leader(cluster.GroupID(g)) == 0 {
				return false
			}
		}
		if at := n.engine.Reach(); at.Groups != v.DataGroups() || at.Unreachable > 0 {
			return false
		}
	}
	return true
}

// readings are rows of many devices from one mid on.
func readings(from int64, count int) *record.Batch {
	var b record.Batch
	for i := range int64(count) {
		b.Append(record.Key{CID: 1, MID: (from + i) * 256, MOID: 1, CapNs: from + i + 1},
			f64(float64(from+i)))
	}
	return &b
}

// count asks until there is an answer: elections may take longer than a node waits.
func (c *nodesTogether) count(n *Node, q *record.Query) (count uint64) {
	c.Helper()
	c.until("a count has an answer", func() bool {
		var end wire.End
		var err error
		if count, end, err = n.Count(c.Context(), q); err != nil {
			c.Log(err)
		}
		return err == nil && end.Complete
	})
	return count
}

// put puts until there is an answer.
func (c *nodesTogether) put(n *Node, b *record.Batch, w store.WriterSeq) (res store.PutResult) {
	c.Helper()
	c.until("a put has an answer", func() bool {
		var err error
		if res, err = n.Put(c.Context(), b, w); err != nil {
			c.Log(err)
		}
		return err == nil
	})
	return res
}

func TestAClusterStoresAndAnswers(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	c := openTogether(t, 3, 4)
	writer := store.WriterSeq{ID: [16]byte{1}, Seq: 1}
	for i, n := range c.nodes {
		batch := readings(int64(i)*1000, 1000)
		writer.ID[1] = byte(i)
		first := c.put(n, batch, writer)
		if first.Records != 1000 {
			t.Fatalf("put through node %d: %+v", i, first)
		}
		// The node that was written to shows it at once, the others after the acq of the put.
		if got := c.count(n, &record.Query{}); got != uint64(i+1)*1000 {
			t.Fatalf("node %d counts %d after put %d", i, got, i)
		}
		for k, other := range c.nodes {
			var got uint64
			c.until("a count after a put has an answer", func() (ok bool) {
				var err error
				got, _, err = dial(t, other).After(first.LastAcqNs).Count(t.Context(),
					&record.Query{})
				return err == nil
			})
			if got != uint64(i+1)*1000 {
				t.Fatalf("node %d counts %d after put %d", k, got, i)
			}
		}
		again := c.put(c.nodes[(i+1)%3], batch, writer)
		if !again.Duplicate || again.LastAcqNs != first.LastAcqNs {
			t.Fatalf("put again: %+v, want %+v", again, first)
		}
	}
	box := record.Box{record.MID: {{From: 0, To: 500 * 256}}}
	c.until("an erase has an answer", func() bool {
		acq, err := c.nodes[1].Erase(t.Context(), box)
		return err == nil && acq > 0
	})
	latest := &record.Query{View: record.ViewLatest}
	if got := c.count(c.nodes[1], latest); got != 2500 {
		t.Errorf("%d records are left, want 2500", got)
	}
	c.refusesWhatOnlyOneCan()
}

// refusesWhatOnlyOneCan: nothing goes to the store that a node of a cluster does not ask.
func (c *nodesTogether) refusesWhatOnlyOneCan() {
	c.Helper()
	n, b := c.nodes[0], readings(0, 1)
	b.AcqNs = []int64{1}
	_, below := n.PutBackdated(c.Context(), b)
	_, stamped := n.PutStamped(c.Context(), b)
	for what, err := range map[string]error{"below": below, "stamped": stamped} {
		if n.Kind(err) != wire.KindForbidden {
			c.Errorf("%s: %v", what, err)
		}
	}
}

// stop ends a node without a word to the others that it could take back.
func (c *nodesTogether) stop(i int) {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := c.nodes[i].Close(ctx); err != nil && !errors.Is(err, nodeerror.ErrClosing) {
		c.Fatal(err)
	}
}

func TestAClusterOutlivesANode(t *testing.T) {
	c := openTogether(t, 3, 4)
	put := func(n *Node, seq int) {
		t.Helper()
		res := c.put(n, readings(int64(seq)*100, 100), store.WriterSeq{ID: [16]byte{9},
			Seq: uint64(seq + 1)})
		if res.Records != 100 {
			t.Fatalf("put %d: %+v", seq, res)
		}
	}
	for i := range 5 {
		put(c.nodes[1], i)
	}
	c.stop(0) // it led most
	for i := 5; i < 10; i++ {
		put(c.nodes[1+i%2], i)
	}
	for i, n := range c.nodes[1:] {
		if got := c.count(n, &record.Query{}); got != 1000 && i == 1 {
			t.Errorf("node %d counts %d", i+1, got)
		}
	}
	c.options[0].Cluster.Init, c.options[0].Cluster.Groups = false, 0
	c.nodes[0] = openTest(t, c.options[0])
	c.until("the node is back", func() bool {
		if !c.settled(3) {
			return false
		}
		count, _, err := c.nodes[0].Count(t.Context(), &record.Query{})
		return err == nil && count == 1000
	})
	c.sameReplicas()
}

// A node of which the state of one replica is damaged starts with its others, answers what is
// damaged from another node, and gets a new replica in place of the damaged one.
func TestADamagedReplicaIsReplaced(t *testing.T) {
	c := openTogether(t, 3, 2)
	for i := range 4 {
		c.put(c.nodes[0], readings(int64(i)*100, 100), store.WriterSeq{})
	}
	c.sameReplicas()
	view := c.nodes[2].member.Load()
	was, _ := view.View().ReplicaOn(1, view.Self())
	c.stop(2)
	logs, err := filepath.Glob(filepath.Join(c.options[2].Dir, "groups/1.*/store/log/*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("%v, %v", logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	text[100] ^= 1
	if err := os.WriteFile(logs[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	c.nodes[2] = openTest(t, c.options[2])
	m := c.nodes[2].member.Load()
	c.until("the node answers", func() bool {
		count, _, err := c.nodes[2].Count(t.Context(), &record.Query{})
		return err == nil && count == 400 && m.Store(2) != nil
	})
	c.put(c.nodes[2], readings(400, 100), store.WriterSeq{})
	if got := c.count(c.nodes[2], &record.Query{}); got != 500 {
		t.Errorf("%d records, want 500", got)
	}
	c.until("the damaged replica is replaced", func() bool {
		r, _ := m.View().ReplicaOn(1, m.Self())
		return m.Store(1) != nil && r.ID > was.ID && len(m.View().Groups[1].Replicas) == 3
	})
	c.sameReplicas()
	left, err := filepath.Glob(filepath.Join(c.options[2].Dir, fmt.Sprintf("groups/1.%d", was.ID)))
	if err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// sameReplicas waits until the replicas of each group are closed beyond all records, and compares.
func (c *nodesTogether) sameReplicas() {
	c.Helper()
	m := c.nodes[0].member.Load()
	until := time.Now().UnixNano()
	for g := 1; g <= m.View().DataGroups(); g++ {
		var want digest.Slice
		for i, n := range c.nodes {
			var got []digest.Slice
			c.until("a replica has all", func() bool {
				s := n.member.Load().Store(cluster.GroupID(g))
				if s == nil {
					return false
				}
				horizon, err := s.ExtendHorizon(c.Context())
				if err != nil || horizon <= until {
					return false
				}
				got, _, err = s.Digest(c.Context(), record.Box{}, []int64{1, until})
				return err == nil
			})
			if i == 0 {
				want = got[0]
			} else if got[0] != want {
				c.Errorf("group %d: node %d has %+v, want %+v", g, i, got[0], want)
			}
		}
	}
}
