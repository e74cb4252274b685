package httpserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// SpeaksFrames reports whether a request speaks frames.
func SpeaksFrames(ctx *fasthttp.RequestCtx) bool {
	return string(ctx.Request.Header.ContentType()) == wire.ContentType
}

// WriteError answers with an error frame or with problem+json, as the request was.
func WriteError(ctx *fasthttp.RequestCtx, e *wire.Error) { writeProblem(ctx, status(e.Kind), e) }

// writeProblem is WriteError with a status that HTTP has and kinds do not tell apart.
func writeProblem(ctx *fasthttp.RequestCtx, code int, e *wire.Error) {
	ctx.Response.Reset()
	ctx.SetStatusCode(code)
	if e.RetryAfterMs > 0 {
		seconds := max(1, int(e.RetryAfterMs/1000))
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(seconds))
	}
	if SpeaksFrames(ctx) {
		ctx.SetContentType(wire.ContentType)
		ctx.SetBody(wire.AppendError(nil, e))
		return
	}
	ctx.SetContentType("application/problem+json")
	body, err := json.Marshal(problemOf(code, e))
	if err != nil {
		panic("BUG: an error does not marshal: " + err.Error())
	}
	ctx.SetBody(append(body, '\n'))
}

func problemOf(code int, e *wire.Error) api.Error {
	p := api.Error{Type: "about:blank", Title: http.StatusText(code), Status: code,
		Detail: e.Message, Code: e.Kind.String(), Part: e.Part, Reason: e.Reason}
	if put, ok := e.Outcome(); ok {
		p.Part, p.Reason, p.Put = "", "", &put
	}
	if fault, ok := e.Fault(); ok {
		p.Part, p.Reason, p.Fault = "", "", &fault
	}
	return p
}

// toWire returns an error of the protocol.
func toWire(err error) *wire.Error {
	var known *wire.Error
	if errors.As(err, &known) {
		return known
	}
	return &wire.Error{Kind: wire.KindInternal, Message: err.Error()}
}

// WriteJSON answers with a document in JSON.
func WriteJSON(ctx *fasthttp.RequestCtx, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		WriteError(ctx, &wire.Error{Kind: wire.KindInternal, Message: err.Error()})
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(body, '\n'))
}

// status returns the HTTP status of a kind.
func status(k wire.Kind) int {
	switch k {
	case wire.KindBadFrame, wire.KindUnsupportedVersion, wire.KindInvalid:
		return 400
	case wire.KindForbidden:
		return 403
	case wire.KindUnknownPlugin, wire.KindNotFound:
		return 404
	case wire.KindMethodNotAllowed:
		return 405
	case wire.KindSequenceTooOld, wire.KindSequenceGap, wire.KindConflict:
		return 409
	case wire.KindTooLarge:
		return 413
	case wire.KindBadModule, wire.KindPluginFailed, wire.KindPluginLimit:
		return 422
	case wire.KindOverloaded:
		return 429
	case wire.KindUnavailable:
		return 503
	case wire.KindTimeout:
		return 504
	default:
		return 500
	}
}
