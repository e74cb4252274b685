package replica

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/accept"
	"github.com/pentad-db/pentad/node/internal/durable"
)

// cluster is some nodes in this process, over loopback.
type cluster struct {
	t      testing.TB
	dir    string
	groups int
	retain int64                            // bytes of log for each group; 0 for the default
	tls    func(node uint64) *tls.Config    // nil for plain TCP
	files  func(node uint64) durable.Folder // nil for directories
	answer func(node uint64, request []byte) []byte
	heard  func(node, from uint64, note []byte) []byte
	nodes  map[uint64]*clusterNode

	mu    sync.Mutex // guards addrs
	addrs map[uint64]string
}

type clusterNode struct {
	*Runtime
	machines map[GroupID]*list
	failed   chan error
}

func newCluster(t testing.TB, groups int) *cluster {
	c := &cluster{t: t, dir: t.TempDir(), groups: groups, nodes: map[uint64]*clusterNode{},
		addrs: map[uint64]string{}}
	t.Cleanup(func() {
		for id := range c.nodes {
			c.stop(id)
		}
	})
	return c
}

func (c *cluster) voters(nodes int) (out []uint64) {
	for id := range nodes {
		out = append(out, NewID(uint64(id+1), 1))
	}
	return out
}

func (c *cluster) resolve(node uint64) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	addr, ok := c.addrs[node]
	return addr, ok
}

// open opens a node; groups that it has are started with what their machines kept.
func (c *cluster) open(id uint64) *clusterNode {
	c.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.addrs[id] = listener.Addr().String()
	c.mu.Unlock()
	var files durable.Folder
	if c.files != nil {
		files = c.files(id)
	} else if files, err = Directory(filepath.Join(c.dir, fmt.Sprint(id))); err != nil {
		c.t.Fatal(err)
	}
	n := &clusterNode{machines: map[GroupID]*list{}, failed: make(chan error, 1)}
	if old := c.nodes[id]; old != nil {
		n.machines = old.machines
	}
	opt := Options{Node: id, Cluster: 7, Files: files, Resolve: c.resolve,
		Listener: accept.New(listener, nil), PlainTCP: c.tls == nil, Groups: c.groups,
		Fail: func(err error) { n.failed <- err }}
	if c.tls != nil {
		opt.TLS = c.tls(id)
	}
	if c.heard != nil {
		opt.Heard = func(node uint64, note []byte) []byte { return c.heard(id, node, note) }
	}
	if c.answer != nil {
		opt.Answer = func(request []byte) []byte { return c.answer(id, request) }
	}
	r, report, err := Open(opt)
	if err != nil || len(report.Damage) > 0 {
		c.t.Fatal(err, report)
	}
	n.Runtime = r
	if c.retain > 0 {
		r.core.retain = c.retain
	}
	for g := range r.Groups() {
		n.machines[g] = n.machines[g].afterCrash()
		if err := r.Start(g, n.machines[g]); err != nil {
			c.t.Fatal(err)
		}
	}
	c.nodes[id] = n
	return n
}

func (c *cluster) stop(id uint64) {
	if err := c.nodes[id].Close(); err != nil && !errors.Is(err, ErrClosed) {
		c.t.Error(err)
	}
}

// create makes and starts a replica.
func (c *cluster) create(id uint64, group GroupID, replica uint64, voters []uint64) {
	c.t.Helper()
	n := c.nodes[id]
	if err := n.Create(c.t.Context(), group, replica, voters); err != nil {
		c.t.Fatal(err)
	}
	n.machines[group] = &list{}
	if err := n.Start(group, n.machines[group]); err != nil {
		c.t.Fatal(err)
	}
}

// boot opens nodes with all groups on each.
func (c *cluster) boot(nodes int) {
	for id := range uint64(nodes) {
		c.open(id + 1)
		for g := range c.groups {
			c.create(id+1, GroupID(g+1), NewID(id+1, 1), c.voters(nodes))
		}
	}
}

// eventually waits for something that must come, however slow the machine is.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(5 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s did not come", what)
		}
	}
}

// leader waits for the leader of a group among some nodes.
func (c *cluster) leader(group GroupID, among ...uint64) (leader uint64) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("a leader of group %d", group), func() bool {
		for _, id := range among {
			st, err := c.nodes[id].Status(group)
			if err == nil && Node(st.Leader) == id {
				leader = id
				return true
			}
		}
		return false
	})
	return leader
}

// propose proposes until it is applied, wherever the leader is; a command may be applied twice.
func (c *cluster) propose(group GroupID, data string, among ...uint64) any {
	c.t.Helper()
	for {
		id := c.leader(group, among...)
		result, err := c.nodes[id].Propose(c.t.Context(), group, []byte(data))
		if err == nil {
			return result
		}
		if !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrUnknown) &&
			!errors.Is(err, ErrOverloaded) {
			c.t.Fatal(err)
		}
	}
}

// caughtUp waits until a node has applied what the leader has.
func (c *cluster) caughtUp(group GroupID, id, leader uint64) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("group %d on node %d", group, id), func() bool {
		want, err := c.nodes[leader].Status(group)
		got, err2 := c.nodes[id].Status(group)
		return err == nil && err2 == nil && want.Last > 0 && got.Applied >= want.Last
	})
}

func TestThreeNodes(t *testing.T) {
	c := newCluster(t, 2)
	c.boot(3)
	for i := range 20 {
		c.propose(GroupID(1+i%2), fmt.Sprint("a", i), 1, 2, 3)
	}
	leader := c.leader(1, 1, 2, 3)
	follower := leader%3 + 1
	_, err := c.nodes[follower].Propose(t.Context(), 1, []byte("x"))
	for err == nil || errors.Is(err, ErrUnknown) { // on a slow machine it may have been elected
		leader = c.leader(1, 1, 2, 3)
		follower = leader%3 + 1
		_, err = c.nodes[follower].Propose(t.Context(), 1, []byte("x"))
	}
	var hint *NotLeaderError
	if !errors.As(err, &hint) || hint.Group != 1 || !errors.Is(err, ErrNotLeader) ||
		hint.Leader != 0 && Node(hint.Leader) == follower {
		t.Errorf("a follower answers %v", err)
	}
	_, err = c.nodes[1].Propose(t.Context(), 9, []byte("x"))
	if !errors.Is(err, ErrGroupUnknown) || !strings.Contains(err.Error(), "group 9") {
		t.Errorf("an unknown group answers %v", err)
	}
	eventually(t, "a read index", func() bool {
		index, err := c.nodes[follower].ReadIndex(t.Context(), 1)
		st, _ := c.nodes[follower].Status(1)
		if err == nil && (index == 0 || st.Applied < index) {
			t.Errorf("read index %d; %+v", index, st)
		}
		return err == nil
	})

	c.stop(leader)
	rest := slices.DeleteFunc([]uint64{1, 2, 3}, func(id uint64) bool { return id == leader })
	for i := range 20 {
		c.propose(GroupID(1+i%2), fmt.Sprint("b", i), rest...)
	}
	c.open(leader)
	for g := GroupID(1); g <= 2; g++ {
		c.propose(g, "last", 1, 2, 3)
		for id := uint64(1); id <= 3; id++ {
			c.caughtUp(g, id, c.leader(g, 1, 2, 3))
		}
	}
	c.nodes[1].TransferLeader(1, 0) // to no one: nothing happens
	for id := uint64(1); id <= 3; id++ {
		c.stop(id)
	}
	if _, err := c.nodes[1].Propose(t.Context(), 1, []byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed runtime answers %v", err)
	}
	for g := GroupID(1); g <= 2; g++ {
		for id := uint64(2); id <= 3; id++ {
			if a, b := c.nodes[1].machines[g], c.nodes[id].machines[g]; a.String() != b.String() {
				t.Errorf("group %d: node 1 has %s, node %d %s", g, a, id, b)
			}
		}
		if len(c.nodes[1].machines[g].commands) < 21 {
			t.Errorf("group %d has %s", g, c.nodes[1].machines[g])
		}
	}
}

// certificates returns TLS configs of nodes that one authority vouches for.
func certificates(t *testing.T, name func(node uint64) string) func(uint64) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	make := func(c *x509.Certificate) []byte {
		der, err := x509.CreateCertificate(rand.Reader, c, root, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	parsed, err := x509.ParseCertificate(make(root))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return func(node uint64) *tls.Config {
		der := make(&x509.Certificate{SerialNumber: big.NewInt(int64(node) + 1),
			DNSNames: []string{name(node)}, NotAfter: time.Now().Add(time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
				x509.ExtKeyUsageClientAuth}})
		return &tls.Config{RootCAs: pool, ClientCAs: pool, Certificates: []tls.Certificate{
			{Certificate: [][]byte{der}, PrivateKey: key}}}
	}
}

// Nodes talk over TLS, and one whose certificate is another's is not heard.
func TestCertificates(t *testing.T) {
	c := newCluster(t, 1)
	c.tls = certificates(t, func(node uint64) string {
		if node == 3 {
			return TLSName(2)
		}
		return TLSName(node)
	})
	c.boot(3)
	c.propose(1, "a", 1, 2)
	c.nodes[3].TransferLeader(1, NewID(3, 1))
	c.propose(1, "b", 1, 2)
	if st, err := c.nodes[3].Status(1); err != nil || st.Leader != 0 || st.Applied > 1 {
		t.Errorf("an impostor takes part: %+v, %v", st, err)
	}
}

// A new node gets a snapshot, becomes a voter in the place of another, and that is gone for ever.
func TestMembers(t *testing.T) {
	c := newCluster(t, 1)
	c.retain = 2000
	c.boot(3)
	for i := range 100 {
		c.propose(1, fmt.Sprintf("command %d %0100d", i, i), 1, 2, 3)
	}
	leader := c.leader(1, 1, 2, 3)
	eventually(t, "a truncated log", func() bool {
		c.propose(1, fmt.Sprintf("more %0100d", 0), leader)
		first, _ := c.nodes[leader].core.journal.lookup(1).FirstIndex()
		return first > 10
	})
	c.open(4)
	c.create(4, 1, NewID(4, 1), nil)
	change := func(change Change) error {
		leader := c.leader(1, slices.Sorted(maps.Keys(c.nodes))...)
		return c.nodes[leader].Change(t.Context(), 1, change)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(change(Change{AddLearner: []uint64{NewID(4, 1)}}))
	c.caughtUp(1, 4, leader)
	leader = c.leader(1, 1, 2, 3)
	gone := leader%3 + 1
	notJoint := func() bool {
		for _, n := range c.nodes {
			if st, err := n.Status(1); err == nil && st.Joint {
				return false
			}
		}
		return true
	}
	eventually(t, "the second phase", notJoint)
	must(change(Change{Promote: []uint64{NewID(4, 1)}, Remove: []uint64{NewID(gone, 1)}}))
	eventually(t, "the second phase", notJoint)
	for _, refused := range []Change{{}, {AddLearner: []uint64{NewID(gone, 1)}},
		{AddLearner: []uint64{NewID(4, 1)}}, {Promote: []uint64{NewID(9, 1)}},
		{Remove: []uint64{NewID(gone, 1)}}} {
		if err := change(refused); !errors.Is(err, ErrChangeRefused) {
			t.Errorf("change %+v answers %v", refused, err)
		}
	}
	must(c.nodes[gone].Drop(t.Context(), 1))
	if err := c.nodes[gone].Create(t.Context(), 1, NewID(gone, 1), nil); err == nil {
		t.Error("a replica came back under its id")
	}
	c.create(gone, 1, NewID(gone, 2), nil)
	must(change(Change{AddLearner: []uint64{NewID(gone, 2)}}))
	c.caughtUp(1, gone, leader)
	c.propose(1, "last", 1, 2, 3, 4)
	for id := range c.nodes {
		c.caughtUp(1, id, c.leader(1, 1, 2, 3, 4))
	}
	for id := range c.nodes {
		c.stop(id)
	}
	for id, n := range c.nodes {
		if n.machines[1].String() != c.nodes[leader].machines[1].String() {
			t.Errorf("node %d differs from node %d", id, leader)
		}
	}
}

// slowDisk is a directory whose syncs wait when told to.
type slowDisk struct {
	durable.Folder
	mu   sync.Mutex
	hold chan struct{}
}

func (d *slowDisk) Create(name string) (durable.File, error) {
	f, err := d.Folder.Create(name)
	return slowFile{f, d}, err
}

type slowFile struct {
	durable.File
	d *slowDisk
}

func (f slowFile) Sync() error {
	f.d.mu.Lock()
	hold := f.d.hold
	f.d.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return f.File.Sync()
}

// A leader whose disk does not answer gives leadership away, and does not take it.
func TestStalledDisk(t *testing.T) {
	c := newCluster(t, 4)
	disks := map[uint64]*slowDisk{}
	c.files = func(node uint64) durable.Folder {
		files, err := Directory(filepath.Join(c.dir, fmt.Sprint(node)))
		if err != nil {
			t.Fatal(err)
		}
		disks[node] = &slowDisk{Folder: files}
		return disks[node]
	}
	c.boot(3)
	c.propose(1, "a", 1, 2, 3)
	leader := c.leader(1, 1, 2, 3)
	d := disks[leader]
	hold := make(chan struct{})
	d.mu.Lock()
	d.hold = hold
	d.mu.Unlock()
	rest := slices.DeleteFunc([]uint64{1, 2, 3}, func(id uint64) bool { return id == leader })
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := c.nodes[leader].Propose(ctx, 1, []byte("b")) // makes it write
		answer <- err
	}()
	for g := GroupID(1); g <= 4; g++ {
		c.propose(g, "c", rest...)
		eventually(t, "the end of its leadership", func() bool {
			st, _ := c.nodes[leader].Status(g)
			return Node(st.Leader) != leader
		})
	}
	cancel()
	if err := <-answer; err != nil && !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	d.mu.Lock()
	d.hold = nil
	d.mu.Unlock()
	close(hold)
	for g := GroupID(1); g <= 4; g++ {
		c.propose(g, "d", 1, 2, 3)
		c.caughtUp(g, leader, c.leader(g, 1, 2, 3))
	}
}
