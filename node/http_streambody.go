package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
)

// answerBufferBytes is the size of a chunk of an answer: a small answer is one chunk and one write.
// Together with the chunk's framing and the header it fits into the buffer of the connection.
const answerBufferBytes = writeBufferBytes - 2<<10

var answerBuffers = sync.Pool{New: func() any {
	return bufio.NewWriterSize(nil, answerBufferBytes)
}}

// streamBody is a response body that is produced while it is written, on the connection's
// goroutine: a slow reader slows the scan down, and nothing is copied through a pipe.
type streamBody struct {
	server  *server
	conn    net.Conn
	asked   requestOptions
	produce func(rc context.Context, w *bufio.Writer) error
	permit  *queryPermit // nil for none
}

// stream answers with what produce writes, after the handler has returned. The context of produce
// ends with the server, after queryTimeout, or when a node that sent the request disconnects.
// Writes fail after the client has disconnected.
func (s *server) stream(
	ctx *fasthttp.RequestCtx, produce func(rc context.Context, w *bufio.Writer) error,
) {
	s.streamIn(ctx, nil, produce)
}

// streamIn is stream under a permit. It releases the permit when the answer ends, or when nothing
// is produced. While the client does not read, the permit is lent to others.
func (s *server) streamIn(
	ctx *fasthttp.RequestCtx, permit *queryPermit,
	produce func(rc context.Context, w *bufio.Writer) error,
) {
	var asked requestOptions
	if permit != nil {
		asked = permit.asked
	} else {
		asked, _ = parseRequestOptions(ctx.QueryArgs()) // handle has checked it
	}
	ctx.SetBodyStream(&streamBody{s, ctx.Conn(), asked, produce, permit}, -1)
}

// Close releases the permit. fasthttp also calls it when it gives the answer up.
func (b *streamBody) Close() error {
	b.permit.done()
	return nil
}

// SupportsBodyWriteTo makes fasthttp call WriteTo.
func (b *streamBody) SupportsBodyWriteTo() bool { return true }

// Read is there because a body stream must be a reader.
func (b *streamBody) Read([]byte) (int, error) {
	return 0, errors.New("BUG: an answer is written, not read")
}

// WriteTo produces the answer. After an error the connection is closed without a last chunk, so
// that no client takes the answer for complete.
func (b *streamBody) WriteTo(w io.Writer) (n int64, err error) {
	rc, cancel := b.server.watchedContext(b.conn, b.asked)
	defer cancel()
	buf := answerBuffers.Get().(*bufio.Writer)
	buf.Reset(w)
	defer func() {
		if fault := recover(); fault != nil {
			b.server.node.log.Error("panic in an answer", "err", fmt.Sprint(fault), "stack",
				string(debug.Stack()))
			err = errors.New("internal fault")
		}
		buf.Reset(nil)
		answerBuffers.Put(buf)
	}()
	own, _ := b.conn.(*conn)
	if b.permit != nil {
		if own != nil {
			own.lend(rc, b.permit.permit)
			defer own.keepPermit()
		}
	}
	err = b.produce(rc, buf)
	_ = b.Close() // before the client has the end of the answer
	if err != nil {
		return 0, err
	}
	if own != nil {
		own.keepPermit()
		own.holdEnd()
	}
	return 0, buf.Flush()
}

// prepare is prepareQuery for a request.
func (s *server) prepare(ctx *fasthttp.RequestCtx, q *record.Query) (*queryPermit, error) {
	asked, _ := parseRequestOptions(ctx.QueryArgs()) // handle has checked it
	rc, cancel := s.watchedContext(ctx.Conn(), asked)
	defer cancel()
	permit, err := s.node.prepareQuery(rc, q)
	if err == nil {
		permit.asked = asked
	}
	return permit, err
}
