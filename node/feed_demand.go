package node

import (
	"math/rand/v2"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
)

// demand is the acq that a source of a feed must pass because rows of other sources are buffered
// until then.
type demand struct {
	mu     sync.Mutex        // guards what follows
	acqNs  int64             // greatest acq that it must pass; 0 for none
	hasten func(acqNs int64) // makes it pass an acq soon; nil before the feed begins
}

// pass is called when others wait until the feed has passed an acq.
func (d *demand) pass(acqNs int64) {
	d.mu.Lock()
	d.acqNs = max(d.acqNs, acqNs)
	hasten := d.hasten
	d.mu.Unlock()
	if hasten != nil {
		hasten(acqNs)
	}
}

// begin sets hasten, which must not block.
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

// asks reports whether others wait for the feed to report that it has moved from one acq to
// another.
func (d *demand) asks(fromNs, toNs int64) bool {
	acq := d.wanted()
	return acq > 0 && acq >= fromNs && toNs > fromNs
}

// mergedFeeds are the feeds of this node that other nodes merge, by the numbers that those
// assigned. The zero value is ready.
type mergedFeeds struct {
	mu    sync.Mutex
	feeds map[uint64]*demand // guarded by mu
}

// add registers a feed until remove is called.
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

// pass is called when another node waits until a feed has passed an acq; the feed may have ended.
func (m *mergedFeeds) pass(number uint64, acqNs int64) {
	m.mu.Lock()
	d := m.feeds[number]
	m.mu.Unlock()
	if d != nil {
		d.pass(acqNs)
	}
}

// hastener tells another node that one of its feeds is waited for.
type hastener interface {
	PassFeed(node cluster.NodeID, feed uint64, acqNs int64)
}

// hastened assigns a random number to a feed of another node, and lets a demand hasten it.
func (r *remoteSource) hastened(d *demand) (number uint64) {
	if r.hastener == nil {
		return 0
	}
	number = 1 + rand.Uint64()>>1
	d.begin(func(acqNs int64) { r.hastener.PassFeed(r.peer.id, number, acqNs) })
	return number
}
