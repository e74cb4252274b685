package api

// Explanation is how a query was planned and what it then cost. Each block of all segments is
// either dropped, by bounds, lists or zones, or a candidate.
type Explanation struct {
	// Ignored are the parts of the query that did not run; nil in a SourceExplanation.
	Ignored []string `json:"ignored,omitzero"`
	// Notes are doubts about the selector: keys that are nearly others, and attributes that no
	// device of the tenant has.
	Notes []string `json:"notes,omitempty"`

	HorizonNs   int64         `json:"horizon_ns"` // rows with an acq below were seen
	Shards      int           `json:"shards"`
	ShardsAsked int           `json:"shards_asked"`
	Heads       int           `json:"heads"`           // that have rows, of the shards asked
	HeadRows    int64         `json:"head_rows"`       // in these heads
	HeadFound   uint64        `json:"head_rows_found"` // of the rows found
	Segments    []SegmentPlan `json:"segments"`        // by shard, newest first

	Blocks          int       `json:"blocks"` // of all these segments
	DroppedByBounds int       `json:"blocks_dropped_by_bounds"`
	DroppedByLists  int       `json:"blocks_dropped_by_lists"`
	DroppedByZones  DimCounts `json:"blocks_dropped_by_zones"`
	Candidates      int       `json:"candidates"`
	Inside          int       `json:"candidates_inside"`
	Opened          uint64    `json:"blocks_opened"` // more than once where versions are looked up
	OpenedBytes     uint64    `json:"bytes_opened"`
	Examined        uint64    `json:"rows_examined"` // rows of the opened blocks
	Found           uint64    `json:"rows_found"`
	// SkippedByWhere are those of the opened blocks of which it is known that no payload meets the
	// condition: none of their rows is looked at.
	SkippedByWhere uint64 `json:"blocks_skipped_by_where,omitempty"`

	// Partials are the block partials that the aggregate uses, and PartialsKnown those of them in
	// the partial cache: an aggregate does not open their blocks.
	Partials      uint64 `json:"partials,omitempty"`
	PartialsKnown uint64 `json:"partials_known,omitempty"`
	// Hidden are the versions that were read and dropped because of a newer one. With last n most
	// are not read.
	Hidden uint64 `json:"versions_hidden"`
	// Devices are those that the selector of the query chose, in SelectNs, a part of TookNs.
	Devices  int   `json:"devices,omitzero"`
	SelectNs int64 `json:"select_ns,omitzero"`
	// Located are the locations that were read in that time to find where devices that move were,
	// of LocatedBlocks blocks that were opened. Of LocatedSkipped of these it is known that no
	// location is where the selector is met: none is looked at.
	Located        uint64 `json:"locations_read,omitzero"`
	LocatedBlocks  uint64 `json:"location_blocks_opened,omitzero"`
	LocatedSkipped uint64 `json:"location_blocks_skipped,omitzero"`

	Workers int `json:"workers"`
	// PlanNs is a part of TookNs. With last n, segments are planned as they are read, and PlanNs
	// does not include that.
	PlanNs int64 `json:"plan_ns"`
	TookNs int64 `json:"took_ns"` // on the node
	// Sources are the sources of a cluster, if there are several. The numbers above are their sums,
	// and the segments are listed here.
	Sources []SourceExplanation `json:"sources,omitempty"`
}

// SourceExplanation is the explanation of one source.
type SourceExplanation struct {
	Source string `json:"source"`
	Explanation
}

// SegmentPlan is the plan of one segment. With last n the candidates are those of the box; few of
// them are opened.
type SegmentPlan struct {
	Shard     uint32 `json:"shard"`
	ID        uint64 `json:"segment"`
	Rows      int    `json:"rows"`
	Backdated bool   `json:"backdated,omitempty"` // its rows were put below the horizon
	// All blocks are dropped if SkippedBy names a dimension; the fields below Bytes are 0 then.
	Blocks         int       `json:"blocks"`
	Bytes          int64     `json:"bytes"` // of the file
	SkippedBy      string    `json:"skipped_by,omitempty"`
	Lists          int       `json:"lists"` // posting lists, and unions of them, that were read
	Listed         int       `json:"blocks_left_by_lists"`
	DroppedByZones DimCounts `json:"blocks_dropped_by_zones"`
	Candidates     int       `json:"candidates"`
	Inside         int       `json:"candidates_inside"` // candidates wholly inside the box
}

// DimCounts is a count for each dimension.
type DimCounts struct {
	CID  int `json:"cid"`
	MID  int `json:"mid"`
	MOID int `json:"moid"`
	Cap  int `json:"cap"`
	Acq  int `json:"acq"`
}

// Add adds other counts.
func (c *DimCounts) Add(o DimCounts) {
	c.CID += o.CID
	c.MID += o.MID
	c.MOID += o.MOID
	c.Cap += o.Cap
	c.Acq += o.Acq
}

// What is explained, beside the records that a query finds.
const (
	ExplainVersions = "versions" // every version of the readings in a box
	ExplainDiff     = "diff"     // what became of them from one acq to another
	ExplainChanges  = "changes"  // the next part of a change feed from an acq on
)

// ExplainOf says what is explained of the box and the devices of a query.
type ExplainOf struct {
	Of string // ExplainVersions, ExplainDiff or ExplainChanges; empty: the query itself
	// FromNs is where a diff or the changes begin, ToNs where a diff ends; the greatest acq is now.
	FromNs, ToNs int64
}
