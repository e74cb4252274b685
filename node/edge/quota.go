package edge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// ErrFull means that as much waits to be shipped as may.
var ErrFull = errors.New("edge: no space for more records that wait to be shipped")

// fullError is ErrFull as it crosses the network.
type fullError struct{ remote *wire.Error }

func (f fullError) Error() string { return f.remote.Message }

func (fullError) Is(target error) bool { return target == ErrFull }

func (f fullError) Unwrap() error { return f.remote }

// meter counts the bytes that wait to be shipped.
type meter struct {
	counted chan struct{} // closed when what was there at the start is counted

	mu      sync.Mutex // guards all below
	used    int64
	puts    int   // in progress
	lastAcq int64 // of what was put
}

// start sets what was counted, up to an acq; nothing was put before.
func (m *meter) start(size, lastAcq int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used, m.lastAcq = size, lastAcq
}

// take counts bytes that are about to be put, if they have space.
func (m *meter) take(size, quota int64) (over int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if over = m.used + size - quota; over > 0 {
		return over
	}
	m.used += size
	m.puts++
	return 0
}

// put notes how a put ended: those of which no one knows count until all is shipped.
func (m *meter) put(size int64, res store.PutResult, stored bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.puts--
	if !stored {
		m.used = max(0, m.used-size)
	}
	m.lastAcq = max(m.lastAcq, res.LastAcqNs)
}

// add counts bytes that are there, up to an acq.
func (m *meter) add(size, lastAcq int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += size
	m.lastAcq = max(m.lastAcq, lastAcq)
}

func (m *meter) free(size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used = max(0, m.used-size)
}

// rested is called when all below an acq is shipped: when nothing was put since, nothing waits.
func (m *meter) rested(closedNs int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.puts == 0 && m.lastAcq < closedNs && m.isCounted() {
		m.used = 0
	}
}

func (m *meter) isCounted() bool {
	select {
	case <-m.counted:
		return true
	default:
		return false
	}
}

func (m *meter) waiting() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// shipper is the edge as its node sees it: every put of a client goes through Put, which holds the
// quota of what waits to be shipped.
type shipper Edge

// Put implements node.Outbox.
func (x *shipper) Put(
	ctx context.Context, b *record.Batch, put func() (store.PutResult, error),
) (store.PutResult, error) {
	e := (*Edge)(x)
	select {
	case <-e.meter.counted:
	case <-ctx.Done():
		return store.PutResult{}, ctx.Err()
	case <-e.run.Done(): // it could not start
		return store.PutResult{}, store.ErrClosed
	}
	size := sizeOf(b)
	for {
		over := e.meter.take(size, e.opt.Quota)
		if over == 0 {
			break
		}
		if e.opt.Full == Block || size > e.opt.Quota {
			e.refused.Store(size)
			return store.PutResult{}, e.full(size)
		}
		if err := e.dropOldest(ctx, size); err != nil {
			return store.PutResult{}, err
		}
	}
	res, err := put()
	// Who hung up may have stored it all the same.
	stored := err == nil && !res.Duplicate || err != nil && ctx.Err() != nil
	e.meter.put(size, res, stored)
	return res, err
}

// Status implements node.Outbox.
func (x *shipper) Status() any { return (*Edge)(x).Shipping() }

// full says why there is no space, and until when.
func (e *Edge) full(size int64) error {
	s := e.Shipping()
	why := "it is being shipped"
	if s.Error != "" {
		why = fmt.Sprintf("upstream has taken nothing since %s: %s", orNever(s.AckedNs), s.Error)
	}
	after := time.Second
	if at := time.Unix(0, s.RetryNs); s.RetryNs != 0 && time.Until(at) > after {
		after = time.Until(at)
		why += fmt.Sprintf("; the next try is in %v", after.Round(time.Second))
	}
	return fullError{&wire.Error{Kind: wire.KindOverloaded, RetryAfterMs: uint32(after / 1e6),
		Message: fmt.Sprintf("nothing is stored: %d bytes of records wait to be shipped, %d more "+
			"are over the quota of %d; %s. Try again when upstream is there, raise the quota, or "+
			"let the oldest go with drop-oldest", s.WaitingBytes, size, s.Quota, why)}}
}

func orNever(ns int64) string {
	if ns == 0 {
		return "the start"
	}
	return record.FormatNs(ns)
}
