// Package request has the options of a request besides its query: which groups it reads, how fresh
// their data must be, and how it may end. They are a value that is handed on from the entry of a
// request to what reads.
//
// It has their names as parameters, and does not know how they are parsed or obeyed. Its main type
// is [Options]; it starts no goroutines.
package request

import (
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/slots"
)

// Names of the options as parameters, which errors name, too.
const (
	ParamPartial = "partial"
	ParamFresh   = "fresh"
	ParamGroups  = "groups"
	ParamOfGroup = "of_group"
	ParamWithin  = "within_ms"
	ParamAfter   = "after"
	ParamRead    = "read"
)

// Options of a request. The zero value reads all groups as the nearest replicas have them, and
// wants a complete answer. A copy shares the slices, which nothing changes.
type Options struct {
	Groups         []cluster.GroupID // by other nodes: groups of this node; nil: all of the cluster
	RequiredRanges []slots.Range     // that each store must hold; zero for groups never split
	OnlyGroup      cluster.GroupID   // the only group that is read; 0: all
	AllowPartial   bool              // unavailable sources may be omitted
	Linearizable   bool              // linearizable: reads see all that was acknowledged before
	FeedID         uint64            // of a feed that another node merges; 0: none
	NoCache        bool              // the partial-aggregate cache is not used
	Timeout        time.Duration     // deadline of the request; 0: that of the node
	// After are acqs that the horizon must pass before a read: one for all, or one for each of
	// Groups.
	After []int64
}

// RequiredSlots returns the slots that the store of a group must hold.
func (o *Options) RequiredSlots(group cluster.GroupID) slots.Range {
	if i := slices.Index(o.Groups, group); i >= 0 && i < len(o.RequiredRanges) {
		return o.RequiredRanges[i]
	}
	return slots.Range{}
}

// AfterOf returns the acq that the horizon of a group must pass.
func (o *Options) AfterOf(group cluster.GroupID) int64 {
	switch i := slices.Index(o.Groups, group); {
	case len(o.After) == 1:
		return o.After[0]
	case i >= 0 && i < len(o.After):
		return o.After[i]
	}
	return 0
}

// CompleteOnly returns the options with which an answer that lacks a source is an error.
func (o Options) CompleteOnly() Options {
	o.AllowPartial = false
	return o
}

// AllPassing is Passing also for the groups that another node asks for.
func (o Options) AllPassing(acqNs int64) Options {
	after := make([]int64, max(1, len(o.Groups)))
	for i := range after {
		var group cluster.GroupID
		if i < len(o.Groups) {
			group = o.Groups[i]
		}
		after[i] = max(o.AfterOf(group), acqNs)
	}
	o.After = after
	return o
}

// Passing returns the options of a read whose sources wait until their horizons have passed an acq.
// Those of another node stay as they are, because it has set its own.
func (o Options) Passing(acqNs int64) Options {
	if o.Groups == nil && acqNs > 0 {
		o.After = []int64{max(o.AfterOf(0), acqNs)}
	}
	return o
}
