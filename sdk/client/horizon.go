package client

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// Horizon returns an acq below which nothing changes any more in a box, nil for everything: a
// reader that has the box up to there goes on from there. It follows the clock when nothing is
// written. Of a [Client.Linearizable] client it is above all that was acknowledged before.
func (c *Client) Horizon(ctx context.Context, box *record.Box) (int64, error) {
	path := "/v1/horizon"
	if box != nil {
		checked := *box
		if err := checked.Normalize(); err != nil {
			return 0, err
		}
		if v := selectors(&checked); len(v) > 0 {
			path += "?" + v.Encode()
		}
	}
	var out api.Horizon
	err := c.getJSON(ctx, path, &out)
	return out.HorizonNs, err
}

// selectors writes a box as the parameters of a URL.
func selectors(box *record.Box) url.Values {
	v := url.Values{}
	for d := range record.NumDims {
		dim := record.Dim(d)
		var parts []string
		for _, r := range box.Asked(dim) {
			from, to := "", ""
			if r.From > dim.Min() || r.To == dim.Max() {
				from = bound(dim, r.From)
			}
			if r.To != dim.Max() {
				to = bound(dim, r.To)
			}
			parts = append(parts, from+".."+to)
		}
		if len(parts) > 0 {
			v.Set(dim.String(), strings.Join(parts, ","))
		}
	}
	return v
}

func bound(d record.Dim, value int64) string {
	if d == record.Cap || d == record.Acq {
		return record.FormatNs(value)
	}
	return strconv.FormatInt(value, 10)
}
