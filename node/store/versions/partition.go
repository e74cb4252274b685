package versions

import (
	"math"
	"sync"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/record"
)

// Partition is a part of the scan's box on one shard. A scan that resolves versions divides its box
// into partitions whose versions fit its memory, and scans as many of them in a pass as fit
// together. All versions of a reading are in one partition, since a box is divided by what they
// share.
type Partition struct {
	State               *shards.State
	Box                 record.Box
	Planned             bool // its segments are listed
	Segments            []*blocks.PlannedSegment
	someFlagged         bool      // in the box; else each row is the only version of its reading
	newestFlaggedNs     int64     // no flagged row in the box has a greater acq
	Flagged             int       // rows in the box that may supersede others, at most
	flaggedInHeads      int       // of these, rows in heads, most of which supersede none
	Newest              *Table    // with views that resolve versions
	headsKnowSuperseded bool      // of their own rows; Newest decides about sealed ones only
	newestFromNs        int64     // sealed versions with smaller acqs are not in it
	knownBelowNs        int64     // what blocks keep of superseded rows is of versions below it
	backdated           []Reading // those with backdated rows
}

var partitions = sync.Pool{New: func() any { return new(Partition) }}

// NewPartition returns a partition of a read state, of no box yet.
func NewPartition(state *shards.State) *Partition {
	p := partitions.Get().(*Partition)
	p.State, p.newestFromNs, p.knownBelowNs = state, math.MinInt64, math.MinInt64
	return p
}

// GiveBack returns the partition to a pool.
func (p *Partition) GiveBack() {
	for _, seg := range p.Segments {
		seg.Free()
	}
	if p.Newest != nil {
		newestTables.Put(p.Newest)
	}
	*p = Partition{Segments: p.Segments[:0], backdated: p.backdated[:0]}
	partitions.Put(p)
}

// EachHead calls visit with the head shards of the heads, newest first.
func (p *Partition) EachHead(visit func(*index.Head)) {
	p.State.EachHead(visit)
}

// findFlagged notes whether a head or a candidate has flagged rows, and how new they may be.
func (p *Partition) findFlagged() {
	p.someFlagged, p.newestFlaggedNs = p.State.Backdated != nil, math.MinInt64
	p.EachHead(func(h *index.Head) { p.someFlagged = p.someFlagged || h.Flagged() > 0 })
	if p.someFlagged {
		p.newestFlaggedNs = math.MaxInt64
	}
	for _, seg := range p.Segments {
		if seg.Index.Flagged() == 0 {
			continue
		}
		p.newestFlaggedNs = max(p.newestFlaggedNs, seg.Index.Bounds()[record.Acq].Max)
		for i := 0; i < len(seg.Plan.Candidates) && !p.someFlagged; i++ {
			p.someFlagged = seg.Index.Block(seg.Plan.Candidates[i].Block).Flagged > 0
		}
	}
}

func (p *Partition) eachHeadZone(visit func(index.FlaggedZone)) {
	p.EachHead(func(h *index.Head) {
		if h.Flagged() > 0 {
			h.FlaggedZones(&p.Box, visit)
		}
	})
}

// eachOwnHead calls visit with the heads of the shard itself, without those of its backdated shard,
// newest first.
func (p *Partition) eachOwnHead(visit func(*index.Head)) {
	p.State.WithoutBackdated().EachHead(visit)
}
