package node

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

const (
	// smallBody is how much of a body fasthttp reads with the header; one that is no larger takes
	// nothing of the budget.
	smallBody = 8 << 10
	// bodyStep is the least by which the memory of a body grows, and maxKeptBody the most that is
	// kept for the next one.
	bodyStep    = 64 << 10
	maxKeptBody = 1 << 20
	// bodyTime is how long a request waits for memory at most.
	bodyTime = 5 * time.Second
	// bodiesPart is the part of the node's memory for requests that come in or are stored, and
	// mostBodies the most. What one gives back another has at once, while it is garbage still.
	bodiesPart = 12
	mostBodies = 512 << 20
	// decodedCopies is about how often the payloads of a batch lie in memory while it is stored: as
	// rows, in what is written to the log, in what that is compressed to, and as garbage of these.
	decodedCopies = 4
)

func newBodies(total memory.Total) *budget.Budget {
	return budget.New(total.Part(bodiesPart, mostBodies))
}

var bodies = sync.Pool{New: func() any { return new([]byte) }}

// body is the memory of a request, until its answer is written.
type body struct {
	server *server
	share  *budget.Share
	bytes  *[]byte // of bodies
}

// takeBody reads the body of a request as it comes, into memory that it takes of the budget, and
// never for the sake of a length that the client tells.
func (s *server) takeBody(ctx *fasthttp.RequestCtx) error {
	length := ctx.Request.Header.ContentLength() // below 0: it comes in chunks
	if length > maxBodyBytes {
		return bodyTooLong()
	}
	stream, own := ctx.RequestBodyStream(), connOf(ctx)
	if stream == nil || own == nil || length >= 0 && length <= smallBody {
		return nil
	}
	own.body = &body{server: s, share: s.bodies.Share(), bytes: bodies.Get().(*[]byte)}
	err := own.body.read(stream, length)
	own.body.share.Whole()
	if err == nil {
		ctx.Request.SetBodyRaw(*own.body.bytes)
	}
	return err
}

// read reads all of a body.
func (b *body) read(stream io.Reader, length int) error {
	in := (*b.bytes)[:0]
	defer func() { *b.bytes = in }()
	taken := smallBody
	for {
		if len(in) == taken && len(in) != length {
			step := min(max(bodyStep, len(in)), maxBodyBytes+1-len(in))
			if length > 0 {
				step = min(step, length-len(in))
			}
			if step <= 0 {
				return bodyTooLong()
			}
			if err := b.take(step); err != nil {
				return err
			}
			taken += step
		}
		if cap(in) < taken {
			in = append(make([]byte, 0, taken), in...)
		}
		n, err := stream.Read(in[len(in):taken])
		in = in[:len(in)+n]
		switch {
		case len(in) > maxBodyBytes:
			return bodyTooLong()
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// take takes memory for a request, and waits for it a while.
func (b *body) take(bytes int) error {
	return b.share.Take(b.server.running, int64(bytes), bodyTime)
}

// end gives the memory back; of nil it does nothing.
func (b *body) end() {
	if b == nil {
		return
	}
	b.share.End()
	if cap(*b.bytes) <= maxKeptBody {
		bodies.Put(b.bytes)
	}
}

// connOf returns the connection of a request, nil for one that no listener of the node took.
func connOf(ctx *fasthttp.RequestCtx) *conn {
	own, _ := ctx.Conn().(*conn)
	return own
}

// needs takes memory for what a request is decoded to, before it is.
func needs(ctx *fasthttp.RequestCtx, bytes uint64) error {
	own := connOf(ctx)
	if own == nil || own.body == nil || bytes <= smallBody {
		return nil
	}
	err := own.body.take(int(bytes) * decodedCopies)
	own.body.share.Whole()
	return err
}

func bodyTooLong() error {
	return &wire.Error{Kind: wire.KindTooLarge,
		Message: fmt.Sprintf("request body over %d bytes", maxBodyBytes)}
}

// refuseBody answers a request whose body was not read to its end: what follows it on the
// connection is no request.
func refuseBody(ctx *fasthttp.RequestCtx, err error) {
	if errors.Is(err, budget.ErrFull) || errors.As(err, new(*wire.Error)) {
		writeError(ctx, toWire(err))
	} else {
		refuse(ctx, err)
	}
	ctx.SetConnectionClose()
}

// continued answers clients that ask before they send a body.
func continued(ctx *fasthttp.RequestCtx) (status int) {
	if ctx.Request.Header.ContentLength() > maxBodyBytes {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusContinue
}
