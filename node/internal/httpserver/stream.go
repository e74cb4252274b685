package httpserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/valyala/fasthttp"
)

// answerBufferBytes is the size of a chunk of an answer: a small answer is one chunk and one write.
// Together with the chunk's framing and the header it fits into the buffer of the connection.
const answerBufferBytes = writeBufferBytes - 2<<10

var answerBuffers = sync.Pool{New: func() any {
	return bufio.NewWriterSize(nil, answerBufferBytes)
}}

// Stream is an answer that is produced while it is written: a slow reader slows the scan down, and
// nothing is copied through a pipe. The connection's goroutine calls Produce, which may let others,
// such as the workers of a scan, write in turn until it returns.
type Stream struct {
	// Begin returns the context of Produce, and what ends it.
	Begin func() (context.Context, context.CancelFunc)
	// Produce writes the answer, after the handler has returned. Its writes fail after the client
	// has disconnected.
	Produce func(ctx context.Context, w *bufio.Writer) error
	// Zipped says that the answer may be compressed. It is then sent late: Produce does not have
	// what it flushes sent.
	Zipped bool
	// Permit is lent to others while the client does not read; nil for none.
	Permit *admission.Permit
	// End is called when the answer ends, or when nothing is produced. It may be called more than
	// once; nil for nothing.
	End func()
}

// Stream answers with what a stream produces.
func (s *Server) Stream(ctx *fasthttp.RequestCtx, answer Stream) {
	body := &streamBody{server: s, conn: ctx.Conn(), answer: answer}
	if answer.Zipped {
		body.zip = s.newZip(ctx)
	}
	ctx.SetBodyStream(body, -1)
}

// streamBody is the body of a response.
type streamBody struct {
	server *Server
	conn   net.Conn
	answer Stream
	zip    *zip // nil: it is not compressed
}

// Close ends the answer. fasthttp calls it after WriteTo, and when it gives the answer up.
func (b *streamBody) Close() error {
	b.end()
	if b.zip != nil {
		b.zip.end()
		b.zip = nil
	}
	return nil
}

// end ends the work on the answer.
func (b *streamBody) end() {
	if b.answer.End != nil {
		b.answer.End()
	}
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
	ctx, cancel := b.answer.Begin()
	defer cancel()
	if b.zip != nil {
		w = b.zip.begin(w)
	}
	buf := answerBuffers.Get().(*bufio.Writer)
	buf.Reset(w)
	defer func() {
		if fault := recover(); fault != nil {
			b.server.logPanic("panic in an answer", fault)
			err = errors.New("internal fault")
		}
		buf.Reset(nil)
		answerBuffers.Put(buf)
	}()
	own, _ := b.conn.(*conn)
	if b.answer.Permit != nil && own != nil {
		own.lend(ctx, b.answer.Permit)
		defer own.keepPermit()
	}
	err = b.answer.Produce(ctx, buf)
	b.end() // before the client has the end of the answer
	if err != nil {
		if b.zip != nil {
			_ = b.zip.flush() // what was said of the error; the client may have disconnected
		}
		return 0, err
	}
	if own != nil {
		own.keepPermit()
		own.bufferEnd()
	}
	if err = buf.Flush(); err == nil && b.zip != nil {
		err = b.zip.finish()
	}
	return 0, err
}
