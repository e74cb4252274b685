package httpapi

import (
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/strictjson"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// parseMOID reads the number of a quantity in a path.
func parseMOID(text string) (int32, error) {
	moid, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, params.Bad("moid", fmt.Errorf("%q is not the number of a quantity",
			params.Clip(text)))
	}
	return int32(moid), nil
}

func (s *Server) putQuantity(req *httpserver.Request) {
	moid, err := parseMOID(req.Name)
	var q plugin.Quantity
	if err == nil {
		if bad := strictjson.Unmarshal(req.PostBody(), &q); bad != nil {
			err = params.Bad("body", fmt.Errorf("not a quantity in JSON: %w", bad))
		}
	}
	if q.MOID = moid; err == nil {
		err = s.Plugins.SetQuantity(s.opt.Open, q)
	}
	reply(req, q, err)
}

func (s *Server) deleteQuantity(req *httpserver.Request) {
	moid, err := parseMOID(req.Name)
	if err == nil {
		err = s.Plugins.ForgetQuantity(s.opt.Open, moid)
	}
	reply(req, removedMOID{moid}, err)
}

func (s *Server) listQuantities(req *httpserver.Request) {
	if req.Options.Linearizable {
		rc, cancel := s.requestContext(req)
		err := s.Plugins.Refresh(rc)
		cancel()
		if err != nil {
			fail(req, err)
			return
		}
	}
	req.JSON(quantities{s.Plugins.Quantities()})
}
