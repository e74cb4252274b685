package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/sdk/record"
)

// searching has a node search for damage all the time.
func searching(opt *Options) { opt.Store.Scrub = background.NewScrub(100*time.Millisecond, 1<<30) }

// hasProblem reports whether a node names a problem whose subject and message contain some text.
func hasProblem(n *Node, code, text string) func() bool {
	return func() bool {
		for _, p := range n.Problems() {
			if p.Code == code && strings.Contains(p.Subject+" "+p.Message, text) {
				return true
			}
		}
		return false
	}
}

// A module that rots while it is loaded is a problem until it is pushed again, and goes on being
// used.
func TestARottenModuleIsAProblem(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"}
	searching(&opt)
	n := openTest(t, opt)
	c := dial(t, n)
	wasm := variant(t, "count", "1")
	if _, err := c.PushPlugin(t.Context(), "mine", wasm); err != nil {
		t.Fatal(err)
	}
	flipFile(t, modulePath(n, wasm))
	damaged := hasProblem(n, "plugins_damaged", "")
	waits := &nodesTogether{T: t}
	waits.until("the damage is a problem", damaged)
	if shown, err := c.Plugin(t.Context(), "mine"); err != nil ||
		!strings.Contains(shown.Damage, "push the module again") {
		t.Errorf("%+v, %v", shown, err)
	}
	if _, _, err := c.Aggregate(t.Context(),
		&record.Query{Aggregate: record.PluginCall{Name: "mine"}}); err != nil {
		t.Errorf("the module is loaded: %v", err)
	}
	if _, err := c.PushPlugin(t.Context(), "mine", wasm); err != nil {
		t.Fatal(err)
	}
	waits.until("the problem is over", func() bool { return !damaged() })
}

// Both copies of a module that a node of a cluster has rot: they are fetched again from another
// node.
func TestRottenModulesAreFetchedAgain(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters start again with what a crash left")
	c := openTogetherWith(t, 3, 1, searching)
	wasm := variant(t, "count", "1")
	c.push(c.nodes[0], "mine", wasm)
	name := registry.Digest(wasm) + ".wasm"
	var files []string
	c.until("a node has both copies", func() bool {
		dir := c.options[2].Dir
		kept, err := filepath.Glob(filepath.Join(dir, "groups", "0.*", name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(kept, filepath.Join(dir, "cluster", "plugins", name))
		return len(kept) == 1 && isWhole(files[0], wasm) && isWhole(files[1], wasm)
	})
	for _, path := range files {
		flipFile(t, path)
	}
	c.until("both copies are whole again", func() bool {
		return isWhole(files[0], wasm) && isWhole(files[1], wasm)
	})
	if hasProblem(c.nodes[2], "plugins_damaged", "")() {
		t.Errorf("%+v", c.nodes[2].Problems())
	}
}

func isWhole(path string, want []byte) bool {
	got, err := os.ReadFile(path)
	return err == nil && slices.Equal(got, want)
}

// flipFile flips a bit in each sector of a file, in place.
func flipFile(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for at := 100; at < len(data); at += 512 {
		if _, err := f.WriteAt([]byte{data[at] ^ 4}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
}

// rotClosedLog stops and starts a node, so that it begins another file of the groups' log, and
// flips bits in the one before, in which there are entries that it keeps.
func (c *nodesTogether) rotClosedLog(i int) {
	c.Helper()
	c.stop(i)
	c.nodes[i] = openTest(c.T, c.options[i])
	c.until("the node is back", func() bool {
		return c.nodes[i].member.Load() != nil && c.settled(len(c.nodes))
	})
	files, err := filepath.Glob(filepath.Join(c.options[i].Dir, "raft", "*.log"))
	if err != nil || len(files) < 2 {
		c.Fatalf("%v, %v", files, err)
	}
	flipFile(c.T, files[len(files)-2])
}

// The log of a node's groups rots where nothing reads it: the replicas that need what is there are
// made again from those of other nodes.
func TestARottenLogIsReplaced(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters start again with what a crash left")
	c := openTogetherWith(t, 3, 2, searching)
	for i := range 4 {
		c.put(c.nodes[0], readings(int64(i)*500, 500), store.WriterSeq{})
	}
	c.sameReplicas()
	was := c.replicasOn(2)
	c.rotClosedLog(2)
	c.until("the replicas are made again", func() bool {
		for group, id := range c.replicasOn(2) {
			if id <= was[group] {
				return false
			}
		}
		return c.settled(3)
	})
	c.until("all rows are read on each node", func() bool {
		for i := range c.nodes {
			if right, err := c.allRight(i); !right || err != nil {
				return false
			}
		}
		return true
	})
	c.sameReplicas()
}

// Each node says of all nodes how far their clocks are apart and how far they have searched.
func TestStatusShowsClocksAndSearches(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters start again with what a crash left")
	c := openTogetherWith(t, 3, 2, searching)
	c.put(c.nodes[0], readings(0, 500), store.WriterSeq{})
	c.sameReplicas()
	m := c.nodes[1].member.Load()
	for _, s := range m.Stores() {
		if err := s.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.until("all that is known of the nodes is shown", func() bool {
		seen := 0
		for _, n := range m.Overview(t.Context()).Nodes {
			self := n.ID == m.Self().String()
			if n.Scrub != nil && n.Scrub.LastNs > 0 && n.Scrub.Read <= n.Scrub.Bytes &&
				(!self || n.Scrub.Bytes > 0) && (n.ClockAheadNs != nil) == !self && !n.ClockOff {
				seen++
			}
		}
		return seen == 3
	})
}

// A replica that was found damaged is not trusted after a restart either, when the others were down
// all the time and nothing has read the damage since.
func TestADamagedReplicaIsRememberedOverARestart(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters start again with what a crash left")
	c := openTogetherWith(t, 3, 1, func(opt *Options) {
		opt.Store.Scrub = background.NewScrub(0, 1)
	})
	for i := range 4 {
		c.put(c.nodes[0], readings(int64(i)*500, 500), store.WriterSeq{})
	}
	c.sameReplicas()
	s := c.nodes[2].member.Load().Stores()[1]
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(c.options[2].Dir, "groups/1.*/store/*.seg"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	c.stop(0)
	c.stop(1)
	flipBits(t, files[0])
	report, err := s.Verify(t.Context(), check.Options{})
	if err != nil || report.Damages == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	known := func() bool { return hasProblem(c.nodes[2], "replica_quarantined", "group 1")() }
	c.until("the replica is not trusted", known)
	c.stop(2)
	c.nodes[2] = openTest(t, c.options[2])
	c.until("the replica is not trusted after a restart", known)
}

// Where there is no other replica to make one from, it is a problem, and the node goes on.
func TestARottenLogOfOneNodeIsAProblem(t *testing.T) {
	c := openTogetherWith(t, 1, 2, searching)
	for i := range 4 {
		c.put(c.nodes[0], readings(int64(i)*500, 500), store.WriterSeq{})
	}
	c.rotClosedLog(0)
	c.until("the damage is a problem", hasProblem(c.nodes[0], "file_damaged", "log of group"))
	if right, err := c.allRight(0); !right || err != nil {
		t.Errorf("%v, %v", right, err)
	}
}
