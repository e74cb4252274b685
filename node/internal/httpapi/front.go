package httpapi

import (
	"strings"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/release"
)

// frontPage is what a person sees who opens the address of a node.
const frontPage = `pentad ` + release.Number + ` is a database for measurements.

This is the HTTP interface of a node.

Try
  GET /v1/records?cid=1&limit=10&type=f64   records of tenant 1, as JSON
  GET /v1/count                             number of records
  GET /v1/plugins                           plugins that aggregate and filter on the node

Watch
  GET /v1/health   problems of the node and what to do
  GET /readyz      200 if the node is ready
  GET /metrics     metrics for Prometheus
  GET /version     version of the node

From a shell
  pentad --help                    commands
  pentad get --cid 1 --type f64    the same as the first line

sdk/docs/clients.md of the source describes all routes.
`

// front answers / with text, whatever is accepted: a person reads it.
func (s *Server) front(req *httpserver.Request) {
	req.SetContentType("text/plain; charset=utf-8")
	req.SetBodyString(strings.TrimSpace(frontPage) + "\n")
}
