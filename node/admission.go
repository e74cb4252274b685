package node

import (
	"time"

	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/memory"
)

const (
	// waitersPerPermit is how many queries wait for each that runs, at most: the clients of more
	// would give up before an answer.
	waitersPerPermit = 16
	// queueTime is how long a query waits for a permit, at most.
	queueTime = 5 * time.Second
)

// newAdmission returns permits for queries. Queries of other nodes have permits of their own:
// otherwise two nodes that query each other could wait for each other.
func (o *Options) newAdmission() *admission.Controller {
	return admission.New(admission.Options{Permits: o.MaxQueries, MaxQueue: max(0, o.MaxWaiting),
		MaxWait: queueTime})
}

const (
	// maxGroupsInMemory is how many groups a worker has in memory at most: keys and their table
	// take some 64 bytes each.
	maxGroupsInMemory = 1 << 20
	memoryGroupShare  = 1 << 13 // of the memory of the node, in bytes
)

func memoryGroups(opt *Options) int {
	held := memory.Total(opt.MemoryBytes).Part(memoryGroupShare, maxGroupsInMemory)
	return min(opt.MaxGroups, int(held))
}

const (
	// Slices of feeds whose readers are slow have a feedPart-th of the memory of the node.
	feedPart      = 16
	mostFeedBytes = 1 << 30
)

func feedBytes(opt *Options) int64 {
	return memory.Total(opt.MemoryBytes).Part(feedPart, mostFeedBytes)
}
