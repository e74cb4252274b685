package tstorage

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"testing"
	"time"
)

// A client of the protocol, written from TSTORAGE.md byte by byte and from nothing of the gateway,
// so that a mistake in one is not made by both.

type ttKey struct {
	cid  int32
	mid  int64
	moid int32
	cap  int64
	acq  int64
}

func ttMin() ttKey {
	return ttKey{0, math.MinInt64, math.MinInt32, math.MinInt64, math.MinInt64}
}

func ttMax() ttKey {
	return ttKey{math.MaxInt32, math.MaxInt64, math.MaxInt32, math.MaxInt64, math.MaxInt64}
}

type ttRecord struct {
	ttKey
	payload string
}

// withoutAcq is a record as it was before it was stored.
func (r ttRecord) withoutAcq() ttRecord {
	r.acq = 0
	return r
}

func le32(dst []byte, v int32) []byte { return binary.LittleEndian.AppendUint32(dst, uint32(v)) }
func le64(dst []byte, v int64) []byte { return binary.LittleEndian.AppendUint64(dst, uint64(v)) }

func ttBox(cmd int32, from, to ttKey) []byte {
	b := le64(le32(nil, cmd), 64)
	for _, k := range []ttKey{from, to} {
		b = le64(le64(le32(le64(le32(b, k.cid), k.mid), k.moid), k.cap), k.acq)
	}
	return b
}

// ttBatch is one batch: all of one cid.
func ttBatch(cid int32, withAcq bool, records ...ttRecord) []byte {
	var body []byte
	for _, r := range records {
		size := 20 + len(r.payload)
		if withAcq {
			size += 8
		}
		body = le64(le32(le64(le32(body, int32(size)), r.mid), r.moid), r.cap)
		if withAcq {
			body = le64(body, r.acq)
		}
		body = append(body, r.payload...)
	}
	return append(le32(le32(nil, cid), int32(len(body))), body...)
}

// ttPut is a whole request, with a batch for each run of records of one cid.
func ttPut(withAcq bool, records ...ttRecord) []byte {
	cmd := int32(5)
	if withAcq {
		cmd = 6
	}
	b := le64(le32(nil, cmd), 0)
	for len(records) > 0 {
		n := 1
		for n < len(records) && records[n].cid == records[0].cid {
			n++
		}
		b = append(b, ttBatch(records[0].cid, withAcq, records[:n]...)...)
		records = records[n:]
	}
	return le32(b, -1)
}

type ttClient struct {
	net.Conn
	in *bufio.Reader
}

func ttWrap(c net.Conn) *ttClient { return &ttClient{c, bufio.NewReaderSize(c, 64<<10)} }

// ttDial connects; the test ends a connection that it left open.
func ttDial(t testing.TB, s *Server) *ttClient {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return ttWrap(c)
}

func (c *ttClient) i32() (int32, error) {
	var b [4]byte
	_, err := io.ReadFull(c.in, b[:])
	return int32(binary.LittleEndian.Uint32(b[:])), err
}

func (c *ttClient) i64() (int64, error) {
	var b [8]byte
	_, err := io.ReadFull(c.in, b[:])
	return int64(binary.LittleEndian.Uint64(b[:])), err
}

// header reads status and size; an answer that is not OK has nothing behind them.
func (c *ttClient) header(size int64) (int32, error) {
	st, err := c.i32()
	if err != nil {
		return 0, err
	}
	got, err := c.i64()
	if st != 0 {
		size = 0
	}
	if err == nil && got != size {
		err = fmt.Errorf("status %d with a size of %d, want %d", st, got, size)
	}
	return st, err
}

func (c *ttClient) getAcq(from, to ttKey) (acq int64, status int32, err error) {
	if _, err = c.Write(ttBox(7, from, to)); err != nil {
		return 0, 0, err
	}
	return c.acq()
}

func (c *ttClient) acq() (acq int64, status int32, err error) {
	if status, err = c.header(8); err != nil || status != 0 {
		return 0, status, err
	}
	acq, err = c.i64()
	return acq, 0, err
}

func (c *ttClient) get(from, to ttKey) (out []ttRecord, acq int64, status int32, err error) {
	if _, err = c.Write(ttBox(1, from, to)); err != nil {
		return nil, 0, 0, err
	}
	if status, err = c.header(0); err != nil || status != 0 {
		return nil, 0, status, err
	}
	err = c.records(func(r ttRecord) { out = append(out, r) })
	if err == nil {
		acq, status, err = c.acq()
	}
	return out, acq, status, err
}

func (c *ttClient) records(each func(ttRecord)) error {
	for {
		size, err := c.i32()
		if err != nil || size == 0 {
			return err
		}
		if size < 32 || size > 32+32<<20 {
			return fmt.Errorf("a record of %d bytes", size)
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(c.in, b); err != nil {
			return err
		}
		u32 := func(at int) int32 { return int32(binary.LittleEndian.Uint32(b[at:])) }
		u64 := func(at int) int64 { return int64(binary.LittleEndian.Uint64(b[at:])) }
		each(ttRecord{ttKey{u32(0), u64(4), u32(12), u64(16), u64(24)}, string(b[32:])})
	}
}

func (c *ttClient) put(withAcq bool, records ...ttRecord) (least, most int64, st int32, err error) {
	return c.send(ttPut(withAcq, records...))
}

// send writes a PUT and reads its answer.
func (c *ttClient) send(request []byte) (least, most int64, st int32, err error) {
	if _, err = c.Write(request); err != nil {
		return 0, 0, 0, err
	}
	return c.putAnswer()
}

// ttStatus returns the status that a PUT ended with, of an answer that may have begun early: on a
// slow machine any does.
func ttStatus(st int32) int32 {
	for st != 0 && st&0xff == 0 {
		st >>= 8
	}
	return st
}

func (c *ttClient) putAnswer() (least, most int64, st int32, err error) {
	if st, err = c.header(16); err != nil || st != 0 {
		return 0, 0, ttStatus(st), err
	}
	if least, err = c.i64(); err == nil {
		most, err = c.i64()
	}
	return least, most, 0, err
}
