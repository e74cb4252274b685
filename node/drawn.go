package node

import (
	"crypto/rand"
	"sync"

	"github.com/pentad-db/pentad/node/store"
)

// drawn are the writers under which this node brings puts to groups whose clients name none, so
// that a part whose leader was lost under way can be sent again. Each has one put under way, and
// that which was used last is used first: a group keeps an entry of some hundred bytes for as many
// as there were puts at the same time, until they were silent for seven days.
type drawn struct {
	mu   sync.Mutex
	idle []store.WriterSeq // guarded by mu: with the sequences of their last puts
}

// take returns a writer with a sequence that it has not used.
func (d *drawn) take() (w store.WriterSeq) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := len(d.idle) - 1; last >= 0 {
		w, d.idle = d.idle[last], d.idle[:last]
	} else {
		_, _ = rand.Read(w.ID[:]) // which never fails
	}
	w.Seq++
	return w
}

// give takes a writer back, whatever became of its put.
func (d *drawn) give(w store.WriterSeq) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = append(d.idle, w)
}
