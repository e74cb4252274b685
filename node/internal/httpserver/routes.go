package httpserver

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// Route is one method of one path.
type Route struct {
	Method  string // GET answers HEAD, too
	Path    string // NAME in it is any one name
	Deep    bool   // the name may have slashes
	Mutates bool   // changes something, or keeps the disk busy: refused to web pages
	// Params are the parameters in the URL. nil: the handler checks them, since they depend on more
	// than the route.
	Params []string
	Handle func(*Request)
}

// Request is a request of a route.
type Request struct {
	*fasthttp.RequestCtx
	Name    string          // what is in the path in the place of NAME
	Options request.Options // parsed and checked
}

// Fail answers with an error; see [WriteError].
func (r *Request) Fail(e *wire.Error) { WriteError(r.RequestCtx, e) }

// Refuse answers with an error and a status that HTTP has and kinds do not tell apart.
func (r *Request) Refuse(code int, e *wire.Error) { writeProblem(r.RequestCtx, code, e) }

// JSON answers with a document in JSON.
func (r *Request) JSON(v any) { WriteJSON(r.RequestCtx, v) }

// SpeaksFrames reports whether it speaks frames.
func (r *Request) SpeaksFrames() bool { return SpeaksFrames(r.RequestCtx) }

// router finds routes.
type router struct {
	exact map[string][]Route // by path
	named []Route            // those with a NAME
	paths []string           // all, in the order of the table
}

func newRouter(table []Route) *router {
	t := &router{exact: map[string][]Route{}}
	for _, r := range table {
		if strings.Contains(r.Path, "NAME") {
			t.named = append(t.named, r)
		} else {
			t.exact[r.Path] = append(t.exact[r.Path], r)
		}
		if !slices.Contains(t.paths, r.Path) {
			t.paths = append(t.paths, r.Path)
		}
	}
	return t
}

// find returns the methods of a path, nil for an unknown one, and the name in it.
func (t *router) find(path string) (methods []Route, name string) {
	if methods = t.exact[path]; methods != nil {
		return methods, ""
	}
	for _, r := range t.named {
		before, after, _ := strings.Cut(r.Path, "NAME")
		rest, ok := strings.CutPrefix(path, before)
		if !ok {
			continue
		}
		of, ok := strings.CutSuffix(rest, after)
		if ok && (r.Deep && of != "" || !r.Deep && !strings.Contains(of, "/")) {
			methods, name = append(methods, r), of
		}
	}
	return methods, name
}

// route calls the handler of a request. Paths that are not in the table are those of nodes of a
// cluster among each other.
func (s *Server) route(ctx *fasthttp.RequestCtx) {
	method, path := string(ctx.Method()), pathAsSent(ctx)
	if method == http.MethodHead {
		method = http.MethodGet // fasthttp leaves the body out
	}
	methods, name := s.routes.find(path)
	at := slices.IndexFunc(methods, func(r Route) bool { return r.Method == method })
	mutates := method != http.MethodGet && method != http.MethodOptions
	if at >= 0 {
		mutates = methods[at].Mutates
	}
	if mutates && isFromWebPage(ctx) {
		rejectWebPage(ctx)
		return
	}
	asked, err := s.opt.Parse(ctx.QueryArgs())
	if err == nil && at >= 0 && methods[at].Params != nil {
		err = params.Check(ctx.QueryArgs(), methods[at].Params)
	}
	coding := string(ctx.Request.Header.ContentEncoding())
	switch {
	case err != nil:
		WriteError(ctx, toWire(err))
	case coding != "" && coding != "identity":
		writeProblem(ctx, http.StatusUnsupportedMediaType, &wire.Error{Kind: wire.KindInvalid,
			Part: "body", Message: fmt.Sprintf("Content-Encoding %q is not supported; send the "+
				"body as gzip or uncompressed", params.Clip(coding))})
	case at >= 0:
		methods[at].Handle(&Request{ctx, name, asked})
	case methods != nil:
		wrongMethod(ctx, methods)
	case s.opt.Other(ctx, method, path):
	default:
		WriteError(ctx, &wire.Error{Kind: wire.KindNotFound, Message: fmt.Sprintf(
			"no route %s %.100s%s", ctx.Method(), path, cmp.Or(excerpt.DidYouMean(path, s.paths()),
				"; there are "+strings.Join(s.paths(), ", ")))})
	}
}

// wrongMethod answers with the methods of a path: OPTIONS with success, else with an error.
func wrongMethod(ctx *fasthttp.RequestCtx, methods []Route) {
	var list []string
	for _, r := range methods {
		list = append(list, r.Method)
		if r.Method == http.MethodGet {
			list = append(list, http.MethodHead)
		}
	}
	slices.Sort(list)
	allowed := strings.Join(list, ", ")
	if ctx.IsOptions() {
		ctx.SetStatusCode(http.StatusNoContent)
	} else {
		WriteError(ctx, &wire.Error{Kind: wire.KindMethodNotAllowed, Message: fmt.Sprintf(
			"%s takes %s, not %.20s", methods[0].Path, allowed, ctx.Method())})
	}
	ctx.Response.Header.Set("Allow", allowed)
}

// paths lists the paths of which this node has something to say.
func (s *Server) paths() []string {
	return slices.DeleteFunc(slices.Clone(s.routes.paths), func(path string) bool {
		return !s.opt.Serves(path)
	})
}
