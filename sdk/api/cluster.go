package api

// ClusterStatus is what a node knows of its cluster without asking others.
type ClusterStatus struct {
	Cluster string          `json:"cluster"`
	Epoch   uint64          `json:"epoch"`
	Node    string          `json:"node"` // that was asked
	Nodes   []NodeStatus    `json:"nodes"`
	Groups  []GroupReplicas `json:"groups"`
	Plans   int             `json:"plans"` // changes of groups that are in progress

	Feature  uint32 `json:"feature"`  // level of the cluster
	Raisable uint32 `json:"raisable"` // to which it can be raised: all nodes run it
	CopyCounts
}

// CopyCounts says how many copies the groups have, and how many they should have.
type CopyCounts struct {
	CopiesTarget int `json:"copies_target"` // of each group
	CopiesFewest int `json:"copies_fewest"` // of the group that has the fewest
	GroupsFewer  int `json:"groups_fewer"`  // groups that have fewer than they should
}

// Cluster is the answer of GET /v1/cluster: a status, and the changes that its leader has planned.
type Cluster struct {
	ClusterStatus
	Changes     int             `json:"changes"` // that have not begun
	Running     []ClusterChange `json:"running"`
	Blocked     []string        `json:"blocked"` // what does not go on by itself, and what to do
	Copies      uint32          `json:"copies"`  // that move at a time, see ClusterPreview
	BytesPerSec int64           `json:"bytes_per_sec"`
}

// NodeStatus is what one node knows of another.
type NodeStatus struct {
	ID       string `json:"id"`
	State    string `json:"state"`  // that the cluster has decided on
	Gossip   string `json:"gossip"` // what the node that was asked thinks of it
	Role     string `json:"role"`
	Zone     string `json:"zone"`
	HTTP     string `json:"http"`
	Replicas int    `json:"replicas"`
	Leads    int    `json:"leads"` // groups, as far as is known
	// ClockAheadNs is how far its machine's clock is ahead of that of the node that was asked; nil:
	// it was not heard of lately. ClockOff: other nodes contradict its clock, so it leaves
	// leadership to them.
	ClockAheadNs *int64 `json:"clock_ahead_ns,omitempty"`
	ClockOff     bool   `json:"clock_off,omitempty"`
	// Scrub is how far the node's search for damage is; nil: there is none, or the node was not
	// asked or did not say.
	Scrub *ScrubProgress `json:"scrub,omitempty"`
}

// ScrubProgress is how far the search for damage is in the segments of a node.
type ScrubProgress struct {
	Read   int64 `json:"read_bytes"` // in the present pass
	Bytes  int64 `json:"bytes"`      // that there are
	LastNs int64 `json:"last_ns"`    // when the last pass ended, of all replicas; 0: one never has
}

// ClusterNodes is the answer of GET /v1/cluster/nodes: all nodes, those that have left included.
type ClusterNodes struct {
	Nodes []ClusterNode `json:"nodes"`
}

// ClusterNode is all that is known of a node.
type ClusterNode struct {
	NodeStatus
	Raft        string `json:"raft"`
	GossipAddr  string `json:"gossip_addr"`
	Starts      uint64 `json:"starts"`
	MinFeature  uint32 `json:"min_feature"` // levels that its program runs
	MaxFeature  uint32 `json:"max_feature"`
	Program     string `json:"program"` // version that it runs; "" for not known
	Weight      uint32 `json:"weight"`
	DiskPercent uint32 `json:"disk_percent"`
	Bytes       int64  `json:"bytes"` // of its replicas
	Error       string `json:"error"` // why it does not answer
}

// GroupReplicas says where the replicas of a group are.
type GroupReplicas struct {
	Group    uint32          `json:"group"`
	Leader   string          `json:"leader"`
	Replicas []ReplicaStatus `json:"replicas"`
}

// ReplicaStatus is one replica of a group.
type ReplicaStatus struct {
	Node    string `json:"node"`
	Learner bool   `json:"learner"` // it has no vote yet
}

// ClusterGroups is the answer of GET /v1/cluster/groups.
type ClusterGroups struct {
	Groups []ClusterGroup `json:"groups"`
}

// ClusterGroup is a group and its copies. Group 0 has no slots: it keeps the state of the cluster.
type ClusterGroup struct {
	Group    uint32        `json:"group"`
	FromSlot uint32        `json:"from_slot"` // it owns slots [from, to)
	ToSlot   uint32        `json:"to_slot"`
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
	BehindNs int64  `json:"behind_ns"` // its horizon, behind that of the furthest copy
	Bytes    int64  `json:"bytes"`
	Error    string `json:"error"`
}

// ClusterChange moves, adds or drops a copy of a group, or splits the group. Parts that do not
// apply are "".
type ClusterChange struct {
	Group uint32 `json:"group"`
	Add   string `json:"add"`   // node that gets a copy
	From  string `json:"from"`  // node whose copy goes
	Stage string `json:"stage"` // of one that runs
	Why   string `json:"why"`
	Waits string `json:"waits"` // what it waits for
	Bytes int64  `json:"bytes"` // to copy, about
}

// StageSplit is the stage of a change that splits a group.
const StageSplit = "split"

// String says where the copies of the group go.
func (c *ClusterChange) String() string {
	switch {
	case c.Stage == StageSplit:
		return c.Stage
	case c.Add == "":
		return "drop " + c.From
	case c.From == "":
		return "add " + c.Add
	}
	return c.From + " to " + c.Add
}

// ClusterPreview is the answer to a command for the cluster: what follows from it, or with dry_run
// would follow.
type ClusterPreview struct {
	Changed bool            `json:"changed"`         // the command was not done before
	Node    string          `json:"node,omitempty"`  // that it was about
	State   string          `json:"state,omitempty"` // of that node
	Changes []ClusterChange `json:"changes"`         // that have not begun, the most urgent first
	Running []ClusterChange `json:"running"`
	Blocked []string        `json:"blocked"` // what does not go on by itself, and what to do
	Notes   []string        `json:"notes"`   // what an operator should know before

	Copies      uint32 `json:"copies"`        // that a node takes in at a time
	BytesPerSec int64  `json:"bytes_per_sec"` // of copies that a node sends
	Bytes       int64  `json:"bytes"`         // of the copies that have not begun, about

	Feature  uint32 `json:"feature"`  // level of the cluster
	Raisable uint32 `json:"raisable"` // to which a raise would bring it
}
