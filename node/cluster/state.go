package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/crc32c"
)

// Errors in results that callers branch on. Each is of the command alone: the state is as it was.
var (
	// ErrStale: what the command was decided on is not so any more; look again.
	ErrStale = errors.New("the cluster has changed meanwhile")
	// ErrUnknown: there is no such node, group or plan; a plan may be finished or given up.
	ErrUnknown = errors.New("not known to the cluster")
	// ErrRefused: a rule forbids it, now or ever.
	ErrRefused = errors.New("not allowed")
)

// Result is what a command did; the same on every replica.
type Result struct {
	Err     error
	Changed bool      // else it said what was so already
	Replica ReplicaID // that a plan adds
	Version uint64    // of the catalogue and the cursors, after a change of them
}

// State is what the cluster has decided: the truth of who is in it and where groups are. It is a
// function of the commands alone. One goroutine may use it at a time.
type State struct {
	cluster     ID // zero until created
	replicas    uint32
	feature     uint32
	epoch       uint64 // counts changes of nodes, groups, plans and the feature level
	nextReplica ReplicaID
	nodes       map[NodeID]Node
	groups      []Group // 0 is the group of this state; group g > 0 owns part g-1 of the slots
	plans       map[PlanID]Plan
	busy        map[GroupID]PlanID // groups with a plan
	catalog     catalog.State
	cursors     map[string]cursors.Cursor
	version     uint64 // counts changes of the catalogue and of cursors
	catalogAt   uint64 // the version when the catalogue changed last
	limits      Limits
	done        []done // the newest commands that were sent once, oldest first
	// known are the levels that the program runs, which are no part of the state.
	known Features
}

// GroupID is the number of a group: MetaGroup, or that of a group of data, from 1 on.
type GroupID = slots.GroupID

// MetaGroup is the group that keeps the state.
const MetaGroup = 0

// NewState returns the state before the first command.
func NewState() *State {
	return &State{nextReplica: 1, nodes: map[NodeID]Node{}, plans: map[PlanID]Plan{},
		busy: map[GroupID]PlanID{}, cursors: map[string]cursors.Cursor{},
		known: Features{First: 1, Last: newestFeature}}
}

// Apply applies a command of the log. An error means that the log or this program is wrong, and
// the node must stop; commands that are not allowed have it in their results. After an error the
// state is as it was.
//
// Errors: *LevelError for a level that is not run; *UnknownCommandError.
func (s *State) Apply(command []byte) (Result, error) {
	cmd, err := ParseCommand(command)
	if err != nil {
		return Result{}, err
	}
	if _, first := cmd.(*Create); !first && s.cluster == (ID{}) {
		return Result{Err: fmt.Errorf("%w: the cluster is not created yet", ErrRefused)}, nil
	}
	if level := s.raises(cmd); level > s.known.Last {
		return Result{}, &LevelError{Cluster: s.cluster, What: "a command of the log", Level: level,
			Known: s.known}
	}
	return cmd.apply(s), nil
}

const (
	snapshotMagic = "PTDM"
	// snapshotVersion 1: first; 2: groups have slots, written from splitFeature on; 3: nodes have
	// versions of the program, written from programFeature on. In all versions, also those to come,
	// the state begins with the cluster, the replicas and the feature level.
	snapshotVersion = 3
)

// versionAt returns the version of snapshots of a feature level.
func versionAt(feature uint32) byte {
	switch {
	case feature < splitFeature:
		return 1
	case feature < programFeature:
		return 2
	}
	return snapshotVersion
}

// AppendSnapshot appends the whole state: the same bytes for the same state.
func (s *State) AppendSnapshot(dst []byte) []byte {
	start := len(dst)
	version := versionAt(s.feature)
	c := &coder{dst: append(append(dst, snapshotMagic...), version)}
	s.fields(c, version)
	sum := crc32c.Sum(c.dst[start:])
	return append(c.dst, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
}

// ParseState reads what AppendSnapshot wrote.
//
// Errors: *LevelError for a state of a level that this package does not know.
func ParseState(src []byte) (*State, error) {
	body := len(src) - 4
	if body < len(snapshotMagic)+1 || string(src[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("state of a cluster: %w: no %s in front", errForm, snapshotMagic)
	}
	sum := crc32c.Sum(src[:body])
	if t := src[body:]; sum != uint32(t[0])|uint32(t[1])<<8|uint32(t[2])<<16|uint32(t[3])<<24 {
		return nil, fmt.Errorf("state of a cluster: %w: the checksum differs", errForm)
	}
	version := src[len(snapshotMagic)]
	s := NewState()
	c := &coder{src: src[len(snapshotMagic)+1 : body], reading: true}
	if version > snapshotVersion {
		if s.front(c); c.err == nil {
			return nil, &LevelError{Cluster: s.cluster, What: "the state of the cluster",
				Level: s.feature, Known: s.known}
		}
	}
	s.fields(c, version)
	err := c.end()
	if err == nil && s.feature > newestFeature {
		return nil, &LevelError{Cluster: s.cluster, What: "the state of the cluster",
			Level: s.feature, Known: s.known}
	}
	if err == nil && version != versionAt(s.feature) {
		err = fmt.Errorf("%w: version %d at feature level %d", errForm, version, s.feature)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, fmt.Errorf("state of a cluster: %w", err)
	}
	return s, nil
}

// front writes or reads what all versions begin with.
func (s *State) front(c *coder) {
	c.id(&s.cluster)
	number(c, &s.replicas)
	number(c, &s.feature)
}

// fields writes or reads the state; maps in the order of their keys.
func (s *State) fields(c *coder, version byte) {
	s.front(c)
	number(c, &s.epoch)
	number(c, &s.nextReplica)
	number(c, &s.version)
	number(c, &s.catalogAt)
	mapped(c, s.nodes, MaxNodes, cmp.Compare, func(id *NodeID, n *Node) {
		n.fields(c)
		if version > 2 {
			c.text(&n.Program, maxProgramBytes)
		}
		*id = n.ID
	})
	list(c, &s.groups, MaxGroups+1, func(g *Group) {
		number(c, &g.Epoch)
		list(c, &g.Replicas, 2*MaxReplicas, func(r *Replica) {
			number(c, &r.ID)
			number(c, &r.Node)
			c.flag(&r.Learner)
		})
		if version > 1 {
			g.splitFields(c)
		}
	})
	mapped(c, s.plans, MaxGroups+1, cmp.Compare, func(id *PlanID, p *Plan) {
		p.fields(c)
		*id = p.ID
	})
	s.catalogFields(c)
	s.limits.fields(c)
	s.doneFields(c)
	s.laterFields(c)
}

func (p *Plan) fields(c *coder) {
	number(c, &p.ID)
	number(c, &p.Group)
	number(c, &p.Add)
	number(c, &p.Learn)
	number(c, &p.Remove)
	number(c, &p.Stage)
}

// mapped writes or reads a map in the order of its keys.
func mapped[K comparable, V any](c *coder, m map[K]V, most int, compare func(a, b K) int,
	each func(*K, *V)) {
	if !c.reading {
		c.count(len(m), most)
		for _, k := range slices.SortedFunc(maps.Keys(m), compare) {
			v := m[k]
			each(&k, &v)
		}
		return
	}
	var last K
	for i := range c.count(0, most) {
		var k K
		var v V
		if each(&k, &v); c.err != nil {
			return
		}
		if i > 0 && compare(last, k) >= 0 {
			c.fail("keys are not in order")
			return
		}
		last, m[k] = k, v
	}
}

// check fills in what follows from the rest of a state that was read, and refuses one that commands
// cannot have made.
func (s *State) check() error {
	if s.cluster == (ID{}) {
		if len(s.nodes)+len(s.groups)+len(s.plans) > 0 || s.version > 0 || s.nextReplica != 1 ||
			s.limits != (Limits{}) || len(s.done) > 0 {
			return fmt.Errorf("%w: something before a cluster is created", errForm)
		}
		return nil
	}
	if err := cmp.Or(checkSizes(s.even(), s.replicas), s.limits.check(),
		s.checkSplits()); err != nil {
		return fmt.Errorf("%w: %w", errForm, err)
	}
	for _, n := range s.nodes {
		err := n.check()
		if err == nil && nodeStates()[n.State] == "" {
			err = fmt.Errorf("node %v is in state %d", n.ID, n.State)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errForm, err)
		}
	}
	for id, p := range s.plans {
		if int(p.Group) >= len(s.groups) || s.busy[p.Group] != 0 || id == 0 {
			return fmt.Errorf("%w: plan %d for group %d", errForm, id, p.Group)
		}
		s.busy[p.Group] = id
	}
	for g, group := range s.groups {
		if err := s.checkGroup(GroupID(g), group); err != nil {
			return err
		}
	}
	if err := s.checkDone(); err != nil {
		return err
	}
	return s.checkTold()
}

func (s *State) checkGroup(g GroupID, group Group) error {
	plan := s.plans[s.busy[g]]
	found, voters := 0, 0
	var last ReplicaID
	for _, r := range group.Replicas {
		_, known := s.nodes[r.Node]
		if !known || r.ID <= last || r.ID >= s.nextReplica || r.Learner != (r.ID == plan.Learn) {
			return fmt.Errorf("%w: replica %d of group %d", errForm, r.ID, g)
		}
		if r.ID == plan.Learn && r.Node == plan.Add || r.ID == plan.Remove {
			found++
		}
		if last = r.ID; !r.Learner {
			voters++
		}
	}
	want := 0
	for _, id := range []ReplicaID{plan.Learn, plan.Remove} {
		if id != 0 {
			want++
		}
	}
	badPlan := plan.ID != 0 && (want == 0 || stages()[plan.Stage] == "" ||
		(plan.Add == 0) != (plan.Learn == 0))
	if voters == 0 || found != want || badPlan || group.Epoch > s.epoch {
		return fmt.Errorf("%w: group %d has %d voters, or does not fit its plan", errForm, g,
			voters)
	}
	return nil
}
