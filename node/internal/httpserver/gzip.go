package httpserver

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

const (
	codingGzip = "gzip"
	// unzipBytes and zipBytes are what reading and writing gzip take from the budget of bodies: the
	// tables of compress/flate.
	unzipBytes = 64 << 10
	zipBytes   = 1280 << 10
	// leastZipped keeps small answers, which fit into a packet, as they are.
	leastZipped = 1400
)

var (
	unzippers = sync.Pool{New: func() any { return new(gzip.Reader) }}
	zippers   = sync.Pool{New: func() any {
		z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return z
	}}
)

// isZipped reports whether the body of a request is gzip.
func isZipped(ctx *fasthttp.RequestCtx) bool {
	return string(ctx.Request.Header.ContentEncoding()) == codingGzip
}

// unzip reads a body that is gzip. What it takes in memory is bounded as if it came so.
//
// Errors: those of [body.read]; KindInvalid for what is not gzip.
func (b *body) unzip(ctx *fasthttp.RequestCtx, in io.Reader) error {
	if err := b.take(unzipBytes); err != nil {
		return err
	}
	z := unzippers.Get().(*gzip.Reader)
	defer unzippers.Put(z)
	err := z.Reset(in)
	if err == nil {
		err = b.read(z, -1)
	}
	var network net.Error
	var known *wire.Error
	switch {
	case err == nil:
		ctx.Request.Header.Del(fasthttp.HeaderContentEncoding)
		return nil
	case errors.As(err, &network), errors.As(err, &known), errors.Is(err, budget.ErrFull),
		errors.Is(err, budget.ErrTooLarge):
		return err
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum),
		errors.As(err, new(flate.CorruptInputError)), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, io.EOF):
		return &wire.Error{Kind: wire.KindInvalid, Part: "body", Message: "Content-Encoding is " +
			"gzip, and the body is not, or is cut off: " + err.Error()}
	}
	return err
}

// wantsZipped reports whether the client takes an answer in gzip.
func wantsZipped(ctx *fasthttp.RequestCtx) bool {
	for coding := range strings.SplitSeq(string(ctx.Request.Header.Peek(
		fasthttp.HeaderAcceptEncoding)), ",") {
		name, quality, _ := strings.Cut(strings.ToLower(coding), ";")
		if name = strings.TrimSpace(name); name != codingGzip && name != "*" {
			continue
		}
		text, isQuality := strings.CutPrefix(strings.TrimSpace(quality), "q=")
		q, err := strconv.ParseFloat(text, 64)
		return !isQuality || err == nil && q > 0
	}
	return false
}

// zip is an answer that is compressed while it is written.
type zip struct {
	share *budget.Share
	to    *gzip.Writer
	out   *bufio.Writer // gzip writes a few bytes at a time
}

// newZip returns what compresses the answer of a request, nil if the client does not want it so or
// memory is short.
func (s *Server) newZip(ctx *fasthttp.RequestCtx) *zip {
	ctx.Response.Header.Add(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
	if ctx.IsHead() || !wantsZipped(ctx) || s.opt.Bodies.Contended() {
		return nil
	}
	share := s.opt.Bodies.Share()
	err := share.Take(s.running, zipBytes, 0)
	share.Arrived()
	if err != nil {
		return nil
	}
	ctx.Response.Header.SetContentEncoding(codingGzip)
	return &zip{share: share}
}

// begin returns where the answer is written.
func (z *zip) begin(w io.Writer) io.Writer {
	z.out = answerBuffers.Get().(*bufio.Writer)
	z.out.Reset(w)
	z.to = zippers.Get().(*gzip.Writer)
	z.to.Reset(z.out)
	return z.to
}

// flush sends what was written.
func (z *zip) flush() error { return errors.Join(z.to.Flush(), z.out.Flush()) }

// finish writes the end.
func (z *zip) finish() error { return errors.Join(z.to.Close(), z.out.Flush()) }

// end gives back the memory.
func (z *zip) end() {
	if z.to != nil {
		z.to.Reset(nil)
		z.out.Reset(nil)
		zippers.Put(z.to)
		answerBuffers.Put(z.out)
		z.to, z.out = nil, nil
	}
	z.share.End()
}

// zipBody compresses a whole answer, if the client takes it so.
func (s *Server) zipBody(ctx *fasthttp.RequestCtx) {
	r := &ctx.Response
	contentType := string(r.Header.ContentType())
	if r.IsBodyStream() || contentType == wire.ContentType ||
		r.StatusCode() == http.StatusNoContent || len(r.Body()) < leastZipped ||
		len(r.Header.ContentEncoding()) > 0 {
		return
	}
	z := s.newZip(ctx)
	if z == nil {
		return
	}
	defer z.end()
	var out bytes.Buffer
	_, err := z.begin(&out).Write(r.Body())
	if err = errors.Join(err, z.finish()); err != nil {
		panic("BUG: memory takes all that is written: " + err.Error())
	}
	ctx.SetBody(out.Bytes())
}
