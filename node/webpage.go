package node

import (
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

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
