package tstorage

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// readBytes is what one read from a client takes at most. A connection has this memory only
	// while it brings a request that is longer than a box.
	readBytes = 64 << 10
	// writeBytes is what an answer gathers before it is written, and the most that one write may
	// take Options.Stall for.
	writeBytes = 64 << 10
	// maxSkipped is how much of a PUT is read on after an error, so that the client comes to
	// reading the answer; one with more to say is hung up on.
	maxSkipped = 4 << 30
	// maxLinger is how much is read and dropped after the answer before a hang-up: bytes that
	// no one has read would make the system take the answer back.
	maxLinger = 1 << 20
)

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBytes) }}

// conn is one connection, used by its goroutine.
type conn struct {
	server *Server
	raw    net.Conn
	tcp    net.Conn      // raw, or what it wraps in TLS
	in     *bufio.Reader // nil between requests, unless a client runs ahead
	head   [headerBytes + boxBytes]byte
	wait   time.Duration // for the next bytes
	until  time.Time     // when what is being read must have come whole; zero: any time
	pace   pace
	early  int // bytes of the next answer that went out already

	idle bool // between requests; guarded by Server.mu
}

// Write implements io.Writer, with a deadline for each 64 KiB.
func (c *conn) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		if err = c.raw.SetWriteDeadline(time.Now().Add(c.server.opt.Stall)); err != nil {
			break
		}
		var k int
		k, err = c.raw.Write(p[n:min(n+writeBytes, len(p))])
		n += k
	}
	c.server.counters.bytesOut.Add(int64(n))
	return n, err
}

// errHangUp ends a connection after its answer; the error is logged already.
var errHangUp = errors.New("hang up")

func (c *conn) serve() {
	defer c.close()
	defer func() {
		if fault := recover(); fault != nil {
			c.server.log.Error("panic in a TStorage request", "err", fmt.Sprint(fault), "stack",
				string(debug.Stack()))
		}
	}()
	if err := c.handshake(); err != nil {
		return
	}
	for c.request() == nil {
		c.putBackReader()
	}
}

// handshake wraps the connection in TLS, if that is wanted.
func (c *conn) handshake() error {
	config := c.server.opt.TLS
	if config == nil {
		return nil
	}
	secure := tls.Server(c.raw, config)
	ctx, cancel := context.WithTimeout(c.server.running, c.server.opt.Stall)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		c.server.counters.errors.Add(1)
		return err
	}
	c.server.mu.Lock()
	c.raw = secure
	c.server.mu.Unlock()
	return nil
}

func (c *conn) close() {
	_ = c.raw.Close()
	c.server.end(c)
	if c.in != nil {
		c.in.Reset(nil)
		readers.Put(c.in)
		c.in = nil
	}
}

// reader returns the buffered reader of the connection.
func (c *conn) reader() *bufio.Reader {
	if c.in == nil {
		c.in = readers.Get().(*bufio.Reader)
		c.in.Reset(c)
	}
	return c.in
}

// putBackReader gives the reader back unless it holds what a client sent ahead.
func (c *conn) putBackReader() {
	if c.in != nil && c.in.Buffered() == 0 {
		c.in.Reset(nil)
		readers.Put(c.in)
		c.in = nil
	}
}

// fill reads as many bytes of a header or box as dst has.
func (c *conn) fill(dst []byte) error {
	if c.in != nil {
		_, err := io.ReadFull(c.in, dst)
		return err
	}
	_, err := io.ReadFull(c, dst)
	return err
}

// request reads and answers one request. After an error the connection is closed.
func (c *conn) request() error {
	s := c.server
	if !s.rest(c, true) {
		return errHangUp
	}
	c.wait, c.until = s.opt.Idle, time.Time{}
	if err := c.fill(c.head[:1]); err != nil {
		return err // a client that goes, or is silent for long, between requests is no news
	}
	s.rest(c, false)
	c.wait = s.opt.Stall
	if err := c.fill(c.head[1:headerBytes]); err != nil {
		return c.lost("read the header of a request", err)
	}
	cmd, size := parseHeader(c.head[:])
	switch cmd {
	case cmdGet, cmdGetAcq:
		return c.ask(cmd, size)
	case cmdPut, cmdPutA:
		return c.put(cmd == cmdPutA, size)
	default:
		return c.refuse(refuse(statusNoImpl, "there is no command %d", cmd))
	}
}

// ask reads the box of a GET or GETACQ and answers it.
func (c *conn) ask(cmd int32, size uint64) error {
	if size != boxBytes {
		return c.refuse(refuse(statusInvalid, "a box has %d bytes, not %d", boxBytes, size))
	}
	if err := c.fill(c.head[headerBytes:]); err != nil {
		return c.lost("read the box of a request", err)
	}
	b := parseBox(c.head[headerBytes:])
	if cmd == cmdGetAcq {
		c.server.counters.getAcqs.Add(1)
		return c.getAcq(&b)
	}
	c.server.counters.gets.Add(1)
	return c.get(&b)
}

// lost is a connection that broke inside a request.
func (c *conn) lost(what string, err error) error {
	c.server.counters.errors.Add(1)
	c.server.talk.log(c.server.log, slog.LevelInfo, "a TStorage client was lost", "peer", c.peer(),
		"err", fmt.Errorf("%s: %w", what, err))
	return errHangUp
}

func (c *conn) peer() string { return c.raw.RemoteAddr().String() }

// fail answers with the status for an error. The connection goes on.
func (c *conn) fail(err error) error {
	st := c.server.statusFor(err)
	c.server.counters.errors.Add(1)
	c.server.talk.log(c.server.log, slog.LevelWarn, "a TStorage request failed", "peer", c.peer(),
		"status", int(st), "err", err)
	return c.answer(appendHeader(nil, int32(st), 0))
}

// refuse answers with the status for an error after which no one knows where the next request
// begins, and hangs up.
func (c *conn) refuse(err error) error {
	if err := c.fail(err); err != nil {
		return err
	}
	c.linger()
	return errHangUp
}

// linger reads what the client has sent beside the answer, for a while.
func (c *conn) linger() {
	half, ok := c.raw.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.wait = min(c.server.opt.Stall, time.Second)
	c.until = time.Now().Add(c.wait)
	_, _ = io.CopyN(io.Discard, c, maxLinger) // whatever comes
}
