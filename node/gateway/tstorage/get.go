package tstorage

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// getTimeout bounds a GET, its answer included: a reader as slow as this holds a place, and the
// segments that it began with.
const getTimeout = time.Hour

var writeBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, writeBytes)
	return &b
}}

// check refuses boxes that nobody can mean. Of a GETACQ a box may be empty, as its answer does not
// depend on what the box holds; real clients ask so.
func (b *box) check(mayBeEmpty bool) error {
	if b.min.CID < 0 {
		return refuse(statusInvalid, "cid %d is negative; cids start at 0", b.min.CID)
	}
	d, sign := b.least()
	if sign < 0 || sign == 0 && !mayBeEmpty {
		r := b.part(d)
		return refuse(statusInvalid, "the least %s, %d, is not below the greatest, %d, which is "+
			"left out", d, r.From, r.To)
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
	horizon, err := c.horizon()
	if err != nil {
		return 0, err
	}
	// The horizon follows the clock but for the commits under way.
	if now := max(horizon, fromUnix(time.Now().UnixNano())); b.min.AcqNs > now {
		return 0, refuse(statusInvalid, "the least acq, %d, lies in the future: it is %d",
			b.min.AcqNs, now)
	}
	return min(b.max.AcqNs, horizon), nil
}

// horizon returns the horizon in the protocol's time.
func (c *conn) horizon() (int64, error) {
	var ns int64
	err := c.server.patiently(func() (err error) {
		ns, err = c.server.opt.Database.Horizon(c.server.running)
		return err
	})
	return fromUnix(ns), err
}

// appendAcq appends the answer to GETACQ, which ends a GET, too.
func appendAcq(dst []byte, acq int64) []byte {
	dst = appendHeader(dst, int32(statusOK), acqBytes)
	return binary.LittleEndian.AppendUint64(dst, uint64(acq))
}

// get answers with all versions in the box, in no order, and the acq below which they are all.
func (c *conn) get(b *box) error {
	err := b.check(false)
	if err != nil {
		return c.fail(err)
	}
	horizon, err := c.horizon()
	if err == nil && b.min.AcqNs > horizon {
		err = refuse(statusInvalid, "the least acq, %d, lies above the horizon, %d", b.min.AcqNs,
			horizon)
	}
	if err != nil {
		return c.fail(err)
	}
	buf := writeBuffers.Get().(*[]byte)
	out := &answer{to: c, buf: (*buf)[:0]}
	defer func() {
		*buf = out.buf[:0]
		writeBuffers.Put(buf)
	}()
	end, err := c.query(b, out)
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
	out.buf = appendAcq(out.buf, min(b.max.AcqNs, fromUnix(end.HorizonNs)))
	return out.flush()
}

func (c *conn) query(b *box, out *answer) (end wire.End, err error) {
	s := c.server
	if err := s.take(s.gets); err != nil {
		return end, err
	}
	defer func() { <-s.gets }()
	ctx, cancel := context.WithTimeout(s.running, getTimeout)
	defer cancel()
	err = s.patiently(func() (err error) {
		end, err = s.opt.Database.Query(ctx, b.query(), out.rows)
		return err
	})
	if err == nil && !end.Complete {
		err = errors.New("the database could not answer for all of the box")
	}
	return end, err
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
