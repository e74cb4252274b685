package node

import (
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// plainPath undoes what may hide the parts of a path.
var plainPath = strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/",
	"%5c", "/", "%5C", "/", `\`, "/")

// hasDots reports whether a path, as it was sent, has a part . or .. .
func hasDots(path string) bool {
	if !strings.ContainsAny(path, ".%") {
		return false
	}
	for part := range strings.SplitSeq(plainPath.Replace(path), "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// refuseDots refuses paths with such parts. fasthttp follows them, also where they were escaped to
// be part of a name: to remove the cursor ../sync would be DELETE /v1/sync, which releases a copy.
func refuseDots(ctx *fasthttp.RequestCtx) bool {
	path := string(ctx.URI().PathOriginal())
	if !hasDots(path) {
		return false
	}
	writeError(ctx, &wire.Error{Kind: wire.KindNotFound, Message: fmt.Sprintf(
		"path %q has a part . or .., which no path and no name here has", clip(path))})
	return true
}
