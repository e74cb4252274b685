package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
)

// RouteAdmin sends an AdminCommand as JSON to the leader of the meta group: POST.
const RouteAdmin = "/v1/cluster/act"

// Verbs of an AdminCommand.
const (
	Show      = ""          // changes nothing
	Drain     = "drain"     // the copies of a node move away, and then it has left
	Undrain   = "undrain"   // takes that back, as long as it has not left
	Remove    = "remove"    // a node is lost for good: its copies are made again now
	Rebalance = "rebalance" // sets how fast copies move
	Split     = "split"     // parts a group, or all of them, in two
	Raise     = "raise"     // raises the feature level to the greatest that all nodes run
)

// AdminCommand is what an operator asks of a cluster.
type AdminCommand struct {
	ID          uint64  `json:"id"` // by which it is known when it comes again; drawn when 0
	Verb        string  `json:"verb"`
	Node        string  `json:"node"` // an id, the beginning of one, or an address; of some verbs
	DryRun      bool    `json:"dry_run"`
	FewerCopies bool    `json:"fewer_copies"`  // Drain also if too few nodes are left
	Copies      *uint32 `json:"copies"`        // Rebalance: of cluster.Limits, nil as it is
	BytesPerSec *uint64 `json:"bytes_per_sec"` // likewise

	Group  cluster.GroupID `json:"group"`  // Split: which; 0 for all
	Groups int             `json:"groups"` // Split: how many there were when it was asked for
}

// lookTimeout is how long those who look at the cluster wait for who leads it, who waits for nodes
// that are silent: askTimeout/2 for their health, then askTimeout for their replicas.
const lookTimeout = 2*askTimeout + time.Second

// preview returns what is ahead, and what is in the way of knowing it.
func (m *Member) preview(ctx context.Context) (api.ClusterPreview, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookTimeout, ErrUnavailable)
	defer cancel()
	return m.Admin(ctx, AdminCommand{})
}

// Admin lets the leader of the meta group do something, or say what would happen.
//
// Errors: *wire.Error; ErrUnavailable; of ctx.
func (m *Member) Admin(ctx context.Context, a AdminCommand) (api.ClusterPreview, error) {
	if a.ID == 0 {
		a.ID, a.Groups = drawID(), m.View().DataGroups()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, ErrUnavailable)
	defer cancel()
	for {
		p, err := m.adminOnce(ctx, a)
		switch {
		case errors.Is(err, replica.ErrNotLeader), errors.Is(err, replica.ErrGroupUnknown),
			errors.Is(err, ErrUnavailable), errors.Is(err, replica.ErrUnknown):
			m.hint(cluster.MetaGroup, err)
		default:
			return p, err
		}
		select {
		case <-time.After(mostPause):
		case <-ctx.Done():
			return p, fmt.Errorf("who leads the cluster: %w (%w)", context.Cause(ctx), err)
		case <-m.open.Done():
			return p, replica.ErrClosed
		}
	}
}

func (m *Member) adminOnce(ctx context.Context, a AdminCommand) (p api.ClusterPreview, err error) {
	id := m.Leader(cluster.MetaGroup)
	if id == m.self.ID {
		return m.adminHere(ctx, a)
	}
	n, ok := m.locate(id)
	if !ok {
		return p, ErrUnavailable
	}
	body, err := json.Marshal(a)
	if err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout) // it may be frozen, and another lead soon
	defer cancel()
	text, err := m.ask(ctx, http.MethodPost, n.HTTPAddr, RouteAdmin+forNode(n.ID), body)
	var remote *wire.Error
	switch {
	case err == nil:
		return p, json.Unmarshal(text, &p)
	case errors.As(err, &remote):
		return p, decodeLeaderError(cluster.MetaGroup, remote)
	}
	return p, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// serveAdmin answers RouteAdmin.
func (m *Member) serveAdmin(ctx context.Context, body []byte) ([]byte, error) {
	var a AdminCommand
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, &wire.Error{Kind: wire.KindInvalid, Part: "body", Message: err.Error()}
	}
	p, err := m.adminHere(ctx, a)
	if err != nil {
		return nil, encodeLeaderError(err)
	}
	return json.Marshal(p)
}

// adminHere does a command as the leader of the meta group.
func (m *Member) adminHere(ctx context.Context, a AdminCommand) (p api.ClusterPreview, err error) {
	st, err := m.run.Status(cluster.MetaGroup)
	if err != nil {
		return p, err
	}
	if st.Leader != st.Replica {
		return p, &replica.NotLeaderError{Group: cluster.MetaGroup, Leader: st.Leader}
	}
	before := m.View()
	if before.Cluster == (cluster.ID{}) {
		return p, ErrUnavailable
	}
	health := m.Health(before)
	cmds, id, err := m.commands(ctx, before, health, a)
	if err != nil {
		return p, err
	}
	after, changed, err := m.decide(ctx, before, cmds, a)
	if err != nil {
		return p, err
	}
	said := m.collectReports(ctx, after)
	p = preview(after, cluster.NextMoves(after, health, cluster.PlanOptions{}), sizes(said))
	p.Blocked = append(p.Blocked, noQuorum(after, &health, said, p.Blocked)...)
	p.Changed = changed
	p.Feature, p.Raisable = after.Feature, after.Raisable()
	if n, ok := after.Node(id); ok {
		p.Node, p.State = id.String(), n.State.String()
		p.Notes = removalNotes(before, after, n)
	}
	return p, nil
}

// decide does commands one after the other, or asks a copy of the state what they would do. Several
// are done if all of them would be.
func (m *Member) decide(
	ctx context.Context, before *cluster.View, cmds []cluster.Command, a AdminCommand,
) (after *cluster.View, changed bool, err error) {
	after = before
	if a.DryRun || len(cmds) > 1 {
		if after, changed, err = m.wouldDo(before, cmds); err != nil || a.DryRun {
			return after, changed, err
		}
	}
	for _, cmd := range cmds {
		if _, err := cluster.AppendCommand(nil, cmd); err != nil {
			return nil, false, &wire.Error{Kind: wire.KindInvalid, Message: err.Error()}
		}
		id := a.ID
		if a.Verb == Split || a.Verb == Raise { // each does something once, whenever it comes
			id = drawID()
		}
		var new bool
		if after, new, err = m.command(ctx, cmd, id); err != nil {
			return nil, false, refusal(err)
		}
		changed = changed || new
	}
	return after, changed, nil
}

// wouldDo asks a copy of the state what commands would do.
func (m *Member) wouldDo(
	before *cluster.View, cmds []cluster.Command,
) (after *cluster.View, changed bool, err error) {
	if len(cmds) == 0 {
		return before, false, nil
	}
	state, err := cluster.ParseState(m.state())
	if err != nil {
		return nil, false, refusal(err)
	}
	for _, cmd := range cmds {
		data, err := cluster.AppendCommand(nil, cmd)
		if err != nil {
			return nil, false, &wire.Error{Kind: wire.KindInvalid, Message: err.Error()}
		}
		result, err := state.Apply(data)
		if err = errors.Join(err, result.Err); err != nil {
			return nil, false, refusal(err)
		}
		changed = changed || result.Changed
	}
	return state.View(), changed, nil
}

// command does a command that is known by an id.
func (m *Member) command(
	ctx context.Context, cmd cluster.Command, id uint64,
) (after *cluster.View, changed bool, err error) {
	answer, err := m.commandIdempotent(ctx, cmd, id)
	st, _ := m.run.Status(cluster.MetaGroup) // a replica that is gone leads nothing
	if err == nil && (st.Leader == 0 || st.Leader != st.Replica) {
		err = &replica.NotLeaderError{Leader: st.Leader} // its view may be the old one
	}
	return m.View(), answer.Changed, err
}

// commands returns the changes of the state that an admin command asks for; none for nothing. The
// node is that which it is about, or 0.
func (m *Member) commands(
	ctx context.Context, v *cluster.View, h cluster.Health, a AdminCommand,
) ([]cluster.Command, cluster.NodeID, error) {
	switch a.Verb {
	case Split:
		cmds, err := m.splits(ctx, v, a)
		return cmds, 0, err
	case Raise:
		return raises(v), 0, nil
	}
	cmd, id, err := command(v, h, a)
	if cmd == nil || err != nil {
		return nil, id, err
	}
	return []cluster.Command{cmd}, id, nil
}

// raises returns the commands that raise the feature level to the greatest that all nodes run.
// Where there is none above and some node runs one, the state refuses, and names a node that does
// not.
func raises(v *cluster.View) (cmds []cluster.Command) {
	to := v.Raisable()
	for _, n := range v.Nodes {
		if to == v.Feature && n.State != cluster.NodeLeft && n.MaxFeature > to {
			to++
		}
	}
	for level := v.Feature + 1; level <= to; level++ {
		cmds = append(cmds, &cluster.RaiseFeature{Level: level})
	}
	return cmds
}

// command returns the change of the state that an admin command asks for; nil for nothing. The
// node is that which it is about, or 0.
func command(
	v *cluster.View, h cluster.Health, a AdminCommand,
) (cmd cluster.Command, id cluster.NodeID, err error) {
	switch a.Verb {
	case Show:
		return nil, 0, nil
	case Rebalance:
		limits := v.Limits
		if a.Copies != nil {
			limits.Copies = *a.Copies
		}
		if a.BytesPerSec != nil {
			limits.BytesPerSec = *a.BytesPerSec
		}
		if limits == v.Limits {
			return nil, 0, nil
		}
		return &cluster.SetLimits{Limits: limits}, 0, nil
	}
	n, err := findNode(v, a.Node)
	if err != nil {
		return nil, 0, err
	}
	set := &cluster.SetNodeState{Node: n.ID, Fewer: a.FewerCopies}
	switch a.Verb {
	case Drain:
		set.State = cluster.NodeDraining
	case Undrain:
		set.State = cluster.NodeUp
	case Remove:
		set.State = cluster.NodeRemoving
	default:
		return nil, 0, &wire.Error{Kind: wire.KindInvalid, Part: "verb",
			Message: fmt.Sprintf("there is no verb %.40q", a.Verb)}
	}
	switch {
	case n.State == cluster.NodeLeft && a.Verb != Undrain,
		n.State == cluster.NodeRemoving && a.Verb == Drain:
		return nil, n.ID, nil // it is on its way, or there
	case a.Verb == Undrain && n.State == cluster.NodeJoining:
		return nil, n.ID, nil
	case a.Verb == Remove && n.State != cluster.NodeRemoving:
		return set, n.ID, refuseIfAlive(n, h.Nodes[n.ID])
	}
	return set, n.ID, nil
}

// refuseIfAlive refuses to give a node up that may be there.
func refuseIfAlive(n cluster.Node, h cluster.NodeHealth) error {
	switch {
	case h.Unreachable == 0:
		return forbidden("node %v answers: drain it, or stop it for good before it is removed",
			n.ID)
	case !h.GossipDead:
		return forbidden("node %v does not answer, but gossip has not given it up yet; try again "+
			"in some seconds", n.ID)
	}
	return nil
}

func forbidden(format string, args ...any) error {
	return &wire.Error{Kind: wire.KindForbidden, Part: "node",
		Message: fmt.Sprintf(format, args...)}
}

// refusal gives what the state says to a command the form that crosses the network.
func refusal(err error) error {
	for sentinel, kind := range map[error]wire.Kind{cluster.ErrRefused: wire.KindForbidden,
		cluster.ErrUnknown: wire.KindNotFound, cluster.ErrStale: wire.KindInvalid} {
		if errors.Is(err, sentinel) {
			return &wire.Error{Kind: kind, Part: "node", Message: err.Error()}
		}
	}
	return err
}

// findNode returns the node that is meant by an id, by the first digits of its id that are not 0,
// or by an address.
func findNode(v *cluster.View, name string) (found cluster.Node, err error) {
	bad := func(kind wire.Kind, text string) error {
		return &wire.Error{Kind: kind, Part: "node", Message: fmt.Sprintf("node %.80q: %s; pentad "+
			"cluster nodes lists them", name, text)}
	}
	if name == "" {
		return found, bad(wire.KindInvalid, "an id, the beginning of one, or an address is wanted")
	}
	matches := 0
	for _, n := range v.Nodes {
		id := n.ID.String()
		if id == name {
			return n, nil
		}
		at := n.State != cluster.NodeLeft && (n.HTTPAddr == name || n.RaftAddr == name)
		if at || strings.HasPrefix(id, name) ||
			strings.HasPrefix(strings.TrimLeft(id, "0"), name) {
			found = n
			matches++
		}
	}
	switch matches {
	case 0:
		return found, bad(wire.KindNotFound, "there is no such node")
	case 1:
		return found, nil
	}
	return found, bad(wire.KindInvalid, fmt.Sprintf("%d nodes begin so, or are there", matches))
}
