package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Config is what an operator says about a node and its cluster. The zero value means: no cluster.
type Config struct {
	TokenFile  string   // holds the cluster's token; what makes a node one of a cluster
	Init       bool     // this is the first node, which makes the cluster
	Join       []string // host[:port] of the gossip of nodes that are in it
	Bind       string   // host:port of this node's gossip; default 127.0.0.1:5152
	Advertise  string   // host that others reach this node at; default: that of Bind
	RaftBind   string   // host:port that groups talk to each other at; default 127.0.0.1:5151
	Zone       string   // nodes that may fail together, such as a rack; default: one for all
	Role       string   // core or edge; default core
	Groups     int      // of a new cluster; default 8. It is fixed when a cluster is made
	Replicas   int      // of each group of a new cluster; default 3
	Weight     int      // of this node's part of the data, beside that of others; default 100
	HTTPListen string   // host:port of the node's HTTP, of which others are told
	// FoundWait is how long the first node of a new cluster waits for signs of one that is there
	// already; default 6 s, in which nodes that look for it have found it.
	FoundWait time.Duration
	// Features are the levels that the node runs; default: Supported.
	Features Features
	Program  string // version of the program, which the other nodes are told
	// TrustCopy says that the operator vouches for the directory: the other nodes are not asked
	// whether it lacks something that this node promised.
	TrustCopy bool
}

const (
	// DefaultGroups of a new cluster: enough for half a dozen nodes. A batch is a command for each.
	DefaultGroups = 8
	// DefaultReplicas survive the loss of one node.
	DefaultReplicas = 3
	// DefaultRaftBind is where groups talk to each other.
	DefaultRaftBind = "127.0.0.1:5151"

	defaultBind   = "127.0.0.1:5152"
	defaultWeight = 100
	gossipPort    = "5152"
	maxSeeds      = 64
)

var zoneForm = regexp.MustCompile(`^[A-Za-z0-9._/-]{0,64}$`)

// Complete fills in what was left out, and says what is wrong and what to write instead.
func (c Config) Complete() (Config, error) {
	if c.TokenFile == "" {
		return c, errors.New("cluster: token file missing; make one with the first node, and " +
			"copy it to the others")
	}
	if c.Bind == "" {
		c.Bind = defaultBind
	}
	if c.RaftBind == "" {
		c.RaftBind = DefaultRaftBind
	}
	if c.Role == "" {
		c.Role = RoleCore.String()
	}
	if c.Weight == 0 {
		c.Weight = defaultWeight
	}
	var err error
	if c.Join, err = seeds(c.Join); err != nil {
		return c, err
	}
	if c.Init && len(c.Join) > 0 {
		return c, errors.New("cluster: a node either makes a cluster or joins one; leave out one")
	}
	if !c.Init && (c.Groups != 0 || c.Replicas != 0) {
		return c, errors.New("cluster: groups and replicas are fixed by who makes a cluster; " +
			"leave them out where a node joins")
	}
	if c.Groups == 0 {
		c.Groups = DefaultGroups
	}
	if c.Replicas == 0 {
		c.Replicas = DefaultReplicas
	}
	if c.Features == (Features{}) {
		c.Features = Supported()
	}
	return c, c.check()
}

func (c Config) check() error {
	if err := c.Features.check(); err != nil {
		return err
	}
	if len(c.Program) > maxProgramBytes {
		return fmt.Errorf("cluster: a version of %d bytes, at most %d are possible",
			len(c.Program), maxProgramBytes)
	}
	if c.Groups < 0 || c.Groups > MaxGroups || c.Replicas < 0 || c.Replicas > MaxReplicas {
		return fmt.Errorf("cluster: %d groups and %d replicas: at most %d and %d are possible",
			c.Groups, c.Replicas, MaxGroups, MaxReplicas)
	}
	if err := checkSizes(uint32(c.Groups), uint32(c.Replicas)); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	role, err := ParseRole(c.Role)
	if err != nil {
		return err
	}
	if role == RoleEdge && len(c.Join) == 0 {
		return errors.New("cluster: an edge node cannot make a cluster; say which nodes to join")
	}
	if !zoneForm.MatchString(c.Zone) {
		return fmt.Errorf("cluster: zone %.80q: up to %d letters, digits, dots, dashes, _ and / "+
			"are wanted", c.Zone, maxZoneBytes)
	}
	if c.Weight < 1 || c.Weight > maxWeight {
		return fmt.Errorf("cluster: weight %d: out of range; use 1 to %d, e.g. 100", c.Weight,
			maxWeight)
	}
	if strings.Contains(c.Advertise, ":") && net.ParseIP(c.Advertise) == nil {
		return fmt.Errorf("cluster: advertise %.80q: give a host without a port; the ports "+
			"are those that are listened on", c.Advertise)
	}
	if role == RoleEdge { // others need not reach it
		return c.reachable("gossip", c.Bind)
	}
	return cmp.Or(c.reachable("gossip", c.Bind), c.reachable("raft", c.RaftBind),
		c.reachable("http", c.HTTPListen))
}

// reachable wants an address that others can use, with the host that is told to them.
func (c Config) reachable(what, addr string) error {
	told, err := c.told(addr)
	if err != nil {
		return fmt.Errorf("cluster: %s: %w", what, err)
	}
	if err := checkAddr(told); err != nil {
		return fmt.Errorf("cluster: %s listens on %s; say with advertise which host others reach "+
			"it at: %w", what, addr, err)
	}
	return nil
}

// told returns what others are told of an address that is listened on.
func (c Config) told(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("address %.80q: not HOST:PORT", addr)
	}
	if c.Advertise != "" {
		host = c.Advertise
	}
	return net.JoinHostPort(host, port), nil
}

// ParseRole reads a role as people write it.
func ParseRole(text string) (Role, error) {
	for role, name := range roles() {
		if name == text {
			return role, nil
		}
	}
	return 0, fmt.Errorf("cluster: role %.80q is unknown; use core or edge", text)
}

// seeds checks addresses, and gives those without a port that of gossip.
func seeds(addrs []string) ([]string, error) {
	if len(addrs) > maxSeeds {
		return nil, fmt.Errorf("cluster: %d nodes to join, at most %d; a few are enough, as they "+
			"tell of the others", len(addrs), maxSeeds)
	}
	var out []string
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			host, port = strings.Trim(addr, "[]"), gossipPort
		}
		n, err := strconv.ParseUint(port, 10, 16)
		bad := strings.Contains(host, ":") && net.ParseIP(host) == nil
		if host == "" || bad || err != nil || n == 0 {
			return nil, fmt.Errorf("cluster: join %.80q: host or host:port is wanted, such as "+
				"10.0.0.1 or db-1.example:%s", addr, gossipPort)
		}
		out = append(out, net.JoinHostPort(host, port))
	}
	return out, nil
}

// Node returns what a completed configuration says of a node.
func (c Config) Node(self Self) (Node, error) {
	role, err := ParseRole(c.Role)
	if err != nil {
		return Node{}, err
	}
	n := Node{ID: self.ID, Incarnation: self.Incarnation, Role: role, State: NodeJoining,
		Zone: c.Zone, MinFeature: c.Features.First, MaxFeature: c.Features.Last,
		Weight: uint32(c.Weight)}
	if role == RoleEdge && c.HTTPListen == "" {
		return n, n.check()
	}
	if n.RaftAddr, err = c.told(c.RaftBind); err != nil {
		return Node{}, err
	}
	if n.HTTPAddr, err = c.told(c.HTTPListen); err != nil {
		return Node{}, err
	}
	return n, n.check()
}

// Gossip returns the options of gossip for a node.
func (c Config) Gossip(token Token, node Node) (GossipOptions, error) {
	told, err := c.told(c.Bind)
	return GossipOptions{Token: token, Meta: GossipMeta{Node: node}, Bind: c.Bind, Advertise: told,
		Seeds: c.Join}, err
}
