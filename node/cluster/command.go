package cluster

import (
	"errors"
	"fmt"
	"math/bits"
	"net"
	"strconv"
)

// commandVersion of the form of commands. 1: first.
const commandVersion = 1

// Kinds of commands: append only, never give a number again.
const (
	commandCreate       = 1
	commandPutNode      = 2
	commandSetNodeState = 3
	commandStartPlan    = 4
	commandSwapPlan     = 5
	commandFinishPlan   = 6
	commandAbortPlan    = 7
	commandRaiseFeature = 8
	commandSetLimits    = 9
	commandIdempotent   = 10
	commandSplitGroup   = 11 // from feature level 2 on, as the next
	commandEndSplit     = 12
	commandSetProgram   = 13 // from feature level 11 on
	// From 16 on: what people told the cluster.
	commandChangeCatalog = 16
	commandCommitCursor  = 17
	commandDropCursor    = 18
	lastCommand          = commandDropCursor
)

// Command is a change of the state; AppendCommand writes it for the log.
type Command interface {
	kind() uint8
	fields(c *coder)
	check() error // what holds whatever the state is
	apply(s *State) Result
}

// UnknownCommandError says that this program is too old for a command of the log. The node must
// stop: going on without it would make another state than others have.
type UnknownCommandError struct{ Version, Kind uint8 }

func (e *UnknownCommandError) Error() string {
	return fmt.Sprintf("command of kind %d, version %d: this program knows kinds 1 to %d, version "+
		"%d; run the version of pentad that the other nodes run", e.Kind, e.Version,
		lastCommand, commandVersion)
}

// Unwrap returns ErrOtherRules.
func (*UnknownCommandError) Unwrap() error { return ErrOtherRules }

// Create is the first command of a cluster: its first node holds every group alone.
type Create struct {
	Cluster  ID
	Groups   uint32 // a power of two
	Replicas uint32 // of each group, once there are nodes enough
	Feature  uint32 // level to begin with
	First    Node   // its state is ignored: it is up
}

// PutNode makes a node known, as joining, or brings what changed about one that is. Its state is
// ignored.
type PutNode struct{ Node Node }

// SetNodeState moves a node along: joining to up, up to draining and back, any to removing, and
// from these to left when it holds no replica any more.
type SetNodeState struct {
	Node  NodeID
	State NodeState
	Fewer bool // drain it also when too few nodes are left for all copies
}

// StartPlan begins a change of one group. It is refused when the group is not at the epoch any
// more, or has a plan in progress. The same plan again changes nothing.
type StartPlan struct {
	ID     PlanID
	Group  GroupID
	Epoch  uint64 // of the group
	Add    NodeID
	Remove ReplicaID
}

// SwapPlan says that the learner has caught up and the group's leader may swap.
type SwapPlan struct{ ID PlanID }

// FinishPlan says that the group has swapped.
type FinishPlan struct{ ID PlanID }

// AbortPlan gives up a plan whose learner has not been swapped in yet.
type AbortPlan struct{ ID PlanID }

// RaiseFeature allows what needs a feature level, one above the present one.
type RaiseFeature struct{ Level uint32 }

// SetLimits bounds how fast copies move.
type SetLimits struct{ Limits }

func (*Create) kind() uint8       { return commandCreate }
func (*PutNode) kind() uint8      { return commandPutNode }
func (*SetNodeState) kind() uint8 { return commandSetNodeState }
func (*StartPlan) kind() uint8    { return commandStartPlan }
func (*SwapPlan) kind() uint8     { return commandSwapPlan }
func (*FinishPlan) kind() uint8   { return commandFinishPlan }
func (*AbortPlan) kind() uint8    { return commandAbortPlan }
func (*RaiseFeature) kind() uint8 { return commandRaiseFeature }
func (*SetLimits) kind() uint8    { return commandSetLimits }

// ofKind returns an empty command to read fields into.
func ofKind(kind uint8) Command {
	switch kind {
	case commandCreate:
		return new(Create)
	case commandPutNode:
		return new(PutNode)
	case commandSetNodeState:
		return new(SetNodeState)
	case commandStartPlan:
		return new(StartPlan)
	case commandSwapPlan:
		return new(SwapPlan)
	case commandFinishPlan:
		return new(FinishPlan)
	case commandAbortPlan:
		return new(AbortPlan)
	case commandRaiseFeature:
		return new(RaiseFeature)
	case commandSetLimits:
		return new(SetLimits)
	case commandIdempotent:
		return new(Idempotent)
	case commandSplitGroup:
		return new(SplitGroup)
	case commandEndSplit:
		return new(EndSplit)
	case commandSetProgram:
		return new(SetProgram)
	case commandChangeCatalog:
		return new(ChangeCatalog)
	case commandCommitCursor:
		return new(CommitCursor)
	case commandDropCursor:
		return new(DropCursor)
	}
	return nil
}

// AppendCommand checks and appends a command.
func AppendCommand(dst []byte, cmd Command) ([]byte, error) {
	if err := cmd.check(); err != nil {
		return dst, err
	}
	c := &coder{dst: append(dst, commandVersion, cmd.kind())}
	cmd.fields(c)
	if c.err != nil { // what cannot be read again would stop every replica
		return dst, c.err
	}
	return c.dst, nil
}

// ParseCommand reads what AppendCommand wrote; the command shares no memory with src.
func ParseCommand(src []byte) (Command, error) {
	if len(src) < 2 {
		return nil, fmt.Errorf("command: %w: %d bytes", errForm, len(src))
	}
	cmd := ofKind(src[1])
	if src[0] != commandVersion || cmd == nil {
		return nil, &UnknownCommandError{src[0], src[1]}
	}
	c := &coder{src: src[2:], reading: true}
	cmd.fields(c)
	err := c.end()
	if err == nil {
		err = cmd.check()
	}
	if err != nil {
		return nil, fmt.Errorf("command of kind %d: %w", src[1], err)
	}
	return cmd, nil
}

func (x *Create) fields(c *coder) {
	c.id(&x.Cluster)
	number(c, &x.Groups)
	number(c, &x.Replicas)
	number(c, &x.Feature)
	x.First.fields(c)
}

func (x *PutNode) fields(c *coder) { x.Node.fields(c) }

func (x *SetNodeState) fields(c *coder) {
	number(c, &x.Node)
	number(c, &x.State)
	c.flag(&x.Fewer)
}

func (x *SetLimits) fields(c *coder) { x.Limits.fields(c) }

func (x *StartPlan) fields(c *coder) {
	number(c, &x.ID)
	number(c, &x.Group)
	number(c, &x.Epoch)
	number(c, &x.Add)
	number(c, &x.Remove)
}

func (x *SwapPlan) fields(c *coder)     { number(c, &x.ID) }
func (x *FinishPlan) fields(c *coder)   { number(c, &x.ID) }
func (x *AbortPlan) fields(c *coder)    { number(c, &x.ID) }
func (x *RaiseFeature) fields(c *coder) { number(c, &x.Level) }

func (n *Node) fields(c *coder) {
	number(c, &n.ID)
	number(c, &n.Incarnation)
	number(c, &n.Role)
	number(c, &n.State)
	c.text(&n.Zone, maxZoneBytes)
	c.text(&n.RaftAddr, maxAddrBytes)
	c.text(&n.HTTPAddr, maxAddrBytes)
	number(c, &n.MinFeature)
	number(c, &n.MaxFeature)
	number(c, &n.Weight)
	number(c, &n.DiskPercent)
}

func (x *Create) check() error {
	switch {
	case x.Cluster == ID{}:
		return errors.New("create: a cluster needs an id")
	case x.First.Role != RoleCore:
		return errors.New("create: the first node of a cluster must be a core node")
	}
	if err := checkSizes(x.Groups, x.Replicas); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return x.First.check()
}

// checkSizes is what groups and replicas of a cluster may be.
func checkSizes(groups, replicas uint32) error {
	if groups == 0 || groups > MaxGroups || bits.OnesCount32(groups) != 1 {
		return fmt.Errorf("%d groups: not a power of two from 1 to %d", groups, MaxGroups)
	}
	if replicas == 0 || replicas > MaxReplicas || replicas%2 == 0 {
		return fmt.Errorf("%d replicas: 1, 3, 5 or %d are wanted, as an even number survives no "+
			"more failures than the odd one below it", replicas, MaxReplicas)
	}
	return nil
}

func (x *PutNode) check() error { return x.Node.check() }

func (x *SetNodeState) check() error {
	if nodeStates()[x.State] == "" || x.Node == 0 {
		return fmt.Errorf("node %v: there is no state %d", x.Node, x.State)
	}
	return nil
}

func (x *StartPlan) check() error {
	if x.ID == 0 || x.Add == 0 && x.Remove == 0 {
		return fmt.Errorf("plan for group %d: it has no id, or does nothing", x.Group)
	}
	return nil
}

func (*SwapPlan) check() error     { return nil }
func (*FinishPlan) check() error   { return nil }
func (*AbortPlan) check() error    { return nil }
func (*RaiseFeature) check() error { return nil }

func (n *Node) check() error {
	switch {
	case n.ID == 0:
		return errors.New("a node needs an id")
	case n.ID > maxNodeID:
		return fmt.Errorf("node %v: an id has 40 bits", n.ID)
	case roles()[n.Role] == "":
		return fmt.Errorf("node %v: there is no role %d", n.ID, n.Role)
	case len(n.Zone) > maxZoneBytes:
		return fmt.Errorf("node %v: zone %.80q has more than %d bytes", n.ID, n.Zone, maxZoneBytes)
	case n.MinFeature > n.MaxFeature:
		return fmt.Errorf("node %v: feature levels %d to %d", n.ID, n.MinFeature, n.MaxFeature)
	case n.Weight == 0 || n.Weight > maxWeight:
		return fmt.Errorf("node %v: weight %d is not in 1 to %d", n.ID, n.Weight, maxWeight)
	case n.DiskPercent > 100:
		return fmt.Errorf("node %v: disk use of %d %%: want 0 to 100", n.ID, n.DiskPercent)
	}
	for _, addr := range []string{n.RaftAddr, n.HTTPAddr} {
		if n.Role == RoleEdge && addr == "" {
			continue // no node needs to reach it
		}
		if err := checkAddr(addr); err != nil {
			return fmt.Errorf("node %v: %w", n.ID, err)
		}
	}
	return nil
}

// checkAddr wants what others can dial.
func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || len(addr) > maxAddrBytes {
		return fmt.Errorf("address %.80q: not HOST:PORT, e.g. 10.0.0.1:5151", addr)
	}
	if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 {
		return fmt.Errorf("address %.80q: the port must be 1 to 65535", addr)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("address %.80q: others cannot reach it; give one of this machine's own",
			addr)
	}
	return nil
}
