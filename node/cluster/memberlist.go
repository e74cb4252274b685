package cluster

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// hooks is what memberlist calls, mostly with its lock held: they take Gossip.mu and call nothing.
type hooks Gossip

// NodeMeta is the gossip metadata that is sent with news of this node.
func (h *hooks) NodeMeta(int) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.metadata
}

// What follows would carry messages of ours; there are none, as they starve where there are many
// nodes.

func (*hooks) NotifyMsg([]byte)                {}
func (*hooks) GetBroadcasts(int, int) [][]byte { return nil }
func (*hooks) LocalState(bool) []byte          { return nil }
func (*hooks) MergeRemoteState([]byte, bool)   {}
func (*hooks) AckPayload() []byte              { return nil }

// NotifyAlive refuses news of nodes that make no sense.
func (h *hooks) NotifyAlive(n *memberlist.Node) error {
	metadata, err := ParseGossipMeta(n.Meta)
	if err != nil {
		return err
	}
	id := metadata.Node.ID
	if id.String() != n.Name {
		return fmt.Errorf("it claims to be node %v", id)
	}
	if id == h.self {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	old, known := h.peers[id]
	if known && metadata.Node.Incarnation < old.Meta.Node.Incarnation {
		return fmt.Errorf("it is of start %d of node %v, which has been started %d times",
			metadata.Node.Incarnation, id, old.Meta.Node.Incarnation)
	}
	if !known && len(h.peers) >= maxPeers && !h.forgetDead() {
		return fmt.Errorf("there are %d peers, the most that there may be", maxPeers)
	}
	return nil
}

// forgetDead makes space; mu is held.
func (h *hooks) forgetDead() bool {
	var oldest NodeID
	for id, p := range h.peers {
		if p.State == PeerDead && (oldest == 0 || p.Since.Before(h.peers[oldest].Since)) {
			oldest = id
		}
	}
	delete(h.peers, oldest)
	return oldest != 0
}

// NotifyJoin and NotifyUpdate come after NotifyAlive had nothing against the node.
func (h *hooks) NotifyJoin(n *memberlist.Node)   { h.alive(n) }
func (h *hooks) NotifyUpdate(n *memberlist.Node) { h.alive(n) }

func (h *hooks) alive(n *memberlist.Node) {
	metadata, err := ParseGossipMeta(n.Meta)
	if err != nil || metadata.Node.ID == h.self {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(Peer{Meta: metadata, Addr: n.Address(), State: PeerAlive})
}

// NotifyLeave comes when a node has left or died; memberlist does not say which.
func (h *hooks) NotifyLeave(n *memberlist.Node) {
	g := (*Gossip)(h)
	g.note(n.Name, PeerAlive, PeerDead)
	g.note(n.Name, PeerSuspect, PeerDead)
}

// NotifyPingComplete comes when a peer has answered.
func (h *hooks) NotifyPingComplete(n *memberlist.Node, _ time.Duration, _ []byte) {
	(*Gossip)(h).note(n.Name, PeerSuspect, PeerAlive)
}

// NotifyConflict comes when two addresses say that they are one node.
func (h *hooks) NotifyConflict(known, other *memberlist.Node) {
	id, err := ParseNodeID(known.Name)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log.Error("two addresses say that they are one node; stop the one whose directory is a copy",
		"node", id, "known", known.Address(), "other", other.Address())
	if p, ok := h.peers[id]; ok {
		p.Conflict = other.Address()
		h.set(p)
	}
}

// note moves a peer from one state to another, if it is in the first.
func (g *Gossip) note(name string, from, to PeerState) {
	id, err := ParseNodeID(name)
	if err != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if p, ok := g.peers[id]; ok && p.State == from {
		p.State = to
		(*hooks)(g).set(p)
	}
}

// set notes a peer, and when it came to its state; mu is held.
func (h *hooks) set(p Peer) {
	id := p.Meta.Node.ID
	if old, ok := h.peers[id]; !ok || old.State != p.State {
		p.Since = time.Now()
	} else {
		p.Since = old.Since
	}
	(*Gossip)(h).bump()
	p.change = h.changes
	h.peers[id] = p
}

// bump wakes those who wait; mu is held.
func (g *Gossip) bump() {
	g.changes++
	close(g.changed)
	g.changed = make(chan struct{})
}

// joinError says what may be wrong when no seed let this node in.
func joinError(n int, err error) error {
	if n > 0 || err == nil {
		return nil
	}
	hint := "check that the seeds' addresses are those of gossip, and that TCP and UDP get there"
	switch text := err.Error(); {
	case strings.Contains(text, "installed keys"):
		hint = "the secret in the token file is not the cluster's: copy the file of a node in it"
	case strings.Contains(text, "EOF"), strings.Contains(text, "reset by peer"):
		hint = "a seed hung up, as it does when the token is of another cluster: copy the file " +
			"of a node in it"
	}
	return fmt.Errorf("%s (%w)", hint, err)
}

const (
	// logBurst and logEvery bound lines about what strangers send.
	logBurst = 20
	logEvery = time.Second
)

// gossipLogger hands on what memberlist logs, without what is for its developers, and not more than
// a line a second for long.
func gossipLogger(to *slog.Logger) *log.Logger {
	return log.New(&lineWriter{to: to, left: logBurst}, "", 0)
}

type lineWriter struct {
	to *slog.Logger

	mu      sync.Mutex // guards all below
	left    int
	filled  time.Time
	dropped int
}

// Write takes one line.
func (w *lineWriter) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	level := slog.LevelError
	for prefix, l := range map[string]slog.Level{"[DEBUG]": slog.LevelDebug,
		"[INFO]": slog.LevelInfo, "[WARN]": slog.LevelWarn} {
		if strings.HasPrefix(text, prefix) {
			level = l
		}
	}
	if level == slog.LevelDebug {
		return len(line), nil
	}
	if _, rest, ok := strings.Cut(text, "memberlist: "); ok {
		text = rest
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := int(time.Since(w.filled) / logEvery); n > 0 {
		w.left, w.filled = min(logBurst, w.left+n), time.Now()
	}
	if w.left == 0 {
		w.dropped++
		return len(line), nil
	}
	w.left--
	w.to.Log(context.Background(), level, "gossip", "what", text, "dropped", w.dropped)
	w.dropped = 0
	return len(line), nil
}
