package node

import (
	"net/http"
	"strings"

	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// changes reports whether a request may change something or keep the disk busy: all but those that
// are known to ask.
func changes(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	switch path {
	case "/v1/query", "/v1/count", "/v1/explain", "/v1/changes", "/v1/diff", "/v1/versions",
		"/v1/digest":
		return false
	}
	return !strings.HasPrefix(path, "/v1/plugins/") || !strings.HasSuffix(path, "/run")
}

// fromPage reports whether a browser sent a request for a web page. It does so, without asking, to
// any address that it can reach, loopback too, and says where the page is from.
func fromPage(ctx *fasthttp.RequestCtx) bool {
	return len(ctx.Request.Header.Peek("Origin")) > 0 ||
		string(ctx.Request.Header.Peek("Sec-Fetch-Site")) == "cross-site"
}

// siteOf says of which site the page is that a request is for, "" when a program sent it.
func siteOf(ctx *fasthttp.RequestCtx) string {
	if origin := ctx.Request.Header.Peek("Origin"); len(origin) > 0 {
		return clip(string(origin))
	}
	return clip(string(ctx.Request.Header.Peek("Sec-Fetch-Site")))
}

func refusePage(ctx *fasthttp.RequestCtx) {
	writeError(ctx, &wire.Error{Kind: wire.KindForbidden, Message: "a web page sent this (header " +
		"Origin or Sec-Fetch-Site); changes are taken from programs only, without these headers"})
}
