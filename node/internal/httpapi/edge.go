package httpapi

import (
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/sdk/wire"
)

func (s *Server) edgeStatus(req *httpserver.Request) {
	if s.Shipper == nil {
		req.Fail(&wire.Error{Kind: wire.KindNotFound,
			Message: "this node is not an edge " +
				"node; start it with --role edge to make it one"})
		return
	}
	req.JSON(s.Shipper.Status())
}
