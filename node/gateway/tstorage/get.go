package tstorage

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// getTimeout bounds a GET, its answer included: a reader as slow as this holds a permit, and the
// segments that it began with.
const getTimeout = time.Hour

var writeBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, writeBytes)
	return &b
}}

// check refuses boxes that no one can mean. Of a GETACQ a box may be empty, as its answer does not
// depend on what the box holds; real clients ask so.
func (b *box) check(mayBeEmpty bool) error {
	if b.min.CID < 0 {
		return refuse(statusInvalid, "cid %d is negative; cids start at 0", b.min.CID)
	}
	d, sign := b.least()
	if sign < 0 || sign == 0 && !mayBeEmpty {
		r := b.part(d)
		from, to := strconv.FormatInt(r.From, 10), strconv.FormatInt(r.To, 10)
		if d == record.Cap || d == record.Acq {
			from, to = formatTime(r.From), formatTime(r.To)
		}
		return refuse(statusInvalid, "the least %s, %s, is not below the greatest, %s, which is "+
			"left out", d, from, to)
	}
	return nil
}

// getAcq answers with the acq below which the box stays as it is. After an error the connection is
// closed, because some clients wait for an acq behind every status.
func (c *conn) getAcq(b *box) error {
	acq, err := c.boxAcq(b)
	if err != nil {
		return c.refuse(err)
	}
	_, err = c.Write(appendAcq(nil, acq))
	return err
}

func (c *conn) boxAcq(b *box) (int64, error) {
	if err := b.check(true); err != nil {
		return 0, err
	}
	_, empty := b.least()
	var in *record.Box // everything
	if empty > 0 {
		in = &b.query().Box
	}
	ns, err := c.horizon(c.server.running, in, 0)
	if err != nil {
		return 0, err
	}
	horizon := fromUnix(ns)
	// The horizon follows the clock but for the commits in flight.
	if now := max(horizon, fromUnix(time.Now().UnixNano())); b.min.AcqNs > now {
		return 0, refuse(statusInvalid, "the least acq, %s, lies in the future: it is %s",
			formatTime(b.min.AcqNs), formatTime(now))
	}
	return min(b.max.AcqNs, horizon), nil
}

// horizon returns the horizon of a box in ns since the Unix epoch, once it lies above afterNs.
func (c *conn) horizon(ctx context.Context, in *record.Box, afterNs int64) (ns int64, err error) {
	err = c.server.patiently(func() (err error) {
		if in != nil {
			own := *in // made regular in place
			in = &own
		}
		ns, err = c.server.opt.Database.HorizonPast(ctx, in, afterNs)
		return err
	})
	return ns, err
}

const (
	// clocksApart is how far the clock of another node, which gave an acq that a client knows, may
	// be ahead of this one's.
	clocksApart = time.Second
	// storedWait bounds the wait for the records of a PUT where a GET needs them for nothing else:
	// its answer is right without them, too.
	storedWait = 2 * time.Second
)

// below returns the acq, in ns since the Unix epoch, below which a GET finds all records of its box
// and above which it returns none. Replicas may be behind what the client knows, so it waits: for
// the greatest acq where that has passed, as a GETACQ may have leased it, and for the least. For
// what this gateway was given it waits a while.
//
// Errors: refusal of a least acq in the future; of the database, when a group is without a leader.
func (c *conn) below(b *box, in *record.Box) (horizonNs int64, err error) {
	s := c.server
	if horizonNs, err = c.horizon(s.running, in, 0); err != nil {
		return 0, err
	}
	horizon, now := fromUnix(horizonNs), fromUnix(time.Now().Add(clocksApart).UnixNano())
	if b.min.AcqNs > max(horizon, now) {
		return 0, refuse(statusInvalid, "the least acq, %s, lies above the horizon, %s",
			formatTime(b.min.AcqNs), formatTime(horizon))
	}
	need := horizon - 1
	if b.min.AcqNs > horizon {
		need = b.min.AcqNs
	}
	if b.max.AcqNs <= now {
		need = max(need, b.max.AcqNs-1)
	}
	if need >= horizon {
		ctx, cancel := context.WithTimeout(s.running, s.opt.Wait)
		defer cancel()
		return c.horizon(ctx, in, toUnix(need))
	}
	if stored := s.stored.Load(); stored >= horizonNs && fromUnix(stored) < b.max.AcqNs {
		ctx, cancel := context.WithTimeout(s.running, storedWait)
		defer cancel()
		if ns, err := c.horizon(ctx, in, stored); err == nil {
			return ns, nil
		}
	}
	return horizonNs, s.running.Err()
}

// appendAcq appends the answer to GETACQ, which ends a GET, too.
func appendAcq(dst []byte, acq int64) []byte {
	dst = appendHeader(dst, int32(statusOK), acqBytes)
	return binary.LittleEndian.AppendUint64(dst, uint64(acq))
}

// get answers with all versions in the box, in no order, and the acq below which they are all. None
// is at or above that, so that a client which goes on from there sees each record once.
func (c *conn) get(b *box) error {
	err := b.check(false)
	if err != nil {
		return c.fail(err)
	}
	q := b.query()
	below, err := c.below(b, &q.Box)
	if err != nil {
		return c.fail(err)
	}
	buf := writeBuffers.Get().(*[]byte)
	out := &answer{to: c, buf: (*buf)[:0]}
	defer func() {
		*buf = out.buf[:0]
		writeBuffers.Put(buf)
	}()
	err = c.query(q, below, out)
	switch {
	case err == nil:
	case out.begun:
		return c.lost("answer a GET", err) // the client sees that the end is missing
	default:
		return c.fail(err)
	}
	c.server.counters.recordsOut.Add(out.records)
	out.begin()
	out.buf = binary.LittleEndian.AppendUint32(out.buf, uint32(endOfGet))
	out.buf = appendAcq(out.buf, min(b.max.AcqNs, fromUnix(below)))
	return out.flush()
}

func (c *conn) query(q *record.Query, belowNs int64, out *answer) error {
	s := c.server
	if err := s.take(s.gets); err != nil {
		return err
	}
	defer func() { <-s.gets }()
	ctx, cancel := context.WithTimeout(s.running, getTimeout)
	defer cancel()
	return s.patiently(func() error {
		end, err := s.opt.Database.QueryBelow(ctx, q, belowNs, out.rows)
		if err == nil && !end.Complete {
			err = errors.New("the database could not answer for all of the box")
		}
		return err
	})
}

// answer is the stream of records that answers a GET.
type answer struct {
	to      *conn
	buf     []byte // what is not written yet
	begun   bool
	records int64
}

// begin appends the header, once: an error before the first record has a status.
func (a *answer) begin() {
	if !a.begun {
		a.begun = true
		a.buf = appendHeader(a.buf, int32(statusOK), 0)
	}
}

func (a *answer) flush() error {
	_, err := a.to.Write(a.buf)
	a.buf = a.buf[:0]
	return err
}

// rows appends records. Tombstones are left out: the protocol has no word for them, and a record
// without payload would be a reading of nothing.
func (a *answer) rows(b *record.Batch) error {
	a.begin()
	tombs := len(b.Tombs) > 0
	for i := range b.Len() {
		if tombs && b.Tomb(i) {
			continue
		}
		payload := b.Payload(i)
		if len(a.buf)+sizeBytes+keyBytes+len(payload) > writeBytes {
			if err := a.flush(); err != nil {
				return err
			}
		}
		a.records++
		a.buf = binary.LittleEndian.AppendUint32(a.buf, uint32(keyBytes+len(payload)))
		a.buf = appendKey(a.buf, key{CID: b.CID[i], MID: b.MID[i], MOID: b.MOID[i],
			CapNs: fromUnix(b.CapNs[i]), AcqNs: fromUnix(b.AcqNs[i])})
		if sizeBytes+keyBytes+len(payload) <= writeBytes {
			a.buf = append(a.buf, payload...)
			continue
		}
		if err := a.flush(); err != nil {
			return err
		}
		if _, err := a.to.Write(payload); err != nil {
			return err
		}
	}
	return nil
}
