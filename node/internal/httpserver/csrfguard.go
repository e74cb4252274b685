package httpserver

import (
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// isFromWebPage reports whether a browser sent a request on behalf of a web page. Browsers do so to
// any address that they reach, loopback included, and name the origin of the page.
func isFromWebPage(ctx *fasthttp.RequestCtx) bool {
	return len(ctx.Request.Header.Peek("Origin")) > 0 ||
		string(ctx.Request.Header.Peek("Sec-Fetch-Site")) == "cross-site"
}

// siteOf returns the site of the web page that a request is for, "" if a program sent it.
func siteOf(ctx *fasthttp.RequestCtx) string {
	if origin := ctx.Request.Header.Peek("Origin"); len(origin) > 0 {
		return params.Clip(string(origin))
	}
	return params.Clip(string(ctx.Request.Header.Peek("Sec-Fetch-Site")))
}

func rejectWebPage(ctx *fasthttp.RequestCtx) {
	WriteError(ctx, &wire.Error{Kind: wire.KindForbidden, Message: "a web page sent this (header " +
		"Origin or Sec-Fetch-Site); changes are taken from programs only, without these headers"})
}
