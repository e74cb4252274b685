package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Routes by which nodes that keep no state read the catalog of the cluster.
const (
	RouteModule  = "/v1/cluster/module"  // GET ?sha256=: a module
	RouteCursors = "/v1/cluster/cursors" // GET, or GET ?name=: cursors
)

const (
	// reachEvery is how often a node looks whether it has a change that the group has.
	reachEvery = 2 * time.Millisecond
	// reachAfter is how long its own replica may take before it asks another node.
	reachAfter = 100 * time.Millisecond
	// moduleTimeout bounds how long one node may take to send a module.
	moduleTimeout = 10 * time.Second
)

// ErrNoModule means that no node that can be reached has a module.
var ErrNoModule = errors.New("no node that can be reached has this module")

// newestState returns the newest state that this node has.
func (m *Member) newestState() *cluster.Meta {
	k := m.ownMeta()
	if k == nil || k.meta.At().Before(m.meta.At()) {
		return m.meta
	}
	return k.meta
}

// ownMeta returns this node's replica of the meta group, nil without one.
func (m *Member) ownMeta() *metaReplica {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.metaReplica
}

// Catalog returns the newest catalogue that this node has, and its version, which rises.
func (m *Member) Catalog() (catalog.State, uint64) {
	of := m.newestState()
	version := of.At().Catalog // before the catalogue, which is then as new at least
	return of.Catalog(), version
}

// ChangeState has the meta group apply a change of the catalog, and returns when this node knows
// it, too. It may be sent twice.
//
// Errors: those that the state answers with; those of Propose.
func (m *Member) ChangeState(ctx context.Context, command cluster.Command) error {
	answer, err := m.Command(ctx, command)
	if err != nil {
		return err
	}
	if _, is := command.(*cluster.ChangeCatalog); !is {
		return nil // who reads cursors asks for the newest
	}
	return m.awaitVersion(ctx, answer.Version)
}

// awaitVersion returns when this node has a version of the catalog.
func (m *Member) awaitVersion(ctx context.Context, version uint64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, ErrUnavailable)
	defer cancel()
	began := time.Now()
	tick := time.NewTicker(reachEvery)
	defer tick.Stop()
	for m.newestState().Version() < version {
		if m.ownMeta() == nil || time.Since(began) > reachAfter {
			if err := m.Refresh(ctx); err != nil && ctx.Err() == nil &&
				!errors.Is(err, ErrUnavailable) {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-m.open.Done():
			return replica.ErrClosed
		}
	}
	return nil
}

// Refresh asks who leads the meta group, or else others who keep its state, for a newer one.
//
// Errors: ErrUnavailable when no node answers; of ctx.
func (m *Member) Refresh(ctx context.Context) error {
	if m.Leader(cluster.MetaGroup) == m.self.ID {
		return nil
	}
	for _, addr := range m.metaNodes() {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		s, err := m.askState(ctx, addr)
		cancel()
		if err == nil {
			m.adoptState(s)
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("read the catalog of the cluster: %w", ErrUnavailable)
}

// metaNodes returns the addresses of the nodes that have a meta replica, the leader's first; none
// before anything is known.
func (m *Member) metaNodes() (out []string) {
	v := m.View()
	leader := m.Leader(cluster.MetaGroup)
	if len(v.Groups) == 0 {
		return nil
	}
	for _, r := range v.Voters(cluster.MetaGroup) {
		n, ok := m.locate(r.Node)
		switch {
		case !ok || r.Node == m.self.ID:
		case r.Node == leader:
			out = append([]string{n.HTTPAddr}, out...)
		default:
			out = append(out, n.HTTPAddr)
		}
	}
	return out
}

// adoptState makes a state that came from another node this node's own if it is newer; nil is none.
func (m *Member) adoptState(s *cluster.State) {
	if s != nil && !m.mustCreateCluster() && s.View().Cluster == m.token.Cluster &&
		m.newestState().At().Before(s.At()) && !isOtherCluster(m.View(), s.View()) {
		m.meta.Advance(s)
	}
}

// askState returns the state of another node if that is newer than this node's, else nil.
func (m *Member) askState(ctx context.Context, addr string) (*cluster.State, error) {
	return m.askStateAfter(ctx, addr, m.newestState().At())
}

// askStateAfter returns the state of another node if that is newer than at, else nil.
func (m *Member) askStateAfter(
	ctx context.Context, addr string, at cluster.At,
) (*cluster.State, error) {
	text, err := m.ask(ctx, http.MethodGet, addr, fmt.Sprintf("%s?epoch=%d&catalog=%d", RouteState,
		at.Epoch, at.Catalog), nil)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return m.parseState(text)
}

// serveState answers askState.
func (m *Member) serveState(args func(string) string) ([]byte, error) {
	epoch, err := strconv.ParseUint(args("epoch"), 10, 64)
	version, err2 := strconv.ParseUint(args("catalog"), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return nil, &wire.Error{Kind: wire.KindInvalid, Part: "epoch", Message: err.Error()}
	}
	of := m.newestState()
	if !(cluster.At{Epoch: epoch, Catalog: version}).Before(of.At()) {
		return nil, nil
	}
	return of.AppendSnapshot(nil), nil
}

// Module returns a module that the catalogue names, from here or from another node.
//
// Errors: ErrNoModule; of ctx.
func (m *Member) Module(ctx context.Context, digest string) ([]byte, error) {
	if k := m.ownMeta(); k != nil {
		text, err := k.mended(ctx, digest)
		if err == nil || namedModules(k.meta.Catalog())[digest] {
			return text, err
		}
	}
	return m.moduleOfOthers(ctx, digest)
}

// moduleOfOthers is Module of other nodes alone.
func (m *Member) moduleOfOthers(ctx context.Context, digest string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.open, cancel)()
	var errs []error
	for _, addr := range m.metaNodes() {
		text, err := m.askFor(ctx, moduleTimeout, addr, RouteModule+"?sha256="+
			url.QueryEscape(digest))
		if err == nil && !isModule(digest, text) {
			err = fmt.Errorf("%s has another one under its digest", addr)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return text, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%.12s: %w: %w", digest, ErrNoModule, errors.Join(errs...))
}

// askFor is ask with a bound of its own, so that another node can be asked in time.
func (m *Member) askFor(
	ctx context.Context, within time.Duration, addr, path string,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return m.ask(ctx, http.MethodGet, addr, path, nil)
}

func (m *Member) serveModule(digest string) ([]byte, error) {
	k := m.ownMeta()
	if k == nil || !namedModules(k.meta.Catalog())[digest] {
		return nil, encodeLeaderError(replica.ErrGroupUnknown)
	}
	return k.module(digest)
}

// Cursors returns the cursors by name; with a name, that one alone. A majority says that they are
// the newest, so that a reader that goes from one node to another finds what it committed; without
// a leader, those that a replica has may be a moment old.
//
// Errors: cursors.ErrUnknown, ErrUnavailable; of ctx.
func (m *Member) Cursors(ctx context.Context, name string) ([]cursors.Cursor, error) {
	addrs := m.metaNodes()
	if m.ownMeta() != nil {
		if m.awaitCurrent(ctx) == nil {
			return m.cursorsHere(name)
		}
		addrs = addrs[:min(1, len(addrs))] // others know no more, but for the leader
	}
	err := error(ErrUnavailable)
	for _, addr := range addrs {
		var text []byte
		text, err = m.askFor(ctx, askTimeout, addr, RouteCursors+"?name="+url.QueryEscape(name))
		if err == nil {
			var out []cursors.Cursor
			return out, json.Unmarshal(text, &out)
		}
		var remote *wire.Error
		if errors.As(err, &remote) && remote.Kind == wire.KindNotFound {
			return nil, cursors.Unknown(name)
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case m.ownMeta() != nil:
		out, here := m.cursorsHere(name)
		if !errors.Is(here, replica.ErrGroupUnknown) {
			return out, here
		}
	}
	return nil, fmt.Errorf("cursors: %w (%w)", ErrUnavailable, err)
}

// awaitCurrent returns when the replica of the meta group here has all that was acknowledged
// before: one that was just elected may lack some of it. It leaves time to who asks this node.
func (m *Member) awaitCurrent(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout*3/4)
	defer cancel()
	return m.ReadIndex(ctx, cluster.MetaGroup)
}

func (m *Member) serveCursors(ctx context.Context, name string) ([]byte, error) {
	if err := m.awaitCurrent(ctx); err != nil && !m.hasMetaReplica() {
		return nil, encodeLeaderError(replica.ErrGroupUnknown)
	}
	out, err := m.cursorsHere(name)
	if err != nil {
		return nil, encodeLeaderError(err)
	}
	return json.Marshal(out)
}

func (m *Member) cursorsHere(name string) ([]cursors.Cursor, error) {
	k := m.ownMeta()
	if k == nil || k.meta.View().Cluster == (cluster.ID{}) { // or it has nothing yet
		return nil, replica.ErrGroupUnknown
	}
	if name == "" {
		return k.meta.Cursors(), nil
	}
	c, err := k.meta.Cursor(name)
	return []cursors.Cursor{c}, err
}
