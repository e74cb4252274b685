package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/warmcode"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
)

// groupsOfFarm are few, so that each is met by every fault.
const (
	groupsOfFarm = 8
	slotsOfGroup = 16384 / groupsOfFarm // until it is split
)

// healTimeout bounds how long a cluster takes to be well again. A slow machine is no failure.
const healTimeout = 5 * time.Minute

// farm is a cluster of processes, and what was done to it.
type farm struct {
	*testing.T
	bin, root, token string
	nodes            []*machine
	wires            *wires // nil: all on the loopback of this machine
	began            time.Time
	ask              *http.Client

	mu       sync.Mutex // guards what follows
	schedule []string
	noted    string   // the last of these
	missing  []string // what this machine cannot do
}

// machine is a node with its disk and its place in the network.
type machine struct {
	i                  int
	bin                string // program that it runs when it is started next
	dir, log           string
	clock              string // file that says by how much its clock is wrong; "": it is right
	host               string
	http, raft, gossip string
	space              string // of the network, by path; "" for that of the test
	disk               *disk  // nil: a directory
	cmd                *exec.Cmd
	ended              chan struct{} // closed when the process is gone
	frozen             bool
}

// newFarm starts a cluster and waits until each group has all its replicas. Without a seal of its
// own a node of this size would never write a segment.
func newFarm(t *testing.T, nodes int) *farm {
	t.Helper()
	f := emptyFarm(t, build(t))
	for i := range nodes {
		m := f.newMachine(i)
		m.clock = filepath.Join(f.root, fmt.Sprintf("node%d.clock", i))
		f.nodes = append(f.nodes, m)
	}
	f.connect()
	for _, m := range f.nodes {
		if f.can("mkfs.ext4", "mount", "umount") {
			m.disk = newDisk(f, m)
		}
	}
	f.startAll()
	return f
}

func emptyFarm(t *testing.T, bin string) *farm {
	t.Helper()
	root, err := os.MkdirTemp("", "pentad-faults-")
	if err != nil {
		t.Fatal(err)
	}
	f := &farm{T: t, root: root, bin: bin, began: time.Now(), ask: newAsk(),
		token: filepath.Join(root, "token")}
	t.Cleanup(f.end)
	f.run(f.bin, "cluster", "init", f.token)
	return f
}

func (f *farm) newMachine(i int) *machine {
	f.Helper()
	m := &machine{i: i, bin: f.bin, dir: filepath.Join(f.root, fmt.Sprint("node", i)),
		host: "127.0.0.1", log: filepath.Join(f.root, fmt.Sprintf("node%d.log", i))}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		f.Fatal(err)
	}
	return m
}

func (f *farm) startAll() {
	f.Helper()
	for i, m := range f.nodes {
		warmcode.Fill(f.T, m.dir, true)
		f.start(i)
	}
	f.until("each group has its replicas", f.settled)
}

func newAsk() *http.Client {
	return &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second}
}

// connect gives the machines a network that can be cut, or ports of the loopback.
func (f *farm) connect() {
	if f.can("ip", "nsenter") {
		f.wires = newWires(f)
	}
	for _, m := range f.nodes {
		if f.wires != nil {
			m.http, m.raft, m.gossip = m.host+":5150", m.host+":5151", m.host+":5152"
			continue
		}
		m.onLoopback(f.T)
	}
}

func (m *machine) onLoopback(t *testing.T) {
	t.Helper()
	m.http, m.raft, m.gossip = freeAddress(t), freeAddress(t), freeAddress(t)
}

// can reports whether this machine has root and tools, and notes what is missing.
func (f *farm) can(tools ...string) bool {
	var missing []string
	if os.Getuid() != 0 {
		missing = append(missing, "root")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	for _, what := range missing {
		if !slices.Contains(f.missing, what) {
			f.missing = append(f.missing, what)
		}
	}
	return len(missing) == 0
}

// run runs a tool that must do what it is told.
func (f *farm) run(name string, args ...string) {
	f.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		f.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// note keeps what was done, with its time.
func (f *farm) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if text == f.noted {
		return // of a wait that looks again and again
	}
	f.noted = text
	f.schedule = append(f.schedule, fmt.Sprintf("%8.3f s  %s", time.Since(f.began).Seconds(), text))
}

// start starts a node and does not wait for it.
func (f *farm) start(i int) {
	f.Helper()
	f.launch(f.nodes[i])
}

func (f *farm) launch(m *machine) {
	f.Helper()
	args := []string{m.bin, "serve", "--dir", m.dir, "--listen", m.http, "--raft-listen",
		m.raft, "--gossip-listen", m.gossip, "--cluster-token", f.token, "--zone",
		fmt.Sprint("z", m.i), "--insecure"}
	_, err := os.Stat(filepath.Join(m.dir, "cluster", "NODE"))
	first := err != nil && m.i == 0
	if first {
		args = append(args, "--cluster-init", "--groups", fmt.Sprint(groupsOfFarm))
	}
	for _, other := range f.nodes {
		if other != m && !first {
			args = append(args, "--join", other.gossip)
		}
	}
	if m.space != "" {
		args = append([]string{"nsenter", "--net=" + m.space}, args...)
	}
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	m.cmd = exec.Command(args[0], args[1:]...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if m.clock != "" {
		m.cmd.Env = append(os.Environ(), "PENTAD_CLOCK="+m.clock)
	}
	if err := m.cmd.Start(); err != nil {
		f.Fatal(err)
	}
	cmd, ended := m.cmd, make(chan struct{})
	m.ended = ended
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(ended)
	}()
}

// kill ends a node as loss of power of its processor does.
func (m *machine) kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill() // it may be gone
	<-m.ended
	m.cmd, m.frozen = nil, false
}

// losePower ends the process before its disk is gone, and waits for nothing. It must not see that:
// of a file system that is shut down while it syncs, the kernel may say that all is on disk, and a
// replica that lived on would acknowledge what no longer is.
func (m *machine) losePower() {
	if m.cmd != nil {
		m.signal(syscall.SIGKILL)
	}
}

func (m *machine) signal(s syscall.Signal) { _ = m.cmd.Process.Signal(s) }

// alive reports whether the process runs.
func (m *machine) alive() bool {
	if m.cmd == nil {
		return false
	}
	select {
	case <-m.ended:
		return false
	default:
		return true
	}
}

// until waits for something; what it waited for in vain is a failure. It counts how often it has
// looked, and not the time in which a machine stood still.
func (f *farm) until(what string, ok func() bool) {
	f.Helper()
	const step = 100 * time.Millisecond // what it asks costs all nodes
	for looked := 0; !ok(); looked++ {
		f.supervise()
		if looked > int(healTimeout/step) {
			f.fatal("waited %s until %s", healTimeout, what)
		}
		pause(f.T, step)
	}
}

// exitDisk is how a node ends whose disk does not do what it is told, or not in time.
const exitDisk = 75

// supervise starts nodes that ended themselves; nothing but a disk may make them.
func (f *farm) supervise() {
	f.Helper()
	for i, m := range f.nodes {
		if m.cmd == nil || m.alive() {
			continue
		}
		f.note("node %d ended by itself: %s", i, m.cmd.ProcessState)
		if m.cmd.ProcessState.ExitCode() != exitDisk {
			f.fatal("node %d ended by itself: %s; see %s", i, m.cmd.ProcessState, m.log)
		}
		m.kill()
		f.start(i)
	}
}

// groupView is what a node says of a group.
type groupView struct {
	Group    uint32 `json:"group"`
	Leader   string `json:"leader"`
	Replicas []struct {
		Node    string `json:"node"`
		Learner bool   `json:"learner"`
	} `json:"replicas"`
}

// clusterView is what a node says of the cluster.
type clusterView struct {
	api.Cluster
	Groups []groupView `json:"groups"`
}

func (f *farm) view(i int) (v clusterView, err error) {
	resp, err := f.ask.Get("http://" + f.nodes[i].http + "/v1/cluster")
	if err != nil {
		return v, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return v, errors.New(resp.Status)
	}
	return v, json.NewDecoder(resp.Body).Decode(&v)
}

// settled reports whether all nodes know all voters and leaders of the same groups.
func (f *farm) settled() bool {
	voters, groups := min(len(f.nodes), 3), 0
	for i := range f.nodes {
		v, err := f.view(i)
		if i == 0 {
			groups = len(v.Groups)
		}
		if err != nil || len(v.Groups) <= groupsOfFarm || len(v.Groups) != groups || v.Plans > 0 {
			return false
		}
		for _, g := range v.Groups {
			count := 0
			for _, r := range g.Replicas {
				if !r.Learner {
					count++
				}
			}
			if count < voters || strings.Trim(g.Leader, "0-") == "" {
				return false
			}
		}
	}
	return true
}

// ready reports whether all nodes are ready: the loss of any one is a single fault then.
func (f *farm) ready() bool {
	for _, n := range f.nodes {
		resp, err := f.ask.Get("http://" + n.http + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return false
		}
	}
	return true
}

// replicas returns the nodes that hold each group of slots.
func (f *farm) replicas() [][]int {
	f.Helper()
	var v clusterView
	f.until("a node tells where replicas are", func() bool {
		var err error
		v, err = f.view(0)
		return err == nil
	})
	nodes := map[string]int{}
	for _, n := range v.Nodes {
		for i, m := range f.nodes {
			if n.HTTP == m.http {
				nodes[n.ID] = i
			}
		}
	}
	out := make([][]int, len(v.Groups)-1)
	for _, g := range v.Groups[1:] {
		for _, r := range g.Replicas {
			out[g.Group-1] = append(out[g.Group-1], nodes[r.Node])
		}
	}
	return out
}

// parts returns how each group of slots is asked for, with the slots of those that were split.
func (f *farm) parts() (out []string) {
	f.Helper()
	f.until("a node tells which slots groups have", func() bool {
		ctx, cancel := short(f.Context())
		defer cancel()
		c := f.client(0)
		defer func() { _ = c.Close() }()
		all, err := c.ClusterGroups(ctx)
		for _, s := range all[min(1, len(all)):] {
			part, first := strconv.Itoa(int(s.Group)), (s.Group-1)*slotsOfGroup
			if s.FromSlot != first || s.ToSlot != first+slotsOfGroup {
				part += fmt.Sprintf(":%d-%d", s.FromSlot, s.ToSlot)
			}
			out = append(out, part)
		}
		return err == nil
	})
	return out
}

// client returns a client of a node, whether that is there or not.
func (f *farm) client(i int) *client.Client {
	c, err := client.New(f.nodes[i].http)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return c
}

// fatal fails with all that is needed to find out why.
func (f *farm) fatal(format string, args ...any) {
	f.Helper()
	f.Errorf(format, args...)
	f.tell()
	f.FailNow()
}

// tell prints what was done, and where directories and logs are.
func (f *farm) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Logf("directories and logs are kept in %s; what was done:\n%s", f.root,
		strings.Join(f.schedule, "\n"))
	for i, m := range f.nodes {
		resp, err := f.ask.Get("http://" + m.http + "/v1/cluster/groups")
		if err != nil {
			f.Logf("node %d: %v", i, err)
			continue
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		f.Logf("node %d: %s, %v", i, text, err)
	}
}

// end ends all processes and removes what they left, unless someone has to look at it.
func (f *farm) end() {
	for _, m := range f.nodes {
		m.kill()
	}
	f.ask.CloseIdleConnections()
	if f.wires != nil {
		f.wires.close()
	}
	for _, m := range f.nodes {
		if m.disk != nil {
			m.disk.end(f.Failed())
		}
	}
	if !f.Failed() {
		if err := os.RemoveAll(f.root); err != nil {
			f.Error(err)
		}
	}
}

// logged finds words that no node may log.
func (f *farm) logged(words ...string) (wrong []string) {
	for _, m := range f.nodes {
		text, err := os.ReadFile(m.log)
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		for _, word := range words {
			if at := bytes.Index(text, []byte(word)); at >= 0 {
				wrong = append(wrong, fmt.Sprintf("node %d: %s", m.i,
					text[at:min(at+2000, len(text))]))
			}
		}
	}
	return wrong
}

// short is a context for one query.
func short(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 5*time.Second)
}
