package member

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/wire"
)

// KeyHeader holds what proves that a node asks which has the token of the cluster.
const KeyHeader = "Pentad-Cluster"

// Routes that nodes of a cluster ask each other.
const (
	RouteState    = "/v1/cluster/state"    // GET ?epoch=&catalog=: the state, if it is newer
	RouteHealth   = "/v1/cluster/health"   // GET: of the groups that the node leads
	RouteCommand  = "/v1/cluster/command"  // POST ?group=[&relay=1]: a command for a group
	RouteReady    = "/v1/cluster/ready"    // GET ?group=&replica=: whether it runs there
	RouteTransfer = "/v1/cluster/transfer" // POST ?group=&to=: lets another node lead
)

// Words of errors that say to ask another node; they stand in the reason of a wire.Error.
const (
	reasonNotLeader  = "not_leader" // the part is the replica that leads, in decimal, or empty
	reasonNoGroup    = "no_group"
	reasonOverloaded = "overloaded"
	reasonUnknown    = "unknown_outcome"
	reasonSplit      = "split"      // the group does not hold the slots
	reasonNoCopy     = "no_copy"    // the group is no copy of another store
	reasonClock      = "clock"      // clocks differ, and nothing says which one is right
	reasonOtherNode  = "other_node" // the node that is asked for is not at this address
)

const maxAnswer = 256 << 20

func newHTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64,
		IdleConnTimeout: time.Minute, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: time.Second}).DialContext}}
}

// Serve answers what another node asks; known is false for a route that is none. Each route takes
// for=NODE: a node that lost its disk may have left its address to a new one, which must not answer
// in its place.
//
// Errors: of Here, and *wire.Error.
func (m *Member) Serve(
	ctx context.Context, method, path, key string, args func(string) string, body []byte,
) (answer []byte, known bool, err error) {
	handle := map[string]func() ([]byte, error){
		"GET " + RouteState:   func() ([]byte, error) { return m.serveState(args) },
		"GET " + RouteModule:  func() ([]byte, error) { return m.serveModule(args("sha256")) },
		"GET " + RouteCursors: func() ([]byte, error) { return m.serveCursors(ctx, args("name")) },
		"GET " + RouteHealth:  func() ([]byte, error) { return json.Marshal(m.reports()) },
		"GET " + RouteReplicas: func() ([]byte, error) {
			return json.Marshal(m.replicaReports(ctx))
		},
		"POST " + RouteAdmin: func() ([]byte, error) { return m.serveAdmin(ctx, body) },
		"GET " + RouteReady: func() ([]byte, error) {
			group, err := strconv.ParseUint(args("group"), 10, 32)
			id, err2 := strconv.ParseUint(args("replica"), 10, 64)
			st, err3 := m.run.Status(cluster.GroupID(group))
			if errors.Join(err, err2, err3) != nil || st.Replica != id {
				return nil, &wire.Error{Kind: wire.KindNotFound, Message: "no such replica"}
			}
			return []byte("{}"), nil
		},
		"POST " + RouteCommand:  func() ([]byte, error) { return m.serveCommand(ctx, args, body) },
		"POST " + RouteTransfer: func() ([]byte, error) { return m.serveTransfer(args) },
		"POST " + RouteLead:     func() ([]byte, error) { return m.serveLead(ctx, args) },
	}[method+" "+path]
	if handle == nil {
		return nil, false, nil
	}
	if subtle.ConstantTimeCompare([]byte(key), []byte(m.key)) != 1 {
		return nil, true, &wire.Error{Kind: wire.KindForbidden,
			Message: "only nodes that have the token of this cluster may ask this"}
	}
	if to := args("for"); to != "" && to != m.self.ID.String() {
		return nil, true, &wire.Error{Kind: wire.KindUnavailable, Reason: reasonOtherNode,
			RetryAfterMs: 50,
			Message:      fmt.Sprintf("this is node %v and not %.80s", m.self.ID, to)}
	}
	answer, err = handle()
	return answer, true, err
}

// encodeLeaderError gives errors by which nodes find a leader a form that crosses the network.
func encodeLeaderError(err error) error {
	e := &wire.Error{Kind: wire.KindUnavailable, Message: err.Error(), RetryAfterMs: 50}
	var not *replica.NotLeaderError
	switch {
	case errors.Is(err, replica.ErrUnknown): // whatever ended the wait
		e.Reason = reasonUnknown
	case errors.Is(err, ErrUndecided):
		e.Reason = reasonClock
	case errors.Is(err, replica.ErrNotLeader):
		e.Reason = reasonNotLeader
		if errors.As(err, &not) && not.Leader != 0 {
			e.Part = strconv.FormatUint(not.Leader, 10)
		}
	case errors.Is(err, replica.ErrGroupUnknown), errors.Is(err, replica.ErrStopped),
		errors.Is(err, ErrUnavailable), errors.Is(err, replica.ErrClosed):
		e.Reason = reasonNoGroup
	case errors.Is(err, replica.ErrOverloaded):
		e.Reason = reasonOverloaded
	case errors.Is(err, store.ErrOtherSlots):
		e.Reason = reasonSplit
	case errors.Is(err, store.ErrNoCopy):
		e.Kind, e.Reason, e.RetryAfterMs = wire.KindInvalid, reasonNoCopy, 0
	default:
		return err
	}
	return e
}

// decodeLeaderError is the reverse of said.
func decodeLeaderError(group cluster.GroupID, e *wire.Error) error {
	switch e.Reason {
	case reasonNotLeader:
		leader, err := strconv.ParseUint(e.Part, 10, 64)
		if err != nil {
			leader = 0
		}
		return &replica.NotLeaderError{Group: group, Leader: leader}
	case reasonNoGroup:
		return replica.ErrGroupUnknown
	case reasonOverloaded:
		return replica.ErrOverloaded
	case reasonUnknown:
		return replica.ErrUnknown
	case reasonSplit:
		return store.ErrOtherSlots
	case reasonNoCopy:
		return store.ErrNoCopy
	case reasonClock:
		return ErrUndecided
	case reasonOtherNode: // which did nothing; the address of the right one is not known yet
		return fmt.Errorf("%w: %w: %s", ErrUnavailable, errNoAnswer, e.Message)
	}
	return e
}

// askCommand brings a command to a node. What a node did that does not answer is unknown.
func (m *Member) askCommand(
	ctx context.Context, id cluster.NodeID, addr string, group cluster.GroupID, data []byte,
	relay bool,
) (answer Answer, err error) {
	path := fmt.Sprintf("%s?group=%d", RouteCommand, group)
	if id != 0 {
		path += "&for=" + id.String()
	}
	if relay {
		path += "&relay=1"
	}
	text, err := m.ask(ctx, http.MethodPost, addr, path, data)
	var remote *wire.Error
	switch {
	case err == nil:
		return answer, json.Unmarshal(text, &answer)
	case errors.As(err, &remote):
		return answer, decodeLeaderError(group, remote)
	}
	return answer, unanswered(err)
}

// errNoAnswer means that a node did not answer, whatever it did.
var errNoAnswer = errors.New("no answer")

// unanswered says of a request without an answer whether it can have arrived.
func unanswered(err error) error {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" {
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, errNoAnswer, err)
	}
	return fmt.Errorf("%w: %w: %w", replica.ErrUnknown, errNoAnswer, err)
}

// askReady returns nil when a replica runs, so that what is sent to it gets there.
func (m *Member) askReady(ctx context.Context, group cluster.GroupID, id uint64) error {
	n, ok := m.locate(cluster.NodeID(replica.Node(id)))
	if !ok {
		return ErrUnavailable
	}
	_, err := m.ask(ctx, http.MethodGet, n.HTTPAddr, fmt.Sprintf(
		"%s?group=%d&replica=%d&for=%v", RouteReady, group, id, n.ID), nil)
	return err
}

func (m *Member) askTransfer(
	ctx context.Context, addr string, group cluster.GroupID, to uint64,
) error {
	_, err := m.ask(ctx, http.MethodPost, addr, fmt.Sprintf("%s?group=%d&to=%d", RouteTransfer,
		group, to), nil)
	return err
}

// forNode is the query of a request that no other node is to answer.
func forNode(id cluster.NodeID) string { return "?for=" + id.String() }

func (m *Member) askHealth(ctx context.Context, id cluster.NodeID) (out []leaderReport, err error) {
	n, ok := m.locate(id)
	if !ok {
		return nil, ErrUnavailable
	}
	text, err := m.ask(ctx, http.MethodGet, n.HTTPAddr, RouteHealth+forNode(id), nil)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(text, &out)
}

func (m *Member) ask(
	ctx context.Context, method, addr, path string, body []byte,
) ([]byte, error) {
	u := url.URL{Scheme: "http", Host: addr}
	req, err := http.NewRequestWithContext(ctx, method, u.String()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set(KeyHeader, m.key)
	req.Header.Set("Content-Type", wire.ContentType)
	resp, err := m.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil || resp.StatusCode == http.StatusOK {
		return text, err
	}
	t, payload, _, err := wire.ParseFrame(text, maxAnswer)
	if err != nil || t != wire.FrameError {
		return nil, fmt.Errorf("%s answers with status %d", addr, resp.StatusCode)
	}
	remote := new(wire.Error)
	if err := wire.ParseError(payload, remote); err != nil {
		return nil, err
	}
	return nil, remote
}

// CheckToken asks the node at an address whether a token is that of its cluster.
func CheckToken(ctx context.Context, addr string, token cluster.Token) error {
	key, err := httpKey(token)
	if err != nil {
		return err
	}
	m := &Member{key: key, http: newHTTP()}
	defer m.http.CloseIdleConnections()
	_, err = m.ask(ctx, http.MethodGet, strings.TrimPrefix(addr, "http://"), RouteHealth, nil)
	var remote *wire.Error
	if errors.As(err, &remote) && remote.Kind == wire.KindForbidden {
		return errors.New("its secret is not the cluster's; copy the file of a node in it")
	}
	return err
}
