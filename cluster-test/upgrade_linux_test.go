package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// release is a version of the program, and the feature levels that it runs.
type release struct {
	bin    string
	levels cluster.Features
}

// releases returns the same program twice: as the version before the newest feature level, and as
// the one that also runs that. One of them may be what all tests run.
func releases(t *testing.T) (older, newer release) {
	t.Helper()
	as := func(name string, levels cluster.Features) release {
		if levels == cluster.Supported() {
			name = ""
		}
		return release{buildWith(t, name), levels}
	}
	both := cluster.InDevelopment()
	return as("before", cluster.Features{First: both.First, Last: both.Last - 1}), as("after", both)
}

// upgrade is a cluster that is upgraded while clients with the retries of the SDK use it. They know
// all its nodes. What they see as an error is a finding, but that a query is told when to ask
// again.
type upgrade struct {
	*farm
	load         *load
	feed         *feedReader
	fed          atomic.Int64 // slices of the feed that came
	older, newer release
	random       *rand.Rand
}

// pauseOfUpgrade keeps clients from storing more than is read soon, and all nodes from being busy.
const pauseOfUpgrade = 100 * time.Millisecond

func newUpgrade(t *testing.T) *upgrade {
	t.Helper()
	u := &upgrade{feed: &feedReader{tally: newTally("the feed")}}
	u.older, u.newer = releases(t)
	seed := planOf(t).seed
	t.Logf("PENTAD_SEED=%d", seed)
	u.random = rand.New(rand.NewPCG(seed, 6))
	u.farm = newPlainFarm(t, u.older.bin, 3)
	u.load = &load{f: u.farm, history: newHistory(), pause: pauseOfUpgrade}
	for i := range u.nodes {
		u.runs(i, u.older)
	}
	return u
}

// all returns a client that begins with a node and knows the others.
func (u *upgrade) all(first int) *client.Client {
	var addrs []string
	for i := range u.nodes {
		addrs = append(addrs, u.nodes[(first+i)%len(u.nodes)].http)
	}
	c, err := client.New(strings.Join(addrs, ","))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return c
}

// begin starts the clients. What it returns ends them and holds all replicas and the feed against
// what was answered.
func (u *upgrade) begin() (finish func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stop, halt := context.WithCancel(ctx)
	var wg sync.WaitGroup
	writers := []int32{2, 3, 4} // the first is for the last batch
	for i, writer := range writers {
		wg.Go(func() { u.load.steady(ctx, stop, writer, u.all(i)) })
		wg.Go(func() { u.ask(ctx, stop, writer, u.all(i)) })
	}
	wg.Go(func() { u.load.heart.beat(stop) })
	wg.Go(func() { u.follow(stop, u.all(1)) })
	u.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return func() {
		u.Helper()
		halt()
		over := make(chan struct{})
		go func() {
			wg.Wait()
			close(over)
		}()
		u.until("all clients have their answers", func() bool {
			select {
			case <-over:
				return true
			default:
				return false
			}
		})
		u.lastBatch()
		for _, wrong := range u.load.truth(ctx, &erasures{}, []*feedReader{u.feed}, u.random) {
			u.Error(wrong)
		}
		acked, unknown := u.load.history.records()
		u.Logf("%d records acknowledged, %d without an answer; %d queries answered, %d told to "+
			"ask again; %d slices of the feed", acked, unknown, u.load.asked.Load(),
			u.load.errors.Load(), u.fed.Load())
	}
}

// lastBatch stores what is above all other records of each group, so that a reader knows for what
// to wait.
func (u *upgrade) lastBatch() {
	u.Helper()
	c := u.all(0)
	defer func() { _ = c.Close() }()
	u.load.history.sent(1)
	u.until("the last batch is answered", func() bool {
		ctx, cancel := short(u.Context())
		defer cancel()
		reply, err := c.Put(ctx, batchOf(1, 1), [16]byte{1}, 1)
		if err != nil {
			u.note("last batch: %v", err)
			return false
		}
		u.load.history.acked(1, 1, reply)
		return true
	})
}

// ask counts what a writer has stored until it is stopped.
func (u *upgrade) ask(ctx, stop context.Context, writer int32, from *client.Client) {
	defer func() { _ = from.Close() }()
	q := &record.Query{}
	q.Box[record.CID] = record.RangeSet{record.At(int64(writer))}
	for stop.Err() == nil {
		_, acked, _ := u.load.history.at(writer)
		got, end, err := from.Linearizable().Count(ctx, q)
		sent, _, _ := u.load.history.at(writer)
		pause := pauseOfUpgrade
		var remote *wire.Error
		switch {
		case ctx.Err() != nil:
		case errors.As(err, &remote) && remote.Kind.Temporary(): // the client is told when to retry
			u.load.errors.Add(1)
			pause = max(pause, time.Duration(remote.RetryAfterMs)*time.Millisecond)
		case err != nil || !end.Complete:
			u.load.finding("a count of writer %d: %v, %+v", writer, err, end)
		case got < uint64(acked*rowsOfBatch) || got > uint64(sent*rowsOfBatch):
			u.load.finding("a count of writer %d is %d, with %d records answered before it and %d "+
				"sent", writer, got, acked*rowsOfBatch, sent*rowsOfBatch)
		default:
			u.load.asked.Add(1)
		}
		wait(stop, pause)
	}
}

// follow is one feed that never has to be begun again.
func (u *upgrade) follow(stop context.Context, c *client.Client) {
	defer func() { _ = c.Close() }()
	for b, err := range c.ChangeBatches(stop, &record.Query{}, 0) {
		if err != nil {
			u.load.finding("the feed ended: %v", err)
			return
		}
		u.feed.take(b)
		u.fed.Add(1)
	}
}

// goesOn waits until more was stored, asked and fed, and ends the test when a client saw an error.
func (u *upgrade) goesOn() {
	u.Helper()
	figures := func() (stored int, asked, fed int64) {
		stored, _ = u.load.history.records()
		return stored, u.load.asked.Load(), u.fed.Load()
	}
	stored, asked, fed := figures()
	u.until("puts, queries and the feed go on", func() bool {
		u.load.mu.Lock()
		wrong := slices.Clone(u.load.wrong)
		u.load.mu.Unlock()
		if len(wrong) > 0 {
			u.fatal("clients saw: %s", strings.Join(wrong, "\n"))
		}
		s, a, f := figures()
		return s > stored+2*rowsOfBatch && a > asked+1 && f > fed
	})
}

// end ends a node as an operator does.
func (u *upgrade) end(i int) {
	u.Helper()
	u.note("node %d is stopped", i)
	m := u.nodes[i]
	m.signal(syscall.SIGTERM)
	select {
	case <-m.ended:
	case <-time.After(healTimeout):
		u.fatal("node %d does not end", i)
	}
	u.note("node %d: %s", i, m.cmd.ProcessState)
	m.cmd = nil
}

// startAs starts a node on its directory as a release.
func (u *upgrade) startAs(i int, r release) {
	u.Helper()
	u.note("node %d starts with feature levels %v", i, r.levels)
	u.nodes[i].bin = r.bin
	u.start(i)
}

// killMidway starts a node as a release, and kills it at some moment of its start.
func (u *upgrade) killMidway(i int, r release) {
	u.Helper()
	u.startAs(i, r)
	pause(u.T, time.Duration(u.random.IntN(1500))*time.Millisecond)
	u.note("kill -9, node %d", i)
	u.nodes[i].kill()
}

// runs waits until all nodes are well and one of them is known to run a release.
func (u *upgrade) runs(i int, r release) {
	u.Helper()
	c := u.client(i)
	defer func() { _ = c.Close() }()
	u.until("the cluster knows what a node runs", func() bool {
		if !u.settled() || !u.ready() {
			return false
		}
		ctx, cancel := short(u.Context())
		defer cancel()
		all, err := c.ClusterNodes(ctx)
		if err != nil {
			return false
		}
		for _, n := range all {
			if n.HTTP == u.nodes[i].http {
				return n.MinFeature == r.levels.First && n.MaxFeature == r.levels.Last
			}
		}
		return false
	})
}

// become stops a node and starts it as a release.
func (u *upgrade) become(i int, r release) {
	u.Helper()
	u.end(i)
	u.startAs(i, r)
	u.runs(i, r)
	u.goesOn()
}

// pentad runs a command until it does not say that it is to be repeated.
func (u *upgrade) pentad(r release, args ...string) (said string, code int) {
	u.Helper()
	var addrs []string
	for _, m := range u.nodes {
		addrs = append(addrs, m.http)
	}
	args = append([]string{"--addr", strings.Join(addrs, ",")}, args...)
	u.until("pentad "+args[2]+" has an answer", func() bool {
		var out bytes.Buffer
		cmd := exec.Command(r.bin, args...)
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		if cmd.ProcessState == nil {
			u.fatal("%s: %v", r.bin, err)
		}
		said, code = out.String(), cmd.ProcessState.ExitCode()
		u.note("pentad %s: %d %s", strings.Join(args[2:], " "), code, said)
		return code != exitUnavailable
	})
	return said, code
}

// How commands of pentad end.
const (
	exitForbidden   = 4
	exitUnavailable = 5
)

// raise runs pentad cluster raise, which must end and say so.
func (u *upgrade) raise(code int, want string, flags ...string) {
	u.Helper()
	said, got := u.pentad(u.newer, append([]string{"cluster", "raise"}, flags...)...)
	if got != code || !strings.Contains(said, want) {
		u.fatal("pentad cluster raise %v ends with %d: %s\nwant %d: %s", flags, got, said, code,
			want)
	}
}

// refused starts a node as the older release, which must end, say why and what to do, and call
// nothing damaged.
func (u *upgrade) refused(m *machine) {
	u.Helper()
	var before int64
	if info, err := os.Stat(m.log); err == nil {
		before = info.Size()
	}
	m.bin = u.older.bin
	u.launch(m)
	select {
	case <-m.ended:
	case <-time.After(healTimeout):
		u.fatal("node %d of the level before does not end", m.i)
	}
	code := m.cmd.ProcessState.ExitCode()
	m.cmd = nil
	text, err := os.ReadFile(m.log)
	if err != nil {
		u.Fatal(err)
	}
	said := string(text[before:])
	u.note("node %d of the level before ends with %d", m.i, code)
	if code != exitForbidden || !strings.Contains(said, u.tooHigh()) || calledDamaged(said) {
		u.Errorf("node %d of the level before ends with %d: %s\nwant %s", m.i, code, said,
			u.tooHigh())
	}
}

// tooHigh is what the older release says of a cluster that was raised.
func (u *upgrade) tooHigh() string {
	return fmt.Sprintf("was written by feature level %d, this program knows levels up to %d: "+
		"start the version of pentad that the other nodes run", u.newer.levels.Last,
		u.older.levels.Last)
}

func calledDamaged(said string) bool {
	for _, word := range []string{"damage", "corrupt", "quarantine", "takes no part any more"} {
		if strings.Contains(said, word) {
			return true
		}
	}
	return false
}

// copies returns the numbers of the replicas of each node: one that was made again has another.
func (u *upgrade) copies() (all []string) {
	u.Helper()
	c := u.all(0)
	defer func() { _ = c.Close() }()
	u.until("a node tells which replicas there are", func() bool {
		ctx, cancel := short(u.Context())
		defer cancel()
		groups, err := c.ClusterGroups(ctx)
		all = nil
		for _, g := range groups {
			for _, x := range g.Copies {
				all = append(all, fmt.Sprintf("group %d, node %s, replica %d", g.Group, x.Node,
					x.Replica))
			}
		}
		return err == nil && len(all) == (groupsOfFarm+1)*len(u.nodes)
	})
	slices.Sort(all)
	return all
}

// TestAClusterOfProcessesIsUpgraded upgrades three nodes under load, one after the other: one goes
// back and up again, one is killed in the middle. Then it raises the cluster; after that neither a
// node that goes back nor a new one of the level before takes part. No client sees an error, and
// nothing is lost or doubled. With PENTAD_UPGRADES=30 as many random steps back and forth come
// before.
func TestAClusterOfProcessesIsUpgraded(t *testing.T) {
	t.Parallel() // it waits most of the time
	u := newUpgrade(t)
	replicas := u.copies()
	finish := u.begin()
	u.goesOn()
	level, next := u.older.levels.Last, u.newer.levels.Last
	none := fmt.Sprintf("the cluster is at feature level %d, the highest that all nodes support",
		level)
	u.raise(0, none)

	u.become(0, u.newer)
	u.raise(exitForbidden, "upgrade it first")
	u.become(0, u.older)
	u.raise(0, none)
	u.backAndForth()
	u.become(0, u.newer)

	u.end(1)
	u.killMidway(1, u.newer)
	u.startAs(1, u.newer)
	u.runs(1, u.newer)
	u.goesOn()
	u.raise(exitForbidden, "upgrade it first")
	u.become(2, u.newer)

	raised := fmt.Sprintf("the cluster is at feature level %d", next)
	u.raise(0, fmt.Sprintf("nothing changed; the cluster would be at feature level %d", next),
		"--dry-run")
	if said, _ := u.pentad(u.newer, "cluster", "status"); !strings.Contains(said, fmt.Sprintf(
		"all nodes support feature level %d, the cluster is at %d; pentad cluster raise raises it",
		next, level)) {
		t.Errorf("pentad cluster status: %s", said)
	}
	u.raise(0, raised)
	u.note("kill -9, node 2")
	u.nodes[2].kill()
	u.tooLate()
	u.startAs(2, u.newer)
	u.runs(2, u.newer)
	u.raise(0, raised)
	u.goesOn()
	finish()
	if now := u.copies(); !slices.Equal(now, replicas) {
		t.Errorf("replicas were made again: there are\n%s\nand were\n%s", strings.Join(now, "\n"),
			strings.Join(replicas, "\n"))
	}
	for _, wrong := range u.logged("\npanic: ", "BUG:", "\nfatal error: ", "quarantine",
		"takes no part any more") {
		t.Error(wrong)
	}
	t.Logf("what was done:\n%s", strings.Join(u.schedule, "\n"))
}

// backAndForth stops or kills one node after another and starts it as one release or the other,
// some killed again in the middle of it, and leaves them as the older one.
func (u *upgrade) backAndForth() {
	u.Helper()
	steps, err := strconv.Atoi(os.Getenv("PENTAD_UPGRADES"))
	if err != nil {
		return // the short form
	}
	pick := func() release { return []release{u.older, u.newer}[u.random.IntN(2)] }
	for range steps {
		i := u.random.IntN(len(u.nodes))
		if u.random.IntN(2) == 0 {
			u.end(i)
		} else {
			u.note("kill -9, node %d", i)
			u.nodes[i].kill()
		}
		for u.random.IntN(2) == 0 {
			u.killMidway(i, pick())
		}
		as := pick()
		u.startAs(i, as)
		u.runs(i, as)
		u.goesOn()
	}
	for i := range u.nodes {
		u.become(i, u.older)
	}
}

// tooLate starts nodes of the level before in a cluster that was raised: one that was killed at
// once, so that the raise may be in its log alone, and a new one.
func (u *upgrade) tooLate() {
	u.Helper()
	u.refused(u.nodes[2])
	u.refused(u.nodes[2]) // as it was
	said, code := u.pentad(u.older, "check", u.nodes[2].dir)
	// A raise that is in its log alone is nothing that a check of files can see.
	unseen := code == 0 && strings.Contains(said, ": no damage (")
	refused := code == exitForbidden && strings.Contains(said, u.tooHigh()) && !calledDamaged(said)
	if !unseen && !refused {
		u.Errorf("pentad check of the level before ends with %d: %s", code, said)
	}
	fourth := u.newMachine(3)
	fourth.onLoopback(u.T)
	u.Cleanup(fourth.kill)
	u.refused(fourth)
	if _, err := os.Stat(filepath.Join(fourth.dir, "groups")); err == nil {
		u.Error("a new node of the level before was given a replica")
	}
	v, err := u.view(0)
	if err != nil || len(v.Nodes) != len(u.nodes) {
		u.Errorf("the cluster has %d nodes, %v", len(v.Nodes), err)
	}
}
