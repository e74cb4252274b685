package node

import (
	"math/rand/v2"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
)

// demand is how far a feed of a source must come for those who merge it with others: what other
// sources have said below that is held until then.
type demand struct {
	mu     sync.Mutex        // guards what follows
	acqNs  int64             // the greatest acq that it must pass; 0 for none
	hasten func(acqNs int64) // lets it pass an acq soon; nil before the feed begins
}

// pass says that others wait until the feed has passed an acq.
func (d *demand) pass(acqNs int64) {
	d.mu.Lock()
	d.acqNs = max(d.acqNs, acqNs)
	hasten := d.hasten
	d.mu.Unlock()
	if hasten != nil {
		hasten(acqNs)
	}
}

// begin sets what lets the feed pass an acq. Hasten must not block.
func (d *demand) begin(hasten func(acqNs int64)) {
	d.mu.Lock()
	d.hasten = hasten
	acq := d.acqNs
	d.mu.Unlock()
	if acq > 0 {
		hasten(acq)
	}
}

// wanted returns the greatest acq that the feed must pass; 0 for none.
func (d *demand) wanted() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.acqNs
}

// asks reports whether others wait to hear that the feed has come from one acq to another.
func (d *demand) asks(fromNs, toNs int64) bool {
	acq := d.wanted()
	return acq > 0 && acq >= fromNs && toNs > fromNs
}

// mergedFeeds are the feeds of this node that others merge with their own, by the numbers that
// those gave them. Its zero value is ready.
type mergedFeeds struct {
	mu    sync.Mutex
	feeds map[uint64]*demand // guarded by mu
}

// add makes a feed known until it is removed.
func (m *mergedFeeds) add(number uint64, d *demand) (remove func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.feeds == nil {
		m.feeds = map[uint64]*demand{}
	}
	m.feeds[number] = d
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.feeds[number] == d {
			delete(m.feeds, number)
		}
	}
}

// pass says that another node waits until a feed has passed an acq, if it is still there.
func (m *mergedFeeds) pass(number uint64, acqNs int64) {
	m.mu.Lock()
	d := m.feeds[number]
	m.mu.Unlock()
	if d != nil {
		d.pass(acqNs)
	}
}

// hastener tells another node of a feed of it that others wait for.
type hastener interface {
	PassFeed(node cluster.NodeID, feed uint64, acqNs int64)
}

// hastened draws the number of a feed of another node, and lets a demand hasten it.
func (r *remoteSource) hastened(d *demand) (number uint64) {
	if r.hastener == nil {
		return 0
	}
	number = 1 + rand.Uint64()>>1
	d.begin(func(acqNs int64) { r.hastener.PassFeed(r.peer.id, number, acqNs) })
	return number
}
