package puts

import (
	"crypto/rand"
	"sync"

	"github.com/pentad-db/pentad/node/store"
)

// WriterPool is a pool of writer IDs for puts whose clients name none: with one, a command that was
// lost with a group's leader can be sent again and is stored once. A writer has one put at a time,
// and the last one used is used first: a group stores some hundred bytes for each concurrent put,
// until its writer has been silent for seven days. The zero value is ready.
type WriterPool struct {
	mu   sync.Mutex
	idle []store.WriterSeq // guarded by mu; Seq is that of the last put
}

// Take returns a writer with a sequence that was not used before.
func (d *WriterPool) Take() (w store.WriterSeq) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := len(d.idle) - 1; last >= 0 {
		w, d.idle = d.idle[last], d.idle[:last]
	} else {
		_, _ = rand.Read(w.ID[:]) // never fails
	}
	w.Seq++
	return w
}

// Give returns a writer to the pool. That of a put that failed may be kept back, so that the put
// can be repeated under it.
func (d *WriterPool) Give(w store.WriterSeq) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = append(d.idle, w)
}
