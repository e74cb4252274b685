package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/wire"
)

// A network may be cut so that this node does not reach the leader of a group and a third node
// reaches both. Then a command goes over the third, and that is asked to lead the group: each
// replica of the group reaches it.

// RouteLead asks a node that follows the leader of a group to lead it: POST ?group=.
const RouteLead = "/v1/cluster/lead"

const (
	// lookEvery is how often who waits for a leader's answer looks whether it still leads.
	lookEvery = 50 * time.Millisecond
	// guessTimeout bounds a request to a node that is only guessed to lead a group whose replica
	// here has no leader.
	guessTimeout = 500 * time.Millisecond
	// detourFor is how long a node that did not answer is gone around.
	detourFor = 3 * time.Second
	// relayTimeout bounds how long a node looks for a leader on behalf of another: less than that
	// one waits.
	relayTimeout = askTimeout * 3 / 4
	// mendEvery is how often a node looks for replicas here that do not hear their leader, and
	// mendAfter how long that lasts until others are asked: an election takes about a second.
	mendEvery = 500 * time.Millisecond
	mendAfter = 3 * time.Second
	// settleTime is for connections after a start, before which silence says nothing.
	settleTime = 10 * time.Second
	// A node that came to lead a group for the sake of another one keeps it from moving for balance
	// for minLeaderPin, and each time that this comes again for twice as long, up to maxLeaderPin.
	minLeaderPin = 30 * time.Second
	maxLeaderPin = 8 * time.Minute
)

// reach is what a member knows of which nodes it reaches. Its zero value is ready.
type reach struct {
	mu     sync.Mutex                    // guards everything below
	failed map[cluster.NodeID]time.Time  // when a node last did not answer a command
	pins   map[cluster.GroupID]leaderPin // groups that this node leads for the sake of others
}

// leaderPin keeps the leadership of a group here.
type leaderPin struct {
	until time.Time
	span  time.Duration
}

// note keeps whether a node answered.
func (r *reach) note(id cluster.NodeID, answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answered {
		delete(r.failed, id)
		return
	}
	if r.failed == nil {
		r.failed = map[cluster.NodeID]time.Time{}
	}
	r.failed[id] = time.Now()
}

// isSuspect reports whether a node did not answer a moment ago.
func (r *reach) isSuspect(id cluster.NodeID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, failed := r.failed[id]
	return failed && time.Since(at) < detourFor
}

// pinLeader keeps the leadership of a group here, from now on.
func (r *reach) pinLeader(group cluster.GroupID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pins == nil {
		r.pins = map[cluster.GroupID]leaderPin{}
	}
	h, again := r.pins[group]
	switch over := time.Since(h.until); {
	case !again || over > maxLeaderPin:
		h.span = minLeaderPin
	case over > 0:
		h.span = min(2*h.span, maxLeaderPin)
	}
	h.until = time.Now().Add(h.span)
	r.pins[group] = h
}

// isLeaderPinned reports whether the leadership of a group must stay here.
func (r *reach) isLeaderPinned(group cluster.GroupID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.pins[group].until)
}

// leaderHere returns whom the replica of a group here follows: 0 for none; known is false where no
// replica is here.
func (m *Member) leaderHere(group cluster.GroupID) (leader uint64, known bool) {
	st, err := m.run.Status(group)
	return st.Leader, err == nil && st.Err == nil
}

// leaderContext returns a context for commands of groups that were sent to another node. It ends
// early when a replica here loses the leader that it followed, or hears of another one: then no
// answer may come, and another node can be asked.
func (m *Member) leaderContext(
	ctx context.Context, groups []cluster.GroupID, bytes int,
) (context.Context, context.CancelFunc) {
	limit := askTimeout
	was := make(map[cluster.GroupID]uint64, len(groups))
	for _, group := range groups {
		leader, known := m.leaderHere(group)
		if !known {
			continue
		}
		if was[group] = leader; leader == 0 {
			limit = guessTimeout
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit+time.Duration(bytes)*timePerByte)
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() {
		for group, leader := range was {
			if now, known := m.leaderHere(group); known && now != leader {
				cancel()
				return
			}
		}
		timer.Reset(lookEvery)
	})
	timer.Reset(lookEvery) // after timer is set
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

// detour returns a node over which a command comes to the leader of a group that did not answer
// this node; 0 when it is better asked itself.
func (m *Member) detour(group cluster.GroupID, leader cluster.NodeID) cluster.NodeID {
	if !m.reached.isSuspect(leader) {
		return 0
	}
	v := m.View()
	var good []cluster.NodeID
	add := func(id cluster.NodeID) {
		_, known := m.locate(id)
		if id != m.self.ID && id != leader && known && !m.reached.isSuspect(id) {
			good = append(good, id)
		}
	}
	if int(group) < len(v.Groups) {
		for _, r := range v.Voters(group) {
			add(r.Node)
		}
	}
	if len(good) == 0 {
		for _, n := range v.Nodes {
			if n.State != cluster.NodeLeft && n.Role == cluster.RoleCore {
				add(n.ID)
			}
		}
	}
	if len(good) == 0 {
		return 0
	}
	return good[rand.N(len(good))]
}

// sendCommand brings a command to a node, which leads the group or, with relay, knows who does.
func (m *Member) sendCommand(
	ctx context.Context, id cluster.NodeID, addr string, group cluster.GroupID, data []byte,
	relay bool,
) (Answer, error) {
	patience := m.leaderContext
	if relay { // which may have to wait for an election
		patience = func(ctx context.Context, _ []cluster.GroupID, bytes int) (context.Context,
			context.CancelFunc) {
			return context.WithTimeout(ctx, askTimeout+time.Duration(bytes)*timePerByte)
		}
	}
	limited, stop := patience(ctx, []cluster.GroupID{group}, len(data))
	defer stop()
	answer, err := m.askCommand(limited, id, addr, group, data, relay)
	switch ended := limited.Err(); {
	case id == 0 || ctx.Err() != nil:
	case !errors.Is(err, errNoAnswer):
		m.reached.note(id, true)
	case ended == nil || errors.Is(ended, context.DeadlineExceeded): // and not a new leader
		m.reached.note(id, false)
	}
	return answer, err
}

// serveCommand has a group decide on a command, or brings it on.
func (m *Member) serveCommand(
	ctx context.Context, args func(string) string, body []byte,
) ([]byte, error) {
	group, err := strconv.ParseUint(args("group"), 10, 32)
	if err != nil {
		return nil, &wire.Error{Kind: wire.KindInvalid, Part: "group",
			Message: "group: a number is wanted"}
	}
	var a Answer
	if args("relay") == "" {
		a, err = m.Here(ctx, cluster.GroupID(group), body)
	} else {
		ctx, cancel := context.WithTimeout(ctx,
			relayTimeout+time.Duration(len(body))*timePerByte/2)
		defer cancel()
		a, err = m.proposeWith(ctx, cluster.GroupID(group), body,
			proposeOptions{again: true, relayed: true})
	}
	if err != nil {
		return nil, encodeLeaderError(err)
	}
	return json.Marshal(a)
}

// serveTransfer lets another node lead a group that this one leads, unless others reach this one
// alone.
func (m *Member) serveTransfer(args func(string) string) ([]byte, error) {
	group, err := strconv.ParseUint(args("group"), 10, 32)
	to, err2 := strconv.ParseUint(args("to"), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return nil, &wire.Error{Kind: wire.KindInvalid, Part: "group", Message: err.Error()}
	}
	if args("mend") == "" && m.reached.isLeaderPinned(cluster.GroupID(group)) {
		return nil, &wire.Error{Kind: wire.KindUnavailable, Message: fmt.Sprintf(
			"group %d is led here since a node did not reach its last leader", group)}
	}
	st, err := m.run.Status(cluster.GroupID(group))
	if err == nil && st.Leader != st.Replica {
		err = &replica.NotLeaderError{Group: cluster.GroupID(group), Leader: st.Leader}
	}
	if err != nil {
		return nil, encodeLeaderError(err)
	}
	m.run.TransferLeader(cluster.GroupID(group), to)
	return []byte("{}"), nil
}

// serveLead has the leader of a group hand over to the replica here, for the sake of a node that
// reaches this one and not the leader.
func (m *Member) serveLead(ctx context.Context, args func(string) string) ([]byte, error) {
	number, err := strconv.ParseUint(args("group"), 10, 32)
	group := cluster.GroupID(number)
	st, err2 := m.run.Status(group)
	if err := errors.Join(err, err2, st.Err); err != nil {
		return nil, encodeLeaderError(err)
	}
	leader := cluster.NodeID(replica.Node(st.Leader))
	n, known := m.locate(leader)
	own, _ := m.View().Node(m.self.ID)
	switch {
	case st.Leader == st.Replica:
		return []byte("{}"), nil
	case st.Leader == 0, !known, m.reached.isSuspect(leader), own.State != cluster.NodeUp:
		return nil, encodeLeaderError(&replica.NotLeaderError{Group: group})
	}
	_, err = m.ask(ctx, http.MethodPost, n.HTTPAddr, fmt.Sprintf("%s?group=%d&to=%d&mend=1",
		RouteTransfer, group, st.Replica), nil)
	if err != nil {
		return nil, err
	}
	m.reached.pinLeader(group)
	m.opt.Log.Info("lead a group whose leader another node does not reach", "group", group,
		"peer", leader)
	return []byte("{}"), nil
}

// restoreLeaders asks others to lead the groups whose leader the replicas here do not hear, until
// the member closes. Where the group has no leader, none of them can.
func (m *Member) restoreLeaders() {
	tick := time.NewTicker(mendEvery)
	defer tick.Stop()
	began, since := time.Now(), map[cluster.GroupID]time.Time{}
	for {
		select {
		case <-tick.C:
		case <-m.open.Done():
			return
		}
		var asking sync.WaitGroup
		for group := range m.run.Groups() {
			leader, known := m.leaderHere(group)
			at, lost := since[group]
			switch {
			case !known || leader != 0 || time.Since(began) < settleTime:
				delete(since, group)
			case !lost:
				since[group] = time.Now()
			case time.Since(at) >= mendAfter:
				since[group] = time.Now()
				asking.Go(func() { m.askToLead(group) })
			}
		}
		asking.Wait()
	}
}

// askToLead asks the other voters of a group to lead it, one after the other until one does.
func (m *Member) askToLead(group cluster.GroupID) {
	v := m.View()
	if int(group) >= len(v.Groups) {
		return
	}
	voters := v.Voters(group)
	rand.Shuffle(len(voters), func(i, k int) { voters[i], voters[k] = voters[k], voters[i] })
	for _, r := range voters {
		n, known := m.locate(r.Node)
		if r.Node == m.self.ID || !known || m.reached.isSuspect(r.Node) {
			continue
		}
		ctx, cancel := context.WithTimeout(m.open, guessTimeout)
		_, err := m.ask(ctx, http.MethodPost, n.HTTPAddr, fmt.Sprintf("%s?group=%d&for=%v",
			RouteLead, group, r.Node), nil)
		cancel()
		if err == nil {
			return
		}
		if remote := new(wire.Error); !errors.As(err, &remote) {
			m.reached.note(r.Node, false)
		}
	}
}
