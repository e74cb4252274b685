package client

import (
	"context"
	"net/http"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Explanation says how a query was planned and what it then cost. Of the blocks of all segments,
// each is dropped once, by bounds, lists or zones, or it is a candidate.
type Explanation struct {
	Ignored     []string      `json:"ignored"`    // parts of the query that were left aside
	HorizonNs   int64         `json:"horizon_ns"` // rows with acq below this were seen
	Shards      int           `json:"shards"`
	ShardsAsked int           `json:"shards_asked"`
	Heads       int           `json:"heads"`           // of the shards asked, those that hold rows
	HeadRows    int64         `json:"head_rows"`       // in them
	HeadFound   uint64        `json:"head_rows_found"` // of the rows found
	Segments    []SegmentPlan `json:"segments"`        // by shard, the newest first

	Blocks      int       `json:"blocks"` // of all these segments
	ByBounds    int       `json:"blocks_dropped_by_bounds"`
	ByLists     int       `json:"blocks_dropped_by_lists"`
	ByZones     DimCounts `json:"blocks_dropped_by_zones"`
	Candidates  int       `json:"candidates"`
	Inside      int       `json:"candidates_inside"`
	Opened      uint64    `json:"blocks_opened"` // more than once where versions are looked for
	OpenedBytes uint64    `json:"bytes_opened"`
	Examined    uint64    `json:"rows_examined"` // rows of the opened blocks
	Found       uint64    `json:"rows_found"`

	// Parts are what the aggregate takes of blocks by themselves, and of these those whose state
	// the node has kept: where the aggregate runs, their blocks are not opened.
	Parts      uint64 `json:"parts,omitempty"`
	PartsKnown uint64 `json:"parts_known,omitempty"`
	// Hidden are the versions that were met and left out for a newer one. With last n most are
	// not met.
	Hidden  uint64 `json:"versions_hidden"`
	Workers int    `json:"workers"`
	// PlanNs is a part of TookNs. With last n, segments are planned as they are read, and that
	// time is not in it.
	PlanNs int64 `json:"plan_ns"`
	TookNs int64 `json:"took_ns"` // on the node

	// Sources are the parts of a cluster that were asked, if there are several: the numbers above
	// are those of all of them, and the segments stand here.
	Sources []SourceExplanation `json:"sources,omitempty"`
}

// SourceExplanation is what one part of a cluster says of a query.
type SourceExplanation struct {
	Source string `json:"source"`
	Explanation
}

// SegmentPlan is what a plan made of one sealed segment. With last n the candidates are those of
// the box; few of them are opened.
type SegmentPlan struct {
	Shard uint32 `json:"shard"`
	ID    uint64 `json:"segment"`
	Rows  int    `json:"rows"`
	// Blocks are dropped all together if SkippedBy names a dimension; what follows is 0 then.
	Blocks     int       `json:"blocks"`
	Bytes      int64     `json:"bytes"` // of the file
	SkippedBy  string    `json:"skipped_by,omitempty"`
	Lists      int       `json:"lists"` // posting lists, and unions of them, that were looked at
	Listed     int       `json:"blocks_left_by_lists"`
	ByZones    DimCounts `json:"blocks_dropped_by_zones"`
	Candidates int       `json:"candidates"`
	Inside     int       `json:"candidates_inside"` // of these, blocks wholly inside the box
}

// DimCounts is a count for each dimension.
type DimCounts struct {
	CID  int `json:"cid"`
	MID  int `json:"mid"`
	MOID int `json:"moid"`
	Cap  int `json:"cap"`
	Acq  int `json:"acq"`
}

// Explain makes the node run a query without its plugins, order and limit, and say how the rows
// were found and what that cost; of an aggregate also, which states of parts of blocks are kept. No
// record travels.
func (c *Client) Explain(ctx context.Context, q *record.Query) (Explanation, error) {
	var x Explanation
	checked := *q
	if err := checked.Normalize(); err != nil {
		return x, err
	}
	err := c.doJSON(ctx, http.MethodPost, "/v1/explain", wire.ContentType,
		wire.AppendQuery(nil, &checked), &x)
	return x, err
}
