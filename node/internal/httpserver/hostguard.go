package httpserver

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// Hosts are the host names, in lower case, that requests may have besides IP addresses and
// localhost.
//
// It guards against DNS rebinding: a web page can make the name of its own server resolve to this
// machine after it was loaded, and then has the same origin as the node: the browser sends no
// Origin and shows the page the answers. The Host header still has the page's name.
type Hosts map[string]bool

// NewHosts returns names, without scheme and port, and that of the address to listen on.
func NewHosts(hosts []string, listen string) (Hosts, error) {
	names := Hosts{}
	for _, name := range hosts {
		if bare, ok := bareHost(name); !ok || bare == "" || bare != plainHost(name) {
			return nil, fmt.Errorf("host %q is not a host name; omit scheme and port, "+
				"e.g. pentad.example.org", name)
		}
		names[plainHost(name)] = true
	}
	if bare, ok := bareHost(listen); ok {
		names[bare] = true
	}
	return names, nil
}

// plainHost normalizes a name: names have no case, and may end with a dot.
func plainHost(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// bareHost returns a host without its port.
func bareHost(host string) (bare string, ok bool) {
	if name, port, err := net.SplitHostPort(host); err == nil {
		return plainHost(name), strings.Trim(port, "0123456789") == ""
	}
	if inside, ok := strings.CutPrefix(host, "["); ok {
		return strings.CutSuffix(inside, "]")
	}
	return plainHost(host), !strings.ContainsAny(host, ":/ ")
}

// allow reports whether a request may have this host. It is empty with HTTP/1.0, which no browser
// uses.
func (n Hosts) allow(host string) bool {
	if host == "" {
		return true
	}
	bare, ok := bareHost(host)
	if !ok {
		return false
	}
	if _, err := netip.ParseAddr(bare); err == nil {
		return true
	}
	return bare == "localhost" || n[bare]
}

// rejectHost rejects requests for a host name that is not on the list.
func (s *Server) rejectHost(ctx *fasthttp.RequestCtx) bool {
	host := string(ctx.Request.Header.Host())
	if s.opt.Hosts.allow(host) {
		return false
	}
	bare, _ := bareHost(host)
	writeProblem(ctx, http.StatusMisdirectedRequest, &wire.Error{Kind: wire.KindForbidden,
		Message: fmt.Sprintf("this node is not known as %q, which a web page may have made lead "+
			"here; address it by IP or as localhost, or start it with --host %s", params.Clip(host),
			params.Clip(bare))})
	return true
}
