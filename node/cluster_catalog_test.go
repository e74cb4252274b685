package node

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// eventually tries until there is no error but such as elections make.
func (c *nodesTogether) eventually(what string, do func() error) {
	c.Helper()
	c.until(what, func() bool {
		err := do()
		switch toWireKind(err) {
		case 0:
			return true
		case wire.KindUnavailable, wire.KindTimeout, wire.KindOverloaded:
			c.Log(what, err)
			return false
		}
		c.Fatalf("%s: %v", what, err)
		return false
	})
}

// refused does something again while that is only not possible now, and wants an error.
func (c *nodesTogether) refused(kind wire.Kind, text string, do func() error) {
	c.Helper()
	var err error
	c.until("an answer for good", func() bool {
		err = do()
		return err == nil || !toWire(err).Kind.Temporary()
	})
	if err != nil {
		err = toWire(err)
	}
	isKind(c.T, err, kind, text)
}

// removed removes something until there is an answer. One that says that it is not there may come
// after an answer that was lost.
func (c *nodesTogether) removed(missing wire.Kind, remove func() error) {
	c.Helper()
	tries := 0
	c.eventually("a removal", func() error {
		tries++
		err := remove()
		if tries > 1 && toWireKind(err) == missing {
			return nil
		}
		return err
	})
}

func (c *nodesTogether) push(n *Node, name string, wasm []byte) (info api.PluginInfo) {
	c.Helper()
	c.eventually("a push", func() (err error) {
		info, err = n.PushPlugin(c.Context(), PluginPush{Name: name, Owner: "ann", Wasm: wasm})
		return err
	})
	return info
}

// size runs an aggregate over all records that any node acknowledged, and returns how long its
// result is.
func (c *nodesTogether) size(n *Node, ref string, rows uint64) (size int) {
	c.Helper()
	c.eventually("an aggregate", func() error {
		groups, end, err := dial(c.T, n).Linearizable().Aggregate(c.Context(),
			&record.Query{Aggregate: record.PluginCall{Name: ref}})
		if err == nil && (!end.Complete || len(groups) != 1 || groups[0].Records != rows) {
			c.Fatalf("%s: %+v, %+v", ref, groups, end)
		}
		if err == nil {
			size = len(groups[0].Result)
		}
		return err
	})
	return size
}

// addNode starts one more node, and waits until it knows the cluster.
func (c *nodesTogether) addNode() *Node {
	c.Helper()
	opt := c.options[1]
	opt.Dir, opt.Listen = c.TempDir(), freeaddr.New(c.T)
	opt.Cluster.RaftBind, opt.Cluster.Bind = freeaddr.New(c.T), freeaddr.New(c.T)
	opt.Cluster.Zone = fmt.Sprint("z", len(c.nodes))
	n := openTest(c.T, opt)
	c.nodes, c.options = append(c.nodes, n), append(c.options, opt)
	c.until("the new node knows the cluster", func() bool {
		v := n.member.Load().View()
		_, known := v.Node(n.member.Load().Self())
		return known && n.engine.Reach().Groups == v.DataGroups() && v.DataGroups() > 0
	})
	return n
}

// unknown waits until a node does not know a plugin any more.
func (c *nodesTogether) unknown(n *Node, ref string) {
	c.Helper()
	c.until(ref+" is unknown", func() bool {
		_, err := n.Plugin(c.Context(), ref)
		return toWireKind(err) == wire.KindUnknownPlugin
	})
}

func TestPluginsOfACluster(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	c := openTogether(t, 3, 2)
	a, b, last := c.nodes[0], c.nodes[1], c.nodes[2]
	c.put(a, readings(0, 300), store.WriterSeq{})
	first, second := variant(t, "count", "1"), variant(t, "stats", "2")
	one := c.push(a, "mine", first)
	counts := c.size(b, "mine", 300) // at once: it asks when it has not heard of it
	two := c.push(b, "mine", second)
	stats := c.size(a, "mine@"+two.SHA256, 300)
	if counts == stats || c.size(last, "mine@"+one.SHA256[:9], 300) != counts {
		t.Errorf("results of %d and %d bytes", counts, stats)
	}
	var info api.PluginInfo
	c.eventually("a version is current", func() (err error) {
		info, err = last.PromotePlugin("mine@" + one.SHA256)
		return err
	})
	if !info.Current || info.Owner != "ann" || info.Versions != 2 {
		t.Fatalf("%+v", info)
	}
	if got := c.size(last, "mine", 300); got != counts { // who changes something knows it
		t.Errorf("a result of %d bytes, want %d", got, counts)
	}
	remove := func(n *Node, ref string) func() error {
		return func() error {
			_, err := n.RemovePlugin(ref)
			return err
		}
	}
	c.refused(wire.KindInvalid, "is the current version", remove(b, "mine@"+one.SHA256))
	c.removed(wire.KindUnknownPlugin, remove(b, "mine@"+two.SHA256))
	c.unknown(a, "mine@"+two.SHA256)
	c.refused(wire.KindForbidden, "standard plugin", func() error {
		_, err := a.PushPlugin(t.Context(), PluginPush{Name: "count", Wasm: first})
		return err
	})
	c.refused(wire.KindUnknownPlugin, "nothing", remove(a, "nothing"))

	c.theLargest(a, b)
	c.quantities(a, b)
	c.aNodeThatWasDown(counts)
	c.aFourthNode(counts)
}

// theLargest module gets through the log of the group, whatever is in it.
func (c *nodesTogether) theLargest(a, b *Node) {
	c.Helper()
	module := make([]byte, 4<<20)
	digest := registry.Digest(module)
	c.eventually("a push", func() error {
		return a.member.Load().ChangeState(c.Context(), &cluster.ChangeCatalog{Module: module,
			Change: catalog.Change{Push: &catalog.Push{Name: "large", Version: catalog.Version{
				SHA256: digest, Bytes: int64(len(module))}}}})
	})
	c.eventually("a module", func() error {
		got, err := b.member.Load().Module(c.Context(), digest)
		if err == nil && !bytes.Equal(got, module) {
			c.Errorf("%d bytes", len(got))
		}
		return err
	})
	c.removed(wire.KindUnknownPlugin, func() error {
		_, err := b.RemovePlugin("large")
		return err
	})
}

// quantities are the same on all nodes.
func (c *nodesTogether) quantities(a, b *Node) {
	c.Helper()
	q := plugin.Quantity{MOID: 9, Name: "pressure", Type: plugin.F64}
	set := func() error { return a.SetQuantity(q) }
	forget := func() error { return b.ForgetQuantity(9) }
	c.eventually("a declaration", set)
	if all := a.Quantities(); len(all) != 1 || all[0].Name != q.Name {
		c.Errorf("who declared it has %+v", all)
	}
	c.until("another node has a quantity", func() bool { return len(b.Quantities()) == 1 })
	c.removed(wire.KindNotFound, forget)
	c.refused(wire.KindNotFound, "quantity 9", forget)
	c.eventually("a declaration", set)
}

// aNodeThatWasDown gets what was pushed meanwhile, and keeps it over a restart.
func (c *nodesTogether) aNodeThatWasDown(counts int) {
	c.Helper()
	c.stop(2)
	third := variant(c.T, "count", "3")
	c.push(c.nodes[0], "later", third)
	n := openTest(c.T, c.options[2])
	c.nodes[2] = n
	if got := c.size(n, "later", 300); got != counts {
		c.Errorf("a result of %d bytes, want %d", got, counts)
	}
	path := filepath.Join(n.opt.Dir, "cluster", "plugins", registry.Digest(third)+".wasm")
	c.until("its modules are here", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	if err := os.WriteFile(path, []byte("damage"), 0o600); err != nil {
		c.Fatal(err)
	}
	c.stop(2)
	n = openTest(c.T, c.options[2])
	c.nodes[2] = n
	if got := c.size(n, "later", 300); got != counts {
		c.Errorf("a result of %d bytes, want %d", got, counts)
	}
}

// aFourthNode has all plugins at once, while it keeps no state of the cluster yet, and changes and
// runs them.
func (c *nodesTogether) aFourthNode(counts int) {
	c.Helper()
	n := c.addNode()
	for _, name := range []string{"mine", "later"} {
		if got := c.size(n, name, 300); got != counts {
			c.Errorf("%s: a result of %d bytes, want %d", name, got, counts)
		}
	}
	if all := n.Quantities(); len(all) != 1 {
		c.Errorf("%+v", all)
	}
	c.push(n, "fourth", variant(c.T, "count", "4"))
	if got := c.size(c.nodes[1], "fourth", 300); got != counts {
		c.Errorf("a result of %d bytes, want %d", got, counts)
	}
	c.removed(wire.KindUnknownPlugin, func() error {
		_, err := n.RemovePlugin("fourth")
		return err
	})
	c.unknown(c.nodes[1], "fourth")
	c.cursorOf(n, "ours", 1)
	c.eventually("a cursor", func() error {
		got, err := c.nodes[0].Cursor(c.Context(), "ours")
		if err == nil && got.AcqNs != 1 {
			c.Errorf("%+v", got)
		}
		return err
	})
	dir := filepath.Join(c.TempDir(), "plugins")
	c.eventually("a copy", func() error { return n.plugins.CopyTo(c.Context(), dir) })
	alone, err := catalog.Open(dir)
	if err != nil || len(alone.State.Plugins) != 2 || len(alone.Damage) > 0 {
		c.Fatalf("a copy has %+v, %v", alone, err)
	}
	if err := alone.Close(); err != nil {
		c.Error(err)
	}
}

func (c *nodesTogether) cursorOf(n *Node, name string, acqNs int64) {
	c.Helper()
	c.eventually("a commit", func() error {
		_, err := n.CommitCursor(c.Context(), name, acqNs, false)
		return err
	})
}

// TestCursorsOutliveTheirLeader commits cursors through two nodes while the one that leads the
// group of the state ends: what was acknowledged is never lost, and no cursor goes back.
func TestCursorsOutliveTheirLeader(t *testing.T) {
	c := openTogether(t, 3, 2)
	c.until("a horizon", func() bool {
		horizon, err := c.nodes[1].Horizon(t.Context())
		return err == nil && horizon > 1000
	})
	c.cursorOf(c.nodes[1], "far", 700)
	far := func(acqNs int64, back bool) func() error {
		return func() error {
			_, err := c.nodes[2].CommitCursor(t.Context(), "far", acqNs, back)
			return err
		}
	}
	c.refused(wire.KindInvalid, "only moves forward", far(699, false))
	c.eventually("a cursor goes back", far(5, true))
	leader := c.leaderOfState()
	others := slices.Delete(slices.Clone(c.nodes), leader, leader+1)
	const commits = 60
	half := make(chan struct{}, len(others))
	var wg sync.WaitGroup
	for i, n := range others {
		wg.Go(func() {
			name := fmt.Sprint("reader", i)
			for acq := int64(1); acq <= commits; acq++ {
				c.cursorOf(n, name, acq)
				got, err := n.Cursor(t.Context(), name)
				if err != nil && !toWire(err).Kind.Temporary() || err == nil && got.AcqNs != acq {
					t.Errorf("%s is at %+v, %v after %d was committed", name, got, err, acq)
				}
				if acq == commits/3 {
					half <- struct{}{}
				}
			}
		})
	}
	<-half
	c.stop(leader)
	wg.Wait()
	for i := range others {
		name := fmt.Sprint("reader", i)
		c.until(name+" is everywhere", func() bool {
			got, err := others[1-i].Cursor(t.Context(), name)
			if err == nil && got.AcqNs > commits {
				t.Fatalf("%+v", got)
			}
			return err == nil && got.AcqNs == commits
		})
	}
	remove := func() error { return others[0].RemoveCursor(t.Context(), "far") }
	c.removed(wire.KindNotFound, remove)
	c.refused(wire.KindNotFound, "far", remove)
	c.cursorsComeBack(leader, commits)
}

// leaderOfState returns which node leads the group of the state.
func (c *nodesTogether) leaderOfState() (leader int) {
	c.Helper()
	c.until("a leader", func() bool {
		leader = slices.IndexFunc(c.nodes, func(n *Node) bool {
			m := n.member.Load()
			return m.Leader(cluster.MetaGroup) == m.Self()
		})
		return leader >= 0
	})
	return leader
}

// cursorsComeBack to a node that was away, and into what is copied of it.
func (c *nodesTogether) cursorsComeBack(i int, acqNs int64) {
	c.Helper()
	c.options[i].Cluster.Init, c.options[i].Cluster.Groups = false, 0
	n := openTest(c.T, c.options[i])
	c.nodes[i] = n
	c.until("who was away has all cursors", func() bool {
		all, err := n.Cursors(c.Context())
		return err == nil && len(all) == 2 && all[0].AcqNs == acqNs && all[1].AcqNs == acqNs
	})
	dir := c.TempDir()
	if err := n.cursors.CopyTo(dir, 7); err != nil {
		c.Fatal(err)
	}
	f, err := cursors.Open(dir)
	if err != nil || len(f.List()) != 2 || f.List()[0].AcqNs != 7 {
		c.Fatalf("a copy has %+v, %v", f, err)
	}
	if err := f.Close(); err != nil {
		c.Error(err)
	}
}

// TestQuantityNamesOfACluster gives quantities the same name at the same time on all nodes: at most
// one has it then. A node that has not heard of a quantity takes records by its name.
func TestQuantityNamesOfACluster(t *testing.T) {
	c := openTogether(t, 3, 2)
	for round := range 10 {
		name := fmt.Sprint("q", round)
		errs := make([]error, len(c.nodes))
		var wg sync.WaitGroup
		for i, n := range c.nodes {
			wg.Go(func() {
				errs[i] = n.SetQuantity(plugin.Quantity{MOID: int32(10*round + i), Name: name,
					Type: plugin.F64})
			})
		}
		wg.Wait()
		last := plugin.Quantity{MOID: int32(10*round + 5), Name: name + " last", Type: plugin.F64}
		c.eventually("a declaration", func() error { return c.nodes[round%3].SetQuantity(last) })
		a := &asker{t, c.nodes[(round+1)%3]}
		c.until("records by its name", func() bool {
			status, answer := post(t, a.node, "POST", "/v1/records", "application/json", []byte(
				`{"cid":1,"mid":1,"quantity":"`+last.Name+`","cap":1,"value":1}`))
			if status != 200 && status < 429 {
				t.Errorf("status %d: %s", status, answer)
			}
			return status == 200
		})
		var all []plugin.Quantity
		c.eventually("quantities", func() (err error) {
			all, err = dial(t, a.node).Linearizable().Quantities(c.Context())
			return err
		})
		have := 0
		for _, q := range all {
			if q.Name == name {
				have++
				if toWireKind(errs[q.MOID%10]) == wire.KindConflict {
					t.Errorf("%q is of quantity %d: %v", name, q.MOID, errs[q.MOID%10])
				}
			}
		}
		if have > 1 {
			t.Errorf("%d quantities are %q: %v", have, name, errs)
		}
	}
}
