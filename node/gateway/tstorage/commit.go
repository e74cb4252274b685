package tstorage

import (
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// committer stores the units of one request, in order: on the caller's goroutine if there is one
// alone, else on one of its own, so that the next unit comes in meanwhile.
type committer struct {
	server *Server
	share  *budget.Share

	queue chan unit // nil until there is a second unit to wait for; holds one
	wg    sync.WaitGroup
	fault atomic.Pointer[error] // the first error

	// Of the goroutine until finish.
	first, last int64 // least and greatest acq that were given, in the protocol's time
	stored      bool
}

// failed returns the first error so far.
func (m *committer) failed() error {
	if err := m.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// add stores a unit behind those before, and waits only while one more waits already.
func (m *committer) add(u unit) {
	if m.queue == nil {
		m.queue = make(chan unit, 1)
		m.wg.Go(func() {
			for u := range m.queue {
				m.store(u)
			}
		})
	}
	m.queue <- u
}

// addLast stores the last unit.
func (m *committer) addLast(u unit) {
	if m.queue != nil {
		m.queue <- u
		return
	}
	m.store(u)
}

// finish waits until all is stored, or has failed.
func (m *committer) finish() error {
	if m.queue != nil {
		close(m.queue)
		m.wg.Wait()
	}
	if !m.stored {
		m.first, m.last = noAcq, noAcq
	}
	return m.failed()
}

func (m *committer) store(u unit) {
	defer func() { u.drop(m.share) }()
	for _, b := range u.pieces {
		if m.failed() != nil {
			return
		}
		if b.Len() == 0 {
			continue // all of it was dropped
		}
		if err := m.put(b); err != nil {
			m.fault.Store(&err)
		}
	}
}

// put stores one piece.
func (m *committer) put(b *record.Batch) error {
	s := m.server
	if err := s.take(s.puts); err != nil {
		return err
	}
	defer func() { <-s.puts }()
	var res store.PutResult
	err := s.patiently(func() (err error) {
		res, err = s.opt.Database.Put(s.running, b, store.WriterSeq{})
		return err
	})
	if err != nil {
		return err
	}
	s.counters.recordsIn.Add(int64(b.Len()))
	raise(&s.stored, res.LastAcqNs)
	first, last := fromUnix(res.FirstAcqNs), fromUnix(res.LastAcqNs)
	if !m.stored {
		m.first, m.last = first, last
	}
	m.first, m.last = min(m.first, first), max(m.last, last)
	m.stored = true
	return nil
}

// raise makes a number at least so large.
func raise(to *atomic.Int64, least int64) {
	for was := to.Load(); was < least && !to.CompareAndSwap(was, least); was = to.Load() {
	}
}
