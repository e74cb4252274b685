package httpapi

import (
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/sdk/wire"
)

func (s *Server) edgeStatus(req *httpserver.Request) {
	if s.Outbox == nil {
		req.Fail(&wire.Error{Kind: wire.KindNotFound,
			Message: "this node is not an edge " +
				"node; it is one when it is started with --role edge"})
		return
	}
	req.JSON(s.Outbox.Status())
}
