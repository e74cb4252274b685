package httpserver

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// unescapedPath undoes escapes that may hide segments of a path.
var unescapedPath = strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/",
	"%5c", "/", "%5C", "/", `\`, "/")

// hasDotSegments reports whether a path, as it was sent, has a segment . or .. .
func hasDotSegments(path string) bool {
	if !strings.ContainsAny(path, ".%") {
		return false
	}
	for part := range strings.SplitSeq(unescapedPath.Replace(path), "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// pathAsSent returns the path with its escapes undone, and nothing else: fasthttp makes one slash
// of two, and the device a//b is another one than a/b. A path with a broken escape stays as it is.
func pathAsSent(ctx *fasthttp.RequestCtx) string {
	sent := string(ctx.URI().PathOriginal())
	path, err := url.PathUnescape(sent)
	if err != nil {
		return sent
	}
	return path
}

// rejectDotSegments rejects paths with such segments. fasthttp resolves them, even if escaped as
// part of a name: to remove the cursor ../sync would be DELETE /v1/sync, which promotes a mirror.
func rejectDotSegments(ctx *fasthttp.RequestCtx) bool {
	path := string(ctx.URI().PathOriginal())
	if !hasDotSegments(path) {
		return false
	}
	WriteError(ctx, &wire.Error{Kind: wire.KindNotFound, Message: fmt.Sprintf(
		"path %q has a part . or .., which no path and no name here has", params.Clip(path))})
	return true
}
