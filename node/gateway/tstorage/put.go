package tstorage

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// batchTimeout bounds the time in which a batch comes, or a piece of one that is streamed: one
	// that drips in holds memory.
	batchTimeout = 10 * time.Minute
	// payloadStep is how much memory a large payload gets ahead of its bytes.
	payloadStep = 1 << 20
	// keepScratch is how much of the memory for large payloads one record leaves to the next.
	keepScratch = 1 << 20
)

// put is one PUT or PUTA that is coming in.
type put struct {
	conn    *conn
	in      *bufio.Reader
	withAcq bool
	keySize int // of a record

	gathered gathered
	store    committer
	scratch  []byte

	err     error // the first, after which batches are skipped
	skipped int64
	dropped int64
	example key // the first that was dropped
}

// broken is an error of the connection: there is no one to answer.
type broken struct{ error }

// put reads a PUT to its end and answers it.
func (c *conn) put(withAcq bool, size uint64) error {
	s := c.server
	p := &put{conn: c, in: c.reader(), withAcq: withAcq, keySize: putKeyBytes}
	p.store = committer{server: s, share: s.budget.Share(), peer: c.peer()}
	p.gathered = gathered{store: &p.store, server: s, stamped: withAcq}
	if !withAcq {
		s.counters.puts.Add(1)
	} else {
		s.counters.putAs.Add(1)
		p.keySize += acqBytes
		p.store.restored = new(restored)
		if s.opt.PutA == PutANone {
			p.err = refuse(statusNoPerm, "PUTA is not allowed: it gives records an acquisition "+
				"time; start the node with --tstorage-puta for the time of a copy")
		}
	}
	if size != 0 {
		return c.refuse(refuse(statusInvalid, "the size in the header of a PUT is 0, not %d", size))
	}
	err := p.read()
	var lost broken
	if errors.As(err, &lost) {
		p.gathered.drop()
		_ = p.store.finish(false) // its error cannot be answered
		if errors.Is(lost.error, errSlow) {
			return c.refuse(p.withStored(errSlow))
		}
		return c.lost("read a PUT", p.withStored(lost.error))
	}
	if err == nil {
		err = p.err
	}
	signs := c.beginSigns()
	err = cmp.Or(p.finish(err), err)
	signs.end()
	p.logDropped()
	if err != nil {
		return p.end(p.withStored(err))
	}
	answer := appendHeader(nil, int32(statusOK), 2*acqBytes)
	answer = binary.LittleEndian.AppendUint64(answer, uint64(p.store.first))
	answer = binary.LittleEndian.AppendUint64(answer, uint64(p.store.last))
	return c.answer(answer)
}

// read reads the batches. Meanwhile what comes is acknowledged at once, and one that is slow is
// given up where others wait for its memory.
func (p *put) read() error {
	p.conn.pace.begin()
	defer p.conn.pace.end()
	return p.batches()
}

// finish stores what is left of a PUT, or all of a PUTA unless that has failed.
func (p *put) finish(failed error) error {
	if p.withAcq && failed != nil {
		p.gathered.drop()
	} else {
		p.gathered.handOver()
	}
	return p.store.finish(failed == nil)
}

// withStored adds to an error how much of the request is stored.
func (p *put) withStored(err error) error {
	switch n := p.store.stored; {
	case n == 0:
		return err
	case p.withAcq:
		return fmt.Errorf("%w; %d records of the PUTA are stored, and recognised when it is sent "+
			"again", err, n)
	default:
		return fmt.Errorf("%w; the first %d records of the PUT are stored, and stored again as "+
			"versions when it is sent again", err, n)
	}
}

// end answers a PUT that failed. When it was not read to its end, the connection is closed.
func (p *put) end(err error) error {
	if p.skipped < 0 {
		return p.conn.refuse(err)
	}
	return p.conn.fail(err)
}

// lostStep says that where the next batch begins is not known, or too far away to go on.
const lostStep = -1

// batches reads batch after batch. What is wrong with one of them becomes p.err, and those behind
// it are skipped; an error of the connection is returned.
func (p *put) batches() error {
	for {
		cid, err := p.i32()
		if err != nil {
			return err
		}
		if cid == endOfPut {
			return nil
		}
		size, err := p.i32()
		if err != nil {
			return err
		}
		if size < 0 {
			p.skipped = lostStep
			return refuse(statusInvalid, "a batch of %d bytes", size)
		}
		left := int(size)
		if p.err == nil {
			left, err = p.batch(cid, left)
			if errors.As(err, new(broken)) {
				return err
			}
			p.err = err
		}
		if p.skipped += int64(left); p.skipped > maxSkipped {
			p.skipped = lostStep
			return nil
		}
		if _, err := p.in.Discard(left); err != nil {
			return broken{noEOF(err)}
		}
	}
}

// i32 reads what stands between batches.
func (p *put) i32() (int32, error) {
	src, err := p.in.Peek(4)
	if err != nil {
		return 0, broken{noEOF(err)}
	}
	v := int32(binary.LittleEndian.Uint32(src))
	_, _ = p.in.Discard(4) // they are there
	return v, nil
}

// noEOF says that an end is none: there was more to come.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// batch reads a batch and returns how much of it was left unread. It is gathered whole or not at
// all, unless it is too large for that.
func (p *put) batch(cid int32, size int) (left int, err error) {
	if cid < 0 {
		return size, refuse(statusInvalid, "cid %d is negative; cids start at 0", cid)
	}
	if err := p.store.failed(); err != nil {
		return size, err
	}
	p.conn.until = time.Now().Add(batchTimeout)
	defer func() { p.conn.until = time.Time{} }()
	p.gathered.begin(size, sizeBytes+p.keySize)
	if left, err = p.records(cid, size); err != nil {
		p.gathered.takeBack()
		return left, err
	}
	p.gathered.whole()
	return 0, nil
}

func (p *put) records(cid int32, left int) (int, error) {
	for left > 0 {
		window, err := p.in.Peek(min(max(p.in.Buffered(), 1), left))
		if err != nil {
			return left, broken{noEOF(err)}
		}
		n, err := p.wholeRecords(cid, window, left)
		_, _ = p.in.Discard(n) // they are there
		if left -= n; err != nil {
			return left, err
		}
		if n == 0 {
			if n, err = p.longRecord(cid, left); err != nil {
				return left - n, err
			}
			left -= n
		}
	}
	return 0, nil
}

// wholeRecords gathers the records that lie in window, up to one whose end does not, and returns
// their size. The batch has left bytes more.
func (p *put) wholeRecords(cid int32, window []byte, left int) (n int, err error) {
	for len(window)-n >= sizeBytes {
		size, err := p.recordSize(window[n:], left-n)
		if err != nil || size > len(window)-n {
			return n, err
		}
		at := n + sizeBytes
		if err := p.add(cid, window[at:at+p.keySize], window[at+p.keySize:n+size]); err != nil {
			return n, err
		}
		n += size
	}
	return n, nil
}

// recordSize reads the size of a record, its own four bytes included, and compares it with what
// the batch has left.
func (p *put) recordSize(src []byte, left int) (int, error) {
	size := binary.LittleEndian.Uint32(src)
	switch {
	case size < uint32(p.keySize):
		return 0, refuse(statusInvalid, "a record of %d bytes; its key alone has %d", size,
			p.keySize)
	case size > uint32(p.keySize)+record.MaxPayloadBytes:
		return 0, refuse(statusInvalid, "a record of %d bytes; its payload may have %d", size,
			record.MaxPayloadBytes)
	case int(size)+sizeBytes > left:
		return 0, refuse(statusInvalid, "a record of %d bytes where its batch has %d left", size,
			left-sizeBytes)
	}
	return int(size) + sizeBytes, nil
}

// longRecord waits for a record that has not come whole; one that is longer than the buffer it
// gathers, and returns the bytes that it read.
func (p *put) longRecord(cid int32, left int) (int, error) {
	if left < sizeBytes {
		return 0, refuse(statusInvalid, "%d bytes follow the last record of a batch", left)
	}
	src, err := p.in.Peek(sizeBytes)
	if err != nil {
		return 0, broken{noEOF(err)}
	}
	size, err := p.recordSize(src, left)
	if err != nil {
		return 0, err
	}
	if size <= p.in.Size() {
		if _, err := p.in.Peek(size); err != nil {
			return 0, broken{noEOF(err)}
		}
		return 0, nil
	}
	var k [putKeyBytes + acqBytes]byte
	_, _ = p.in.Discard(sizeBytes)
	if _, err := io.ReadFull(p.in, k[:p.keySize]); err != nil {
		return 0, broken{noEOF(err)}
	}
	payload := size - sizeBytes - p.keySize
	for read := 0; read < payload; {
		n := min(payload-read, payloadStep)
		if err := p.gathered.account(int64(n)); err != nil {
			return sizeBytes + p.keySize + read, err
		}
		p.scratch = slices.Grow(p.scratch[:read], n)[:read+n]
		if _, err := io.ReadFull(p.in, p.scratch[read:]); err != nil {
			return 0, broken{noEOF(err)}
		}
		read += n
	}
	err = p.add(cid, k[:p.keySize], p.scratch[:payload])
	if cap(p.scratch) > keepScratch {
		p.scratch = nil
	}
	p.gathered.free(int64(payload))
	return size, err
}

// add gathers a record, or drops one that cannot be stored.
func (p *put) add(cid int32, src, payload []byte) error {
	k := key{
		CID:   cid,
		MID:   int64(binary.LittleEndian.Uint64(src)),
		MOID:  int32(binary.LittleEndian.Uint32(src[8:])),
		CapNs: int64(binary.LittleEndian.Uint64(src[12:])),
	}
	if p.withAcq {
		k.AcqNs = int64(binary.LittleEndian.Uint64(src[putKeyBytes:]))
	}
	if k.reserved() {
		if p.dropped == 0 {
			p.example = k
		}
		p.dropped++
		return nil
	}
	k.CapNs, k.AcqNs = toUnix(k.CapNs), toUnix(k.AcqNs)
	held := p.gathered.held
	err := p.gathered.add(record.Key(k), payload)
	if p.gathered.held < held { // a piece of the batch is on its way
		p.conn.until = time.Now().Add(batchTimeout)
	}
	return err
}

// logDropped counts records that were dropped because a part holds its greatest value. Clients
// are not told, as they were not by the system that the protocol comes from.
func (p *put) logDropped() {
	if p.dropped == 0 {
		return
	}
	s := p.conn.server
	s.counters.reserved.Add(p.dropped)
	k := p.example
	s.talk.log(s.log, slog.LevelWarn,
		"dropped records of a TStorage client: a part holds its reserved maximum",
		"peer", p.conn.peer(), "count", p.dropped, "cid", k.CID, "mid", k.MID, "moid", k.MOID,
		"cap", formatTime(k.CapNs))
}
