package tstorage

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// committer stores the units of one request, in order: on the caller's goroutine if there is one
// alone, else on one of its own, so that the next unit comes in meanwhile.
type committer struct {
	server *Server
	share  *budget.Share
	peer   string // of a PUTA, which is told of
	// restored is what became of a PUTA; nil of a PUT.
	restored *restored
	sorter   *spill.Sorter // nil until a PUTA has units that are stored when all have come

	queue chan unit // nil until there is a second unit to wait for; holds one of a PUT
	wg    sync.WaitGroup
	fault atomic.Pointer[error] // the first error

	// Of the goroutine until finish.
	first, last int64 // least and greatest acq that were given, in the protocol's time
	stored      int64 // records
	met         bool  // there was a record
}

// failed returns the first error so far.
func (m *committer) failed() error {
	if err := m.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// add stores a unit behind those before. It waits while one more waits already, or of a PUTA while
// one is being stored.
func (m *committer) add(u unit) {
	if m.queue == nil {
		capacity := 1
		if m.restored != nil {
			capacity = 0 // units are large, and a client waits for the last ones
		}
		m.queue = make(chan unit, capacity)
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

// finish waits until all is stored, or has failed. keep says that the request is right, so that
// what waits for its end is stored, too.
func (m *committer) finish(keep bool) error {
	if m.queue != nil {
		close(m.queue)
		m.wg.Wait()
	}
	m.endSorted(keep)
	if !m.met {
		m.first, m.last = noAcq, noAcq
	}
	if m.restored != nil {
		m.stored = m.restored.stored
		m.restored.tell(m.server, m.peer)
	}
	return m.failed()
}

func (m *committer) store(u unit) {
	defer func() { u.drop(m.share) }()
	if m.failed() != nil {
		return
	}
	if m.restored != nil {
		m.restore(u)
		return
	}
	for _, b := range u.pieces {
		if b.Len() == 0 {
			continue // all of it was dropped
		}
		if err := m.put(b); err != nil {
			m.fault.Store(&err)
			return
		}
	}
}

// resumable is an error of a put of which some records may be stored: sent again under the same
// writer, each is stored once.
type resumable interface {
	error
	Writer() store.WriterSeq
}

// put stores one piece.
func (m *committer) put(b *record.Batch) error {
	s := m.server
	if err := s.take(s.puts); err != nil {
		return err
	}
	defer func() { <-s.puts }()
	var res store.PutResult
	var w store.WriterSeq
	err := s.patiently(func() (err error) {
		res, err = s.opt.Database.Put(s.running, b, w)
		var begun resumable
		if errors.As(err, &begun) {
			w = begun.Writer()
		}
		return err
	})
	if err != nil {
		return err
	}
	s.counters.recordsIn.Add(int64(b.Len()))
	raise(&s.stored, res.LastAcqNs)
	m.stored += int64(b.Len())
	m.meet(fromUnix(res.FirstAcqNs), fromUnix(res.LastAcqNs))
	return nil
}

// meet notes the least and the greatest acq of some records.
func (m *committer) meet(first, last int64) {
	if !m.met {
		m.first, m.last = first, last
	}
	m.first, m.last = min(m.first, first), max(m.last, last)
	m.met = true
}

// raise makes a number at least so large.
func raise(to *atomic.Int64, least int64) {
	for was := to.Load(); was < least && !to.CompareAndSwap(was, least); was = to.Load() {
	}
}
