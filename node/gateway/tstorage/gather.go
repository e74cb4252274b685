package tstorage

import (
	"sync"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// handOverRows and handOverBytes are when whole batches are stored while others come in: more
	// than a native client's batch, as one sync serves them all.
	handOverRows  = 1 << 14
	handOverBytes = 4 << 20
	// rowBytes is what a record takes beside its payload.
	rowBytes = 32
	// firstRoom is what a request takes of the budget for its first records; it then takes as much
	// again each time, up to maxRoom.
	firstRoom = 16 << 10
	maxRoom   = 1 << 20
	// keepPiece is how many payload bytes a batch may have room for and still be kept for another.
	keepPiece = 2 * handOverBytes
)

var batches = sync.Pool{New: func() any { return new(record.Batch) }}

// gathered holds the batches of a request that are not stored yet: whole ones, and one that is
// coming in.
type gathered struct {
	server  *Server
	store   *committer
	stamped bool // records have acquisition times; all are gathered before any is stored

	// pieces are what is stored by one put each. A batch of a client lies in one of them unless
	// it is larger than a put.
	pieces []*record.Batch
	rows   int // of all pieces
	bytes  int // payloads of all pieces

	wholePieces, wholeRows int // pieces up to the end of the last whole batch, rows of its piece

	held, room int64 // what was taken of the budget, and how much of it is left
}

// begin prepares for a batch of a client with at most so many bytes, in which a record takes at
// least recordBytes.
func (g *gathered) begin(bytes, recordBytes int) {
	if g.rows > 0 && !g.stamped && (g.rows+bytes/recordBytes > record.MaxBatchRecords ||
		g.bytes+bytes > record.MaxBatchBytes) {
		g.handOverSome()
	}
}

// add adds a record to the batch that is coming in.
func (g *gathered) add(k record.Key, payload []byte) error {
	if err := g.account(rowBytes + int64(len(payload))); err != nil {
		return err
	}
	var b *record.Batch
	if n := len(g.pieces); n > 0 {
		b = g.pieces[n-1]
	}
	if b == nil || b.Len() == record.MaxBatchRecords ||
		len(b.Data)+len(payload) > record.MaxBatchBytes {
		b = batches.Get().(*record.Batch)
		g.pieces = append(g.pieces, b)
	}
	if g.stamped {
		b.AppendStamped(k, payload)
	} else {
		b.Append(k, payload)
	}
	g.rows++
	g.bytes += len(payload)
	return nil
}

// account takes n bytes of the budget, in steps.
func (g *gathered) account(n int64) error {
	if g.room >= n {
		g.room -= n
		return nil
	}
	step := max(n-g.room, min(max(g.held, firstRoom), maxRoom))
	if limit := int64(g.server.opt.BatchBytes); g.stamped && g.held+step > limit {
		return refuse(statusNoMemory, "a PUTA of more than %d bytes; send less at once", limit)
	}
	if err := g.store.share.Take(g.server.running, step, g.server.opt.Wait); err != nil {
		return err
	}
	g.held += step
	g.room += step - n
	return nil
}

// whole says that the batch that was coming in is whole.
func (g *gathered) whole() {
	g.wholePieces, g.wholeRows = len(g.pieces), 0
	if n := len(g.pieces); n > 0 {
		g.wholeRows = g.pieces[n-1].Len()
	}
	if g.stamped {
		return
	}
	g.store.share.Whole()
	if g.rows >= handOverRows || g.bytes >= handOverBytes {
		g.handOverSome()
	}
}

// takeBack forgets what has come of the last batch.
func (g *gathered) takeBack() {
	for _, b := range g.pieces[g.wholePieces:] {
		keep(b)
	}
	g.pieces = g.pieces[:g.wholePieces]
	if n := len(g.pieces); n > 0 {
		g.pieces[n-1].Truncate(g.wholeRows)
	}
	g.store.share.Whole()
}

// handOverSome stores what is whole, on another goroutine, while more comes in.
func (g *gathered) handOverSome() {
	g.store.add(g.unit())
}

// handOver stores the rest, which is whole.
func (g *gathered) handOver() {
	if g.held == 0 && len(g.pieces) == 0 {
		return
	}
	g.store.addLast(g.unit())
}

// drop forgets everything.
func (g *gathered) drop() {
	g.store.share.Whole()
	u := g.unit()
	u.drop(g.store.share)
}

func (g *gathered) unit() unit {
	u := unit{pieces: g.pieces, held: g.held}
	*g = gathered{server: g.server, store: g.store, stamped: g.stamped}
	return u
}

// unit is what is stored, in order, and then given back to the budget.
type unit struct {
	pieces []*record.Batch
	held   int64
}

func (u *unit) drop(s *budget.Share) {
	for _, b := range u.pieces {
		keep(b)
	}
	s.Give(u.held)
}

// keep keeps the memory of a batch for another.
func keep(b *record.Batch) {
	if cap(b.Data) <= keepPiece {
		b.Reset()
		batches.Put(b)
	}
}
