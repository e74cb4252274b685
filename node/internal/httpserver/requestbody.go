package httpserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

const (
	// smallBody is how much of a body fasthttp reads with the header; bodies up to this size take
	// nothing from the budget.
	smallBody = 8 << 10
	// bodyStep is the least growth of a body's buffer, which doubles, or grows by knownGrowth times
	// what has come where the length is known. maxKeptBody is the largest buffer that is pooled.
	bodyStep    = 64 << 10
	knownGrowth = 3
	maxKeptBody = 1 << 20
	// bodyTime is how long a request waits for memory, at most.
	bodyTime = 5 * time.Second
	// decodedCopies is roughly the number of copies of the payloads of a batch while it is stored:
	// as rows, as the log entry, as the compressed entry, and as garbage of these.
	decodedCopies = 4
)

var bodies = sync.Pool{New: func() any { return new([]byte) }}

// body is the memory of a request, until its answer is written.
type body struct {
	server *Server
	share  *budget.Share
	bytes  *[]byte // of bodies
	held   int64   // of the share, for bytes
}

// NewBodies returns a budget of the bodies of a server: of that many bytes, and of bodies up to
// largest with the decoded form of each.
func NewBodies(total, largest int64) *budget.Budget {
	return budget.New(total, largest*(1+decodedCopies))
}

// maxBody returns how large a body may be that a budget has memory for, decoded form included.
func maxBody(bodies *budget.Budget) int {
	return int(min(maxBodyBytes, bodies.Largest()/(1+decodedCopies)))
}

// takeBody reads the body of a request. It takes memory from the budget as bytes arrive, never for
// a length that the client only announces.
//
// Errors: io.ErrUnexpectedEOF if the connection ends before the body.
func (s *Server) takeBody(ctx *fasthttp.RequestCtx) error {
	length := ctx.Request.Header.ContentLength() // -1: chunked, -2: none
	if length > s.maxBody {
		return s.bodyTooLong()
	}
	if (length > 0 || length == -1) && framedTwice(ctx.Request.Header.RawHeaders()) {
		return &wire.Error{Kind: wire.KindBadFrame, Message: "read request: it has " +
			"Content-Length and Transfer-Encoding; send one of them"}
	}
	stream, own := ctx.RequestBodyStream(), connOf(ctx)
	zipped := isZipped(ctx)
	if zipped && (length == 0 || length == -2) {
		ctx.Request.Header.Del(fasthttp.HeaderContentEncoding)
		return nil
	}
	if own == nil || !zipped && (stream == nil || length >= 0 && length <= smallBody) {
		return nil
	}
	own.body = &body{server: s, share: s.opt.Bodies.Share(), bytes: bodies.Get().(*[]byte)}
	var err error
	switch {
	case zipped && stream == nil:
		err = own.body.unzip(ctx, bytes.NewReader(ctx.Request.Body()))
	case zipped:
		err = own.body.unzip(ctx, stream)
	default:
		err = own.body.read(stream, length)
	}
	own.body.share.Arrived()
	switch {
	case own.ended:
		// fasthttp ends a body without an error, too, when its connection ends: between two chunks,
		// or before its length is reached. A whole body is read without reading on.
		return io.ErrUnexpectedEOF
	case err == nil:
		ctx.Request.SetBodyRaw(*own.body.bytes)
	}
	return err
}

// read reads all of a body.
func (b *body) read(stream io.Reader, length int) error {
	in, most := (*b.bytes)[:0], b.server.maxBody
	defer func() { *b.bytes = in }()
	taken := smallBody
	for {
		if len(in) == taken && len(in) != length {
			step := min(max(bodyStep, len(in)), most+1-len(in))
			if length > 0 {
				step = min(max(step, knownGrowth*len(in)), length-len(in))
			}
			if step <= 0 {
				return b.server.bodyTooLong()
			}
			if err := b.take(step); err != nil {
				return err
			}
			taken += step
			b.held += int64(step)
		}
		if cap(in) < taken {
			in = append(make([]byte, 0, taken), in...)
		}
		n, err := stream.Read(in[len(in):taken])
		in = in[:len(in)+n]
		switch {
		case len(in) > most:
			return b.server.bodyTooLong()
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// take takes memory from the budget, and waits up to bodyTime for it.
func (b *body) take(bytes int) error {
	return b.share.Take(b.server.running, int64(bytes), bodyTime)
}

// end returns the memory to the budget; b may be nil.
func (b *body) end() {
	if b == nil {
		return
	}
	b.share.End()
	if cap(*b.bytes) <= maxKeptBody {
		bodies.Put(b.bytes)
	}
}

// connOf returns the connection of a request, nil if it is not from the node's listener.
func connOf(ctx *fasthttp.RequestCtx) *conn {
	own, _ := ctx.Conn().(*conn)
	return own
}

// ReserveDecoded takes memory for the decoded form of a request before it is decoded; bytes are
// those of its payloads.
//
// Errors: KindTooLarge, when it never fits; budget.ErrFull; that the server gives requests up.
func ReserveDecoded(ctx *fasthttp.RequestCtx, bytes uint64) error {
	own := connOf(ctx)
	if own == nil || own.body == nil || bytes <= smallBody {
		return nil
	}
	err := own.body.take(int(bytes) * decodedCopies)
	own.body.share.Arrived()
	if errors.Is(err, budget.ErrTooLarge) {
		s := own.body.server
		return &wire.Error{Kind: wire.KindTooLarge, Message: fmt.Sprintf(
			"payloads of %d bytes, at most some %d%s", bytes, s.maxBody, s.whyLess())}
	}
	return err
}

// ReleaseBody releases the memory of the body of a request, of which the decoded form has copies.
func ReleaseBody(ctx *fasthttp.RequestCtx) {
	own := connOf(ctx)
	if own == nil || own.body == nil || cap(*own.body.bytes) <= maxKeptBody {
		return
	}
	ctx.Request.SetBodyRaw(nil)
	*own.body.bytes = nil
	own.body.share.Release(own.body.held)
	own.body.held = 0
}

func (s *Server) bodyTooLong() *wire.Error {
	return &wire.Error{Kind: wire.KindTooLarge,
		Message: fmt.Sprintf("request body over %d bytes%s", s.maxBody, s.whyLess())}
}

// whyLess explains the limit of bodies if it is less than that of the protocol.
func (s *Server) whyLess() string {
	if s.maxBody >= maxBodyBytes {
		return ""
	}
	return ", which the memory of the node leaves for a request; send less at once, or give the " +
		"node more (--memory)"
}

// refuseBody answers a request whose body was not read completely, and closes the connection, on
// which the rest of the body follows.
func (s *Server) refuseBody(ctx *fasthttp.RequestCtx, err error) {
	var known *wire.Error
	switch {
	case errors.Is(err, budget.ErrFull):
		WriteError(ctx, &wire.Error{Kind: wire.KindOverloaded, Message: err.Error(),
			RetryAfterMs: retryAfterMs})
	case errors.As(err, &known):
		if known.Kind == wire.KindTooLarge {
			discardRest(ctx)
		}
		WriteError(ctx, known)
	default:
		s.rejectUnreadable(ctx, err)
	}
	closeAfter(ctx)
}

// framedTwice reports whether a header says in two ways where the body ends: a proxy may go by the
// other one (RFC 9112, 6.3).
func framedTwice(header []byte) bool {
	var length, coding bool
	for line := range bytes.Lines(header) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		length = length || bytes.EqualFold(name, []byte(fasthttp.HeaderContentLength))
		coding = coding || bytes.EqualFold(name, []byte(fasthttp.HeaderTransferEncoding))
	}
	return length && coding
}

// refuseLength makes fasthttp call continued for a body that is too long: otherwise it waits for
// the beginning of the body before it calls a handler.
func refuseLength(header *fasthttp.RequestHeader) (own fasthttp.RequestConfig) {
	if header.ContentLength() > maxBodyBytes {
		header.Set(fasthttp.HeaderExpect, "100-continue")
	}
	return own
}

// discardRest reads what is left of a body that is refused, unless it is longer than any may be: a
// client that sends it would see the connection break, not the answer.
func discardRest(ctx *fasthttp.RequestCtx) {
	stream := ctx.RequestBodyStream()
	if stream != nil && ctx.Request.Header.ContentLength() <= maxBodyBytes {
		_, _ = io.CopyN(io.Discard, stream, maxBodyBytes)
	}
}

// continued answers Expect: 100-continue.
func (s *Server) continued(ctx *fasthttp.RequestCtx) (status int) {
	if ctx.Request.Header.ContentLength() <= s.maxBody {
		return http.StatusContinue
	}
	s.refuseBody(ctx, s.bodyTooLong())
	s.opt.Answered(ctx.Response.StatusCode(), 0)
	return ctx.Response.StatusCode()
}
