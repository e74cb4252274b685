package cluster

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/slots"
)

// NodeID names a node for ever; it is drawn at random when the node's directory is made. Zero is
// none. It has 40 bits, so that it fits into the ids of replicas together with their numbers.
type NodeID uint64

const (
	nodeIDBytes = 5
	maxNodeID   = NodeID(1<<(8*nodeIDBytes) - 1)
	// maxReplicaID is the highest number of a replica: more than a cluster of 4,096 groups uses up
	// when it moves as a whole once a day for three years.
	maxReplicaID = ReplicaID(1<<24 - 1)
)

// String returns the 16 hexadecimal digits by which people and gossip know a node.
func (id NodeID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// ParseNodeID reads what String wrote.
func ParseNodeID(text string) (NodeID, error) {
	v, err := strconv.ParseUint(text, 16, 64)
	if err != nil || v == 0 || NodeID(v).String() != text {
		return 0, fmt.Errorf("node id %.40q: 16 hexadecimal digits, not all of them 0, are wanted",
			text)
	}
	return NodeID(v), nil
}

// ID names a cluster for ever. The zero ID is none.
type ID [16]byte

// String returns the 32 hexadecimal digits of the id.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads what String wrote.
func ParseID(text string) (ID, error) {
	var id ID
	if len(text) != 2*len(id) {
		return id, errors.New("a cluster id has 32 hexadecimal digits")
	}
	if _, err := hex.Decode(id[:], []byte(text)); err != nil || id.String() != text {
		return ID{}, errors.New("a cluster id has 32 hexadecimal digits")
	}
	if id == (ID{}) {
		return id, errors.New("a cluster id is not all zeros")
	}
	return id, nil
}

// ReplicaID names one replica of one group and is never given out again, so that a replica that
// lost its log does not come back as one that remembers its votes. Zero is none.
type ReplicaID uint64

// PlanID names one change of one group.
type PlanID uint64

// Role says what a node is for.
type Role uint8

// Roles.
const (
	RoleCore Role = 1 // holds replicas
	RoleEdge Role = 2 // ships what it collected; counts for nothing
)

func (r Role) String() string { return name(roles(), r) }

func roles() map[Role]string { return map[Role]string{RoleCore: "core", RoleEdge: "edge"} }

// NodeState says what the cluster has decided about a node. Whether it runs is another question.
type NodeState uint8

// States of a node.
const (
	NodeJoining  NodeState = 1 // known, gets no replicas yet
	NodeUp       NodeState = 2
	NodeDraining NodeState = 3 // its replicas move away
	NodeLeft     NodeState = 4 // for good; its id is not taken back
	// NodeRemoving: an operator has said that it is lost for good, so its replicas are made again.
	NodeRemoving NodeState = 5
)

func (s NodeState) String() string { return name(nodeStates(), s) }

func nodeStates() map[NodeState]string {
	return map[NodeState]string{NodeJoining: "joining", NodeUp: "up", NodeDraining: "draining",
		NodeLeft: "left", NodeRemoving: "removing"}
}

// name returns the text of a value of a small set.
func name[T ~uint8](names map[T]string, v T) string {
	if text, ok := names[v]; ok {
		return text
	}
	return fmt.Sprintf("unknown(%d)", v)
}

// Replica is one copy of a group.
type Replica struct {
	ID      ReplicaID
	Node    NodeID
	Learner bool // is catching up, and has no vote
}

// Group is a range of slots and where its copies are.
type Group struct {
	Epoch    uint64    // of the state when the replicas last changed
	Replicas []Replica // by id
	// Slots are what it owns if it was split, or split off another group; else they are zero, and
	// it owns its part of what the cluster began with.
	Slots slots.Range
	// Parent is the group that it was split off; 0 for none.
	Parent GroupID
	// Born is above the ids of the replicas with which it was split off.
	Born ReplicaID
	// Splitting: it is not known yet whether its replicas have begun.
	Splitting bool
}

// Node is what the cluster knows of a node.
type Node struct {
	ID          NodeID
	Incarnation uint64 // counts the starts of the node; addresses of the highest hold
	Role        Role
	State       NodeState
	Zone        string // nodes that may fail together
	RaftAddr    string // host:port
	HTTPAddr    string // host:port
	MinFeature  uint32 // feature levels that its program can run with
	MaxFeature  uint32
	Weight      uint32 // its part of the replicas, beside the weights of others; 100 is usual
	DiskPercent uint32 // how full its disk was when it last said
	Program     string // version that it runs; "" below feature level 11, and until it has said
}

// Stage says how far a plan is.
type Stage uint8

// Stages of a plan.
const (
	// StageAdd: the group's leader adds the learner, which catches up.
	StageAdd Stage = 1
	// StageSwap: the leader makes it a voter and takes the old replica out, in one joint change.
	StageSwap Stage = 2
)

func (s Stage) String() string { return name(stages(), s) }

func stages() map[Stage]string {
	return map[Stage]string{StageAdd: "add", StageSwap: "swap"}
}

// Plan is one change of a group's replicas that is in progress. A group has one at most.
type Plan struct {
	ID     PlanID
	Group  GroupID
	Add    NodeID    // gets a replica; 0: none is added
	Learn  ReplicaID // the replica that it gets
	Remove ReplicaID // goes; 0: none does
	Stage  Stage
}

const (
	// MaxGroups bounds the groups of a cluster.
	MaxGroups = 4096
	// MaxReplicas bounds the copies of a group.
	MaxReplicas = 7
	// MaxNodes bounds the nodes that a cluster remembers, those that left included.
	MaxNodes = 1 << 16

	maxAddrBytes = 255 + 6   // a host name, a colon, a port
	maxZoneBytes = 64        // of a zone's name
	maxWeight    = 1_000_000 // so that sums stay exact in a float64
)
