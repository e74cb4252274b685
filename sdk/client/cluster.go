package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Cluster is what a node knows of the cluster that it is in.
type Cluster struct {
	Cluster     string          `json:"cluster"`
	Epoch       uint64          `json:"epoch"`
	Node        string          `json:"node"` // that was asked
	Nodes       []ClusterNode   `json:"nodes"`
	Plans       int             `json:"plans"`   // changes of groups that are under way
	Changes     int             `json:"changes"` // that are left to begin
	Running     []ClusterChange `json:"running"`
	Blocked     []string        `json:"blocked"` // what does not go on by itself, and what to do
	Copies      int             `json:"copies"`  // of copies that move, see ClusterPreview
	BytesPerSec int64           `json:"bytes_per_sec"`

	Feature  int `json:"feature"`  // level of the cluster
	Raisable int `json:"raisable"` // to which it can be raised: all nodes run it

	CopiesTarget int `json:"copies_target"` // that each group should have
	CopiesFewest int `json:"copies_fewest"` // of the group that has the fewest
	GroupsFewer  int `json:"groups_fewer"`  // groups that have fewer than they should
}

// ClusterScrub is how far the search for damage is in the segments of a node.
type ClusterScrub struct {
	Read   int64 `json:"read_bytes"` // in the present pass
	Bytes  int64 `json:"bytes"`      // that there are
	LastNs int64 `json:"last_ns"`    // when the last pass ended, of all replicas; 0: one never has
}

// ClusterNode is a node of a cluster. Only ClusterNodes fills in what follows Scrub.
type ClusterNode struct {
	ID       string `json:"id"`
	State    string `json:"state"`  // that the cluster has decided on
	Gossip   string `json:"gossip"` // what the node that was asked thinks of it
	Role     string `json:"role"`
	Zone     string `json:"zone"`
	HTTP     string `json:"http"`
	Replicas int    `json:"replicas"`
	Leads    int    `json:"leads"`
	// ClockAheadNs is how far its machine's clock is ahead of that of the node that was asked; nil:
	// not known. ClockOff: other nodes contradict its clock, so it leaves leadership to others.
	ClockAheadNs *int64 `json:"clock_ahead_ns"`
	ClockOff     bool   `json:"clock_off"`
	// Scrub is how far the node's search for damage is; nil: there is none, or it did not say.
	Scrub *ClusterScrub `json:"scrub"`

	Raft        string `json:"raft"`
	GossipAddr  string `json:"gossip_addr"`
	Starts      uint64 `json:"starts"`
	MinFeature  int    `json:"min_feature"` // levels of what its program can do
	MaxFeature  int    `json:"max_feature"`
	Program     string `json:"program"` // version that it runs; "" for not known
	Weight      int    `json:"weight"`
	DiskPercent int    `json:"disk_percent"`
	Bytes       int64  `json:"bytes"` // of its replicas
	Error       string `json:"error"` // why it does not answer
}

// ClusterGroup is a group of slots and its copies. Group 0 has no slots: it keeps the state of the
// cluster.
type ClusterGroup struct {
	Group    int           `json:"group"`
	FromSlot int           `json:"from_slot"` // it owns slots [from, to)
	ToSlot   int           `json:"to_slot"`
	Epoch    uint64        `json:"epoch"` // of the cluster when its copies last changed
	Leader   string        `json:"leader"`
	ClosedNs int64         `json:"closed_ns"` // the greatest horizon of its copies; 0: unknown
	LagNs    int64         `json:"lag_ns"`    // of that behind the clock
	Bytes    int64         `json:"bytes"`     // of its largest copy
	Copies   []ClusterCopy `json:"copies"`
	Moves    string        `json:"moves"` // what runs or is due; "" for nothing
	Why      string        `json:"why"`
	Waits    string        `json:"waits"` // what the move waits for
}

// ClusterCopy is one copy of a group.
type ClusterCopy struct {
	Node     string `json:"node"`
	Replica  uint64 `json:"replica"`
	Learner  bool   `json:"learner"` // it has no vote yet
	Leads    bool   `json:"leads"`
	Applied  uint64 `json:"applied"` // entries of its log
	Last     uint64 `json:"last"`
	ClosedNs int64  `json:"closed_ns"`
	BehindNs int64  `json:"behind_ns"` // the copy that is furthest
	Bytes    int64  `json:"bytes"`
	Error    string `json:"error"`
}

// ClusterChange is a change of where a group is. What is "" is not.
type ClusterChange struct {
	Group int    `json:"group"`
	Add   string `json:"add"`   // node that gets a copy
	From  string `json:"from"`  // node whose copy goes
	Stage string `json:"stage"` // of one that runs
	Why   string `json:"why"`
	Waits string `json:"waits"` // what it waits for
	Bytes int64  `json:"bytes"` // to copy, about
}

// ClusterPreview is what is ahead after an act, or would be after one that was not done.
type ClusterPreview struct {
	Changed bool            `json:"changed"` // it was not so before
	Node    string          `json:"node"`    // that it was about
	State   string          `json:"state"`   // of that node
	Changes []ClusterChange `json:"changes"` // that are left to begin, the most urgent first
	Running []ClusterChange `json:"running"`
	Blocked []string        `json:"blocked"` // what does not go on by itself, and what to do
	Notes   []string        `json:"notes"`   // what to know before

	Copies      int   `json:"copies"`        // that a node takes in at a time
	BytesPerSec int64 `json:"bytes_per_sec"` // of copies that a node sends
	Bytes       int64 `json:"bytes"`         // of the copies that are left to begin, about

	Feature  int `json:"feature"`  // level of the cluster
	Raisable int `json:"raisable"` // to which RaiseFeature would raise it
}

// Cluster returns what the node knows of its cluster; one that is in none answers that it is not
// found.
func (c *Client) Cluster(ctx context.Context) (out Cluster, err error) {
	return out, c.getJSON(ctx, "/v1/cluster", &out)
}

// ClusterNodes returns all that is known of the nodes, those that have left included.
func (c *Client) ClusterNodes(ctx context.Context) ([]ClusterNode, error) {
	var out struct {
		Nodes []ClusterNode `json:"nodes"`
	}
	err := c.getJSON(ctx, "/v1/cluster/nodes", &out)
	return out.Nodes, err
}

// ClusterGroups returns how the groups and their copies are.
func (c *Client) ClusterGroups(ctx context.Context) ([]ClusterGroup, error) {
	var out struct {
		Groups []ClusterGroup `json:"groups"`
	}
	err := c.getJSON(ctx, "/v1/cluster/groups", &out)
	return out.Groups, err
}

// ClusterAct is what DrainNode, UndrainNode and RemoveNode take. Node is an id, the beginning of
// one, or an address.
type ClusterAct struct {
	Node        string
	DryRun      bool // only say what would happen
	FewerCopies bool // DrainNode: also if too few nodes are left for all copies
}

// DrainNode lets the copies of a node move away; when it holds none it has left for good.
func (c *Client) DrainNode(ctx context.Context, a ClusterAct) (ClusterPreview, error) {
	return c.act(ctx, "drain", a.values())
}

// UndrainNode takes back that a node is drained, as long as it has not left.
func (c *Client) UndrainNode(ctx context.Context, a ClusterAct) (ClusterPreview, error) {
	return c.act(ctx, "undrain", a.values())
}

// RemoveNode says that a node which does not answer is lost for good: its copies are made anew now.
func (c *Client) RemoveNode(ctx context.Context, a ClusterAct) (ClusterPreview, error) {
	return c.act(ctx, "remove", a.values())
}

// ClusterLimits say how fast copies move; nil leaves a limit as it is, and 0 makes it the usual.
type ClusterLimits struct {
	Copies      *uint32 // that a node takes in at a time
	BytesPerSec *uint64 // of copies that a node sends
}

// Rebalance sets limits, and says what is left until copies are where they should be: they go there
// by themselves.
func (c *Client) Rebalance(
	ctx context.Context, l ClusterLimits, dryRun bool,
) (ClusterPreview, error) {
	values := ClusterAct{DryRun: dryRun}.values()
	if l.Copies != nil {
		values.Set("copies", strconv.FormatUint(uint64(*l.Copies), 10))
	}
	if l.BytesPerSec != nil {
		values.Set("bytes_per_sec", strconv.FormatUint(*l.BytesPerSec, 10))
	}
	return c.act(ctx, "rebalance", values)
}

// SplitGroup parts the slots of a group between it and a new one on the same nodes; group 0 stands
// for all groups.
func (c *Client) SplitGroup(
	ctx context.Context, group uint32, dryRun bool,
) (ClusterPreview, error) {
	values := ClusterAct{DryRun: dryRun}.values()
	if values.Set("group", "all"); group != 0 {
		values.Set("group", strconv.FormatUint(uint64(group), 10))
	}
	return c.act(ctx, "split", values)
}

// RaiseFeature raises the feature level of the cluster to the greatest that all nodes run. From
// then on they use what the older version of the program did not know, and there is no way back. It
// is refused while a node runs the older version only; without a level above, nothing is changed.
func (c *Client) RaiseFeature(ctx context.Context, dryRun bool) (ClusterPreview, error) {
	return c.act(ctx, "raise", ClusterAct{DryRun: dryRun}.values())
}

func (a ClusterAct) values() url.Values {
	values := url.Values{}
	if a.Node != "" {
		values.Set("node", a.Node)
	}
	for name, set := range map[string]bool{"dry_run": a.DryRun, "fewer_copies": a.FewerCopies} {
		if set {
			values.Set(name, "1")
		}
	}
	return values
}

func (c *Client) act(
	ctx context.Context, verb string, values url.Values,
) (out ClusterPreview, err error) {
	path := "/v1/cluster/" + verb
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return out, c.doJSON(ctx, http.MethodPost, path, "", nil, &out)
}
