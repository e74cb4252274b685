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

	"github.com/valyala/fasthttp"
)

// answerBufferBytes is what a chunk of an answer holds: a small answer is one chunk and one write.
// With what stands around it and the header it fits into the buffer of the connection.
const answerBufferBytes = writeBufferBytes - 2<<10

var answerBuffers = sync.Pool{New: func() any {
	return bufio.NewWriterSize(nil, answerBufferBytes)
}}

// answer is a response body that is produced while it is written, on the connection's goroutine: a
// slow reader slows the scan down, and nothing is copied through a pipe.
type answer struct {
	server  *server
	conn    net.Conn
	asked   scope
	produce func(rc context.Context, w *bufio.Writer) error
	place   *admission // nil: it needs none
}

// stream answers with what produce writes, after the handler has returned. The context of produce
// ends with the server or after queryTimeout, and where another node asks, when that one hangs up;
// writing fails when the client went away.
func (s *server) stream(
	ctx *fasthttp.RequestCtx, produce func(rc context.Context, w *bufio.Writer) error,
) {
	s.streamIn(ctx, nil, produce)
}

// streamIn is stream in a place, which is given back when nothing will be produced any more, also
// when nothing was. While the client does not read, others have it.
func (s *server) streamIn(
	ctx *fasthttp.RequestCtx, place *admission,
	produce func(rc context.Context, w *bufio.Writer) error,
) {
	asked, _ := parseScope(ctx.QueryArgs()) // handle has checked it
	ctx.SetBodyStream(&answer{s, ctx.Conn(), asked, produce, place}, -1)
}

// Close is called by fasthttp, too, for whatever reason it is done with the answer.
func (a *answer) Close() error {
	a.place.done()
	return nil
}

// SupportsBodyWriteTo makes fasthttp call WriteTo.
func (a *answer) SupportsBodyWriteTo() bool { return true }

// Read is there because a body stream must be a reader.
func (a *answer) Read([]byte) (int, error) {
	return 0, errors.New("BUG: an answer is written, not read")
}

// WriteTo produces the answer. After an error the connection is closed without a last chunk, so
// that no client takes the answer for whole.
func (a *answer) WriteTo(w io.Writer) (n int64, err error) {
	rc, cancel := a.server.watched(a.conn, a.asked)
	defer cancel()
	buf := answerBuffers.Get().(*bufio.Writer)
	buf.Reset(w)
	defer func() {
		if fault := recover(); fault != nil {
			a.server.node.log.Error("panic in an answer", "err", fmt.Sprint(fault), "stack",
				string(debug.Stack()))
			err = errors.New("internal fault")
		}
		buf.Reset(nil)
		answerBuffers.Put(buf)
	}()
	own, _ := a.conn.(*conn)
	if a.place != nil {
		rc = withAdmission(rc, a.place)
		if own != nil {
			own.asks(rc, a.place.place)
			defer own.asksNoMore()
		}
	}
	err = a.produce(rc, buf)
	_ = a.Close() // before the client has the end of the answer
	if err != nil {
		return 0, err
	}
	if own != nil {
		own.asksNoMore()
		own.answerEnds()
	}
	return 0, buf.Flush()
}
