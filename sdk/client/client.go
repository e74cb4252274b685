// Package client is the Go client of a pentad node: a batching writer that stores nothing twice,
// queries as iterators, change feeds that go on after a break, counts, aggregates and plugin
// uploads, with typed errors.
//
// It knows the wire protocol and nothing of how a node works. Its main types are [Client] and
// [Writer]; a Writer has one goroutine, which Close ends.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// maxErrorBytes bounds the body of an error that is read.
	maxErrorBytes = 1 << 20
	dialTimeout   = 10 * time.Second
	// connectTimeout is for a node whose machine is gone: then the next one is asked. It leaves
	// time for one more attempt of TCP, which comes after a second.
	connectTimeout = 2 * time.Second
	idleTimeout    = 90 * time.Second
	maxIdleConns   = 16
)

// Client talks to one node, or to a cluster: to one of its nodes until that fails, then to the
// next. After that its queries wait until the node which is asked has what the client stored. It
// may be used by many goroutines.
//
// Errors of its methods: *[wire.Error] for what the node answers, ctx.Err(), and errors of the
// network that name the address.
type Client struct {
	nodes *nodes
	http  *http.Client
	asks  asks
	local Local // nil: the node is reached by http
}

// ErrAddress is returned by Dial for an address that is none.
var ErrAddress = errors.New("is not host:port or http://host:port")

// Dial returns a client for the node at addr, "host:port", "host" (with DefaultPort) or a URL,
// after asking whether the node is well. Several nodes of a cluster are joined by commas; who is
// well tells of others.
func Dial(ctx context.Context, addr string) (*Client, error) {
	c, err := New(addr)
	if err != nil {
		return nil, err
	}
	if err := c.meet(ctx, addr); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// meet asks nodes whether they are ready until one is. Each has its part of the time: the first may
// be silent. A node that a problem keeps from being ready will do when there is no other: one whose
// disk is full still answers queries.
func (c *Client) meet(ctx context.Context, addr string) (err error) {
	_, count, _ := c.nodes.now()
	each, impaired := dialTimeout/time.Duration(count), false
	for range count {
		once, cancel := context.WithTimeoutCause(ctx, each, fmt.Errorf(
			"%s does not answer within %s: %w", addr, each, context.DeadlineExceeded))
		err = c.Health(once)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		impaired = impaired || c.impaired(ctx, each)
	}
	if impaired {
		return nil
	}
	return err
}

// New returns a client for the node at addr, as Dial does, whether it is there or not.
func New(addr string) (*Client, error) {
	all, err := parseNodes(addr)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	transport.DisableCompression = true
	transport.MaxIdleConnsPerHost = maxIdleConns
	transport.IdleConnTimeout = idleTimeout
	transport.WriteBufferSize, transport.ReadBufferSize = 64<<10, 64<<10
	return &Client{nodes: all, http: &http.Client{Transport: transport}}, nil
}

// Close closes idle connections. Requests in progress go on.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// do sends a request and returns the body of a good answer. Where a node fails, and no harm comes
// of it, the next one is asked at once.
func (c *Client) do(
	ctx context.Context, method, path, contentType string, body []byte,
) (io.ReadCloser, error) {
	var said error // by a node that is there, which knows better than a network when to ask again
	for tried := 1; ; tried++ {
		base, count, afterNs := c.nodes.now()
		asks := c.asks
		if asks.after == "" && afterNs > 0 && waits(path) {
			asks.after = strconv.FormatInt(afterNs, 10)
		}
		answer, err := c.doAt(ctx, base, &asks, method, path, contentType, body)
		if err == nil || ctx.Err() != nil {
			late := err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
			if late && onlyAsks(method, path) {
				c.nodes.leave(base) // it may be silent for good, and the next query be answered
			}
			return answer, err
		}
		other, atOnce := elsewhere(method, path, err)
		if other {
			c.nodes.leave(base)
		}
		var remote *wire.Error
		if errors.As(err, &remote) {
			said = err
		}
		if !atOnce || tried >= count {
			return nil, cmp.Or(said, err)
		}
	}
}

// doAt is do at one node.
func (c *Client) doAt(
	ctx context.Context, base string, asks *asks, method, path, contentType string, body []byte,
) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, base+asks.add(ctx, path),
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if asks.feed != 0 {
		req.Header.Set(wire.FeedHeader, strconv.FormatUint(asks.feed, 10))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, readError(resp)
}

func readError(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	if err != nil {
		return fmt.Errorf("the node answered with status %d, and its error cannot be read: %w",
			resp.StatusCode, err)
	}
	if resp.Header.Get("Content-Type") == wire.ContentType {
		t, payload, _, err := wire.ParseFrame(body, maxErrorBytes)
		if err == nil && t != wire.FrameError {
			err = fmt.Errorf("unexpected frame of type %d", t)
		}
		if err != nil {
			return fmt.Errorf("the node answered with status %d, and its error cannot be read: %w",
				resp.StatusCode, err)
		}
		remote := new(wire.Error)
		if err := wire.ParseError(payload, remote); err != nil {
			return err
		}
		return remote
	}
	var p api.Error
	if json.Unmarshal(body, &p) == nil && p.Code != "" {
		if p.Fault != nil {
			return wire.NewFault(wire.ParseKind(p.Code), p.Detail, *p.Fault)
		}
		after, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // absent or odd: no advice
		e := &wire.Error{Kind: wire.ParseKind(p.Code), Message: p.Detail, Part: p.Part,
			Reason: p.Reason, RetryAfterMs: uint32(max(after, 0)) * 1000}
		if p.Put != nil {
			e = wire.NewOutcome(e, *p.Put)
		}
		return e
	}
	text := strings.TrimSpace(string(body[:min(len(body), 200)]))
	return fmt.Errorf("status %d, not an answer of a node: %q", resp.StatusCode, text)
}

func (c *Client) getJSON(ctx context.Context, path string, out any) error {
	return c.doJSON(ctx, http.MethodGet, path, "", nil, out)
}

func (c *Client) doJSON(
	ctx context.Context, method, path, contentType string, body []byte, out any,
) error {
	answer, err := c.do(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	if err := json.NewDecoder(answer).Decode(out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// Put stores a batch. Under a writer it is one request, and whoever counts the sequences repeats
// it. With the zero writer, a client of several nodes draws one, and tries for a minute until it is
// answered; one of a single node sends one request without protection against doubling.
func (c *Client) Put(
	ctx context.Context, b *record.Batch, writer [16]byte, seq uint64,
) (wire.PutReply, error) {
	if err := b.Validate(); err != nil {
		return wire.PutReply{}, err
	}
	if _, count, _ := c.nodes.now(); count > 1 && writer == [16]byte{} {
		return c.putSurely(ctx, "/v1/put", b)
	}
	body, err := wire.AppendPut(nil, &wire.Put{Writer: writer, Seq: seq, Batch: b})
	if err != nil {
		return wire.PutReply{}, err
	}
	return c.putBody(ctx, "/v1/put", body)
}

func (c *Client) putBody(ctx context.Context, path string, body []byte) (wire.PutReply, error) {
	var reply wire.PutReply
	base, _, _ := c.nodes.now()
	answer, err := c.do(ctx, http.MethodPost, path, wire.ContentType, body)
	if err != nil {
		return reply, err
	}
	defer func() { _ = answer.Close() }()
	t, payload, err := wire.NewReader(answer, maxErrorBytes).Next()
	if err == nil && t != wire.FramePutReply {
		err = fmt.Errorf("unexpected frame of type %d", t)
	}
	if err == nil {
		err = wire.ParsePutReply(payload, &reply)
	}
	if err != nil {
		// Not wrapped: the node refused nothing, and whether it stored the batch is unknown.
		return wire.PutReply{}, fmt.Errorf("read answer to a put: %v; the node may have stored it",
			err)
	}
	c.nodes.note(base, reply.LastAcqNs)
	return reply, nil
}

// ErrNoEnd ends an answer that broke off: what came is true, but it is not all.
var ErrNoEnd = errors.New("the answer stops before its end frame: the node or the network failed")
