package node

import (
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/strictjson"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/valyala/fasthttp"
)

// parseMOID reads the number of a quantity in a path.
func parseMOID(text string) (int32, error) {
	moid, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, params.Bad("moid", fmt.Errorf("%q is not a number of a quantity",
			params.Clip(text)))
	}
	return int32(moid), nil
}

func (s *server) putQuantity(ctx *fasthttp.RequestCtx, text string) {
	moid, err := parseMOID(text)
	var q plugin.Quantity
	if err == nil {
		if bad := strictjson.Unmarshal(ctx.PostBody(), &q); bad != nil {
			err = params.Bad("body", fmt.Errorf("is no quantity in JSON: %w", bad))
		}
	}
	if q.MOID = moid; err == nil {
		err = s.node.SetQuantity(q)
	}
	reply(ctx, q, err)
}

func (s *server) deleteQuantity(ctx *fasthttp.RequestCtx, text string) {
	moid, err := parseMOID(text)
	if err == nil {
		err = s.node.ForgetQuantity(moid)
	}
	reply(ctx, map[string]int32{"removed": moid}, err)
}

func (s *server) listQuantities(ctx *fasthttp.RequestCtx) {
	httpserver.WriteJSON(ctx, map[string]any{"quantities": s.node.Quantities()})
}
