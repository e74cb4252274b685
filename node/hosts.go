package node

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// hostNames are the names, in lower case, by which a node may be asked besides addresses and
// localhost.
//
// A web page may have the name of its own server lead to this machine after it was loaded, and is
// then of the same origin as a node on it: its browser sends no Origin and shows it the answers.
// The name in Host is still its own.
type hostNames map[string]bool

// newHostNames reads the names of [Options.Hosts] and of the address to listen on.
func newHostNames(hosts []string, listen string) (hostNames, error) {
	names := hostNames{}
	for _, name := range hosts {
		if bare, ok := bareHost(name); !ok || bare == "" || bare != plainHost(name) {
			return nil, fmt.Errorf("host %q is no name of a machine; write it without scheme and "+
				"port, as pentad.example.org", name)
		}
		names[plainHost(name)] = true
	}
	if bare, ok := bareHost(listen); ok {
		names[bare] = true
	}
	return names, nil
}

// plainHost is a name as it is compared: names have no case, and a dot may end them.
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

// allow reports whether a request may name this host. HTTP/1.0 names none, and no browser speaks
// that.
func (n hostNames) allow(host string) bool {
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

// refuseHost refuses requests that were sent to another name than this node has.
func (s *server) refuseHost(ctx *fasthttp.RequestCtx) bool {
	host := string(ctx.Request.Header.Host())
	if s.hosts.allow(host) {
		return false
	}
	bare, _ := bareHost(host)
	writeProblem(ctx, http.StatusMisdirectedRequest, &wire.Error{Kind: wire.KindForbidden,
		Message: fmt.Sprintf("this node is not known as %q, which a web page may have made lead "+
			"here; address it by IP or as localhost, or start it with --host %s", clip(host),
			clip(bare))})
	return true
}
