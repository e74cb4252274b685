package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// maxNodes is how many nodes of a cluster a client learns of: it asks one, and the next when that
// one fails.
const maxNodes = 16

// nodes are those that a client may ask, who are of one cluster and have the same records.
type nodes struct {
	mu    sync.Mutex
	bases []string // guarded by mu: "http://host:port"
	at    int      // guarded by mu: of bases; it is asked now
	idle  []batchOf
	wrote int64 // guarded by mu: greatest acq that was acknowledged
	after int64 // guarded by mu: what queries wait for, since another node was written to
}

// batchOf is a writer and its last sequence.
type batchOf struct {
	writer [16]byte
	seq    uint64
}

// DefaultPort is the port of a node whose address names none, e.g. 127.0.0.1; that of a URL without
// one is 80.
const DefaultPort = "5150"

// parseNodes reads addresses joined by commas.
func parseNodes(addrs string) (*nodes, error) {
	n := &nodes{}
	for addr := range strings.SplitSeq(addrs, ",") {
		base := addr
		if !strings.Contains(base, "://") {
			base = "http://" + base
		}
		u, err := url.Parse(base)
		if err != nil || u.Host == "" || u.Scheme != "http" {
			return nil, fmt.Errorf("address %q %w", addr, ErrAddress)
		}
		if base != addr && u.Port() == "" { // no URL, and no port
			u.Host = net.JoinHostPort(u.Hostname(), DefaultPort)
		}
		n.learn([]string{u.Host})
	}
	return n, nil
}

// learn adds the addresses of nodes that were not known.
func (n *nodes) learn(hosts []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, host := range hosts {
		base := "http://" + host
		if len(n.bases) < maxNodes && !slices.Contains(n.bases, base) {
			n.bases = append(n.bases, base)
		}
	}
}

// now returns whom to ask, how many there are, and what a query waits for.
func (n *nodes) now() (base string, count int, afterNs int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bases[n.at], len(n.bases), n.after
}

// leave makes the next node the one that is asked, unless that has happened already. It may be
// behind the one that was written to.
func (n *nodes) leave(base string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.bases) > 1 && n.bases[n.at] == base {
		n.at = (n.at + 1) % len(n.bases)
		n.after = n.wrote
	}
}

// note keeps the acq of what was acknowledged to a request that began when base was asked. Another
// one that is asked by now may be behind who acknowledged it.
func (n *nodes) note(base string, acqNs int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wrote = max(n.wrote, acqNs)
	if n.bases[n.at] != base {
		n.after = n.wrote
	}
}

// take returns a writer that has nothing in progress, with a sequence that it has not used.
func (n *nodes) take() (b batchOf) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last := len(n.idle) - 1; last >= 0 {
		b, n.idle = n.idle[last], n.idle[:last]
	} else {
		_, _ = rand.Read(b.writer[:]) // which never fails
	}
	b.seq++
	return b
}

func (n *nodes) give(b batchOf) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.idle = append(n.idle, b)
}

// elsewhere reports whether another node may answer where one failed so, and whether it may be
// asked at once, as what was asked has changed nothing.
func elsewhere(method, path string, err error) (other, atOnce bool) {
	var remote *wire.Error
	if errors.As(err, &remote) {
		other = remote.Kind == wire.KindUnavailable
		return other, other && onlyAsks(method, path)
	}
	var network *net.OpError
	dial := errors.As(err, &network) && network.Op == "dial"
	return true, dial || onlyAsks(method, path)
}

// onlyAsks reports whether a request changes nothing.
func onlyAsks(method, path string) bool {
	path, _, _ = strings.Cut(path, "?")
	switch path {
	case "/v1/query", "/v1/count", "/v1/states", "/v1/explain", "/v1/diff", "/v1/versions",
		"/v1/changes", "/v1/digest":
		return true
	}
	return method == http.MethodGet
}

// waits reports whether a query may wait for an acq.
func waits(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	return path == "/v1/horizon" || path != "/v1/changes" && onlyAsks(http.MethodPost, path)
}

// Health returns nil when the node takes requests. One of a cluster says where others are, which
// the client asks when this one fails.
func (c *Client) Health(ctx context.Context) error {
	body, err := c.do(ctx, http.MethodGet, "/readyz", "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	var said api.Readiness
	text, err := io.ReadAll(io.LimitReader(body, maxErrorBytes))
	if err == nil && json.Unmarshal(text, &said) == nil {
		c.nodes.learn(said.Nodes)
	}
	return err
}

// putSurely stores a batch under a writer that the client draws, again and again until it is
// answered: the loss of nodes meanwhile is survived, and nothing is stored twice.
func (c *Client) putSurely(
	ctx context.Context, path string, b *record.Batch,
) (wire.PutReply, error) {
	own := c.nodes.take()
	defer c.nodes.give(own)
	body, err := wire.AppendPut(nil, &wire.Put{Writer: own.writer, Seq: own.seq, Batch: b})
	if err != nil {
		return wire.PutReply{}, err
	}
	reply, err := c.putUntil(ctx, path, body, time.Now().Add(defaultRetryFor), func() {})
	reply.Duplicate = false
	return reply, err
}

const (
	// silentPut is how long a node may take for a put when there are others: longer than it looks
	// for the leader of a group.
	silentPut = 10 * time.Second
	// A node that has not answered a put for probeAfter is asked whether it is there, and again
	// every probeEvery; without an answer within probeTimeout the put goes to another node. Large
	// puts fill the network between, a microsecond for each byte where that is slow.
	probeAfter   = 500 * time.Millisecond
	probeEvery   = time.Second
	probeTimeout = 500 * time.Millisecond
	timePerByte  = time.Microsecond
)

// putOnce is putBody, which leaves a node that is silent where there are others.
func (c *Client) putOnce(
	ctx context.Context, path string, body []byte,
) (wire.PutReply, error) {
	base, count, _ := c.nodes.now()
	if count == 1 {
		return c.putBody(ctx, path, body)
	}
	carried := time.Duration(len(body)) * timePerByte
	once, cancel := context.WithTimeout(ctx, silentPut+carried)
	defer cancel()
	defer c.probe(once, cancel, base, carried)()
	reply, err := c.putBody(once, path, body)
	if once.Err() != nil && ctx.Err() == nil {
		c.nodes.leave(base)
	}
	return reply, err
}

// probe ends a put with its context when the node that has it does not answer anything. What it
// returns ends the probing.
func (c *Client) probe(
	ctx context.Context, end context.CancelFunc, base string, carried time.Duration,
) (stop func()) {
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() {
		soon, cancel := context.WithTimeout(ctx, probeTimeout+carried)
		defer cancel()
		// An error is an answer, or the put gets it, too.
		if answer, err := c.doAt(soon, base, &asks{}, http.MethodGet, "/healthz", "",
			nil); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(answer, maxErrorBytes))
			_ = answer.Close()
		}
		switch {
		case ctx.Err() != nil:
		case soon.Err() != nil:
			end()
		default:
			timer.Reset(probeEvery)
		}
	})
	timer.Reset(probeAfter + carried) // after timer is set
	return func() { timer.Stop() }
}

// putUntil sends a batch until it is answered, refused for good, or the time is over.
func (c *Client) putUntil(
	ctx context.Context, path string, body []byte, deadline time.Time, retried func(),
) (wire.PutReply, error) {
	for backoff := firstBackoff; ; backoff = min(2*backoff, maxBackoff) {
		reply, err := c.putOnce(ctx, path, body)
		if err == nil || ctx.Err() != nil {
			return reply, err
		}
		var remote *wire.Error
		known := errors.As(err, &remote)
		if known && !remote.Kind.Temporary() || time.Now().After(deadline) {
			return reply, err
		}
		pause := backoff/2 + mathrand.N(backoff)
		if known {
			pause = max(pause, time.Duration(remote.RetryAfterMs)*time.Millisecond)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return reply, err
		}
		retried()
	}
}
