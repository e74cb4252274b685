package tstorage

import (
	"sync"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// pieceRows and pieceBytes are how much of a PUT is stored at once while more comes in: more
	// than a native client's batch, as one sync serves them all.
	pieceRows  = 1 << 14
	pieceBytes = 4 << 20
	// stampedBytes is the same of a PUTA, up to record.MaxBatchRecords: rows below the horizon are
	// sorted into those of the newest puts, up to 64 MiB of them, so few large pieces cost less.
	stampedBytes = 16 << 20
	// rowBytes is what a record takes in addition to its payload, with the space that columns grow
	// by, and stampedRowBytes what one of a PUTA does: it is sorted.
	rowBytes        = 44
	stampedRowBytes = 88
	// firstShare is what a request takes of the budget for its first records; it then takes as much
	// again each time, up to maxShare.
	firstShare = 16 << 10
	maxShare   = 1 << 20
	// keepPiece is how many payload bytes a batch may have space for and still be kept for another.
	keepPiece = stampedBytes + stampedBytes/2
)

var batches = sync.Pool{New: func() any { return new(record.Batch) }}

// gathered holds the batches of a request that are not stored yet: whole ones, and one that is
// coming in. A batch that is streamed is stored in pieces as it comes.
type gathered struct {
	server  *Server
	store   *committer
	stamped bool // a PUTA: all is gathered before any is stored, unless it is streamed

	streamed bool // the batch that is coming in; of a PUTA, all of it, once it is too large

	// pieces are what is stored by one put each. A batch of a client lies in one of them unless
	// it is larger than a put.
	pieces []*record.Batch
	rows   int // of all pieces
	bytes  int // payloads of all pieces

	wholePieces, wholeRows int // pieces up to the end of the last whole batch, rows of its piece

	held, left int64 // what was taken of the budget, and how much of it is left
}

// begin prepares for a batch of a client with at most this many bytes, in which a record takes at
// least recordBytes. The number is the client's word, which decides only if the batch is streamed.
func (g *gathered) begin(bytes, recordBytes int) {
	if g.stamped {
		return
	}
	g.streamed = bytes > g.server.opt.WholeBytes
	if g.rows > 0 && (g.streamed || g.rows+bytes/recordBytes > record.MaxBatchRecords ||
		g.bytes+bytes > record.MaxBatchBytes) {
		g.handOverSome()
	}
}

// add adds a record to the batch that is coming in, and has what a streamed one has brought so far
// stored when it is enough.
func (g *gathered) add(k record.Key, payload []byte) error {
	size := int64(rowBytes + len(payload))
	if g.stamped {
		size += stampedRowBytes - rowBytes
	}
	if err := g.account(size); err != nil {
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
	if g.streamed && g.isPiece() {
		g.handOverSome()
		return g.store.failed()
	}
	return nil
}

// isPiece reports whether what is gathered is worth a put of its own.
func (g *gathered) isPiece() bool {
	rows, bytes := pieceRows, pieceBytes
	if g.stamped {
		rows, bytes = record.MaxBatchRecords, stampedBytes
	}
	return g.rows >= rows || g.bytes >= bytes || g.held >= int64(g.server.opt.WholeBytes)
}

// account takes n bytes of the budget, in steps.
func (g *gathered) account(n int64) error {
	if g.left >= n {
		g.left -= n
		return nil
	}
	step := max(n-g.left, min(max(g.held, firstShare), maxShare))
	if g.stamped && g.held+step > int64(g.server.opt.WholeBytes) {
		g.streamed = true
	}
	if err := g.store.share.Take(g.server.running, step, g.server.opt.Wait); err != nil {
		return err
	}
	g.held += step
	g.left += step - n
	return nil
}

// free gives back what account took for memory that is free again, for what comes next.
func (g *gathered) free(n int64) { g.left = min(g.left+n, g.held) }

// whole says that the batch that was coming in is whole.
func (g *gathered) whole() {
	g.wholePieces, g.wholeRows = len(g.pieces), 0
	if n := len(g.pieces); n > 0 {
		g.wholeRows = g.pieces[n-1].Len()
	}
	if g.stamped {
		return
	}
	g.streamed = false
	g.store.share.Arrived()
	if g.isPiece() {
		g.handOverSome()
	}
}

// takeBack forgets what has come of the last batch and was not stored yet.
func (g *gathered) takeBack() {
	for _, b := range g.pieces[g.wholePieces:] {
		keep(b)
	}
	g.pieces = g.pieces[:g.wholePieces]
	if n := len(g.pieces); n > 0 {
		g.pieces[n-1].Truncate(g.wholeRows)
	}
	g.store.share.Arrived()
}

// handOverSome stores what was gathered, on another goroutine, while more comes in.
func (g *gathered) handOverSome() {
	g.store.share.Arrived()
	g.store.add(g.unit())
}

// handOver stores the rest, which is whole.
func (g *gathered) handOver() {
	g.store.share.Arrived()
	if g.held == 0 && len(g.pieces) == 0 {
		return
	}
	g.store.addLast(g.unit())
}

// drop forgets everything that is not stored yet.
func (g *gathered) drop() {
	g.store.share.Arrived()
	u := g.unit()
	u.drop(g.store.share)
}

func (g *gathered) unit() unit {
	u := unit{pieces: g.pieces, held: g.held, streamed: g.streamed}
	*g = gathered{server: g.server, store: g.store, stamped: g.stamped, streamed: g.streamed}
	return u
}

// unit is what is stored, in order, and then given back to the budget.
type unit struct {
	pieces   []*record.Batch
	held     int64
	streamed bool // other units of the same batch, or PUTA, are before or behind it
}

func (u *unit) drop(s *budget.Share) {
	for _, b := range u.pieces {
		keep(b)
	}
	s.Release(u.held)
}

// keep keeps the memory of a batch for another.
func keep(b *record.Batch) {
	if cap(b.Data) <= keepPiece {
		b.Reset()
		batches.Put(b)
	}
}
