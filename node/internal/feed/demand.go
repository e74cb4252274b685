package feed

import "sync"

// Demand is how a merged feed hurries one of its sources: it holds the greatest acq that the source
// must pass, as rows of other sources are buffered until then.
type Demand struct {
	mu    sync.Mutex        // guards what follows
	acqNs int64             // greatest acq that it must pass; 0 for none
	wake  func(acqNs int64) // makes it pass an acq soon; nil before the feed begins
}

// Pass is called when others wait until the feed has passed an acq.
func (d *Demand) Pass(acqNs int64) {
	d.mu.Lock()
	d.acqNs = max(d.acqNs, acqNs)
	wake := d.wake
	d.mu.Unlock()
	if wake != nil {
		wake(acqNs)
	}
}

// Begin sets wake, which must not block.
func (d *Demand) Begin(wake func(acqNs int64)) {
	d.mu.Lock()
	d.wake = wake
	acq := d.acqNs
	d.mu.Unlock()
	if acq > 0 {
		wake(acq)
	}
}

// Wanted returns the greatest acq that the feed must pass; 0 for none.
func (d *Demand) Wanted() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.acqNs
}

// Asks reports whether others wait for the feed to report that it has moved from one acq to
// another.
func (d *Demand) Asks(fromNs, toNs int64) bool {
	acq := d.Wanted()
	return acq > 0 && acq >= fromNs && toNs > fromNs
}

// Demands are the feeds of this node that other nodes merge, by the numbers that those
// assigned. The zero value is ready.
type Demands struct {
	mu    sync.Mutex
	feeds map[uint64]*Demand // guarded by mu
}

// Add registers a feed until remove is called.
func (m *Demands) Add(number uint64, d *Demand) (remove func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.feeds == nil {
		m.feeds = map[uint64]*Demand{}
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

// Pass is called when another node waits until a feed has passed an acq; the feed may have ended.
func (m *Demands) Pass(number uint64, acqNs int64) {
	if d := m.Of(number); d != nil {
		d.Pass(acqNs)
	}
}

// Of returns the demand of a feed, nil of one that has ended.
func (m *Demands) Of(number uint64) *Demand {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.feeds[number]
}
