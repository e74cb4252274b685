package tstorage

import (
	"errors"
	"net"
	"time"
)

const (
	// slowParts is the part of Options.Stall in which a PUT must bring slowBytes while others wait
	// for memory: 4 KiB a second.
	slowParts = 12
	slowBytes = 20 << 10
)

// errSlow means that a PUT came so slowly that its memory was taken for others.
var errSlow = errors.New("the PUT comes too slowly while others wait for memory: fewer than " +
	"20 KiB came in a twelfth of the time for a stall; send smaller batches")

// pace watches how fast a request comes that holds memory.
type pace struct {
	on    bool
	short bool          // the last read brought less than there was space for
	took  time.Duration // in this window, waiting for bytes
	got   int
}

// begin begins to watch, after the header of the request was read.
func (w *pace) begin() { *w = pace{on: true, short: true} }

func (w *pace) end() { *w = pace{} }

// isSlow counts what a read brought, and reports whether too little came within a window.
func (w *pace) isSlow(n int, took, window time.Duration) bool {
	w.got += n
	w.took += took
	if w.took < window {
		return false
	}
	slow := w.got < slowBytes
	w.got, w.took = 0, 0
	return slow
}

// Read implements io.Reader, with a deadline for each read.
func (c *conn) Read(p []byte) (int, error) {
	if c.pace.short {
		acknowledge(c.tcp)
	}
	end := time.Now().Add(c.wait)
	if !c.until.IsZero() {
		end = soonest(end, c.until)
	}
	window := c.server.opt.Stall / slowParts
	for hurried := false; ; {
		began := time.Now()
		if !hurried && c.server.ending.Load() {
			hurried, end = true, soonest(end, began.Add(endStall))
		}
		deadline := end
		if c.pace.on {
			deadline = soonest(end, began.Add(window/4))
		}
		n, err := c.readBy(p, deadline)
		if !c.pace.on {
			return n, err
		}
		c.pace.short = n < len(p)
		if c.pace.isSlow(n, time.Since(began), window) && c.server.budget.Contended() {
			return n, errSlow
		}
		var timeout net.Error
		if n > 0 || !errors.As(err, &timeout) || !timeout.Timeout() || !time.Now().Before(end) {
			return n, err
		}
	}
}

// readBy reads once, until a deadline, which is earlier for a server that ends.
func (c *conn) readBy(p []byte, deadline time.Time) (int, error) {
	err := c.raw.SetReadDeadline(deadline)
	if err == nil && c.server.ending.Load() { // looked at last, as Close sets it first
		err = c.raw.SetReadDeadline(soonest(deadline, time.Now().Add(endStall)))
	}
	if err != nil {
		return 0, err
	}
	n, err := c.raw.Read(p)
	c.server.counters.bytesIn.Add(int64(n))
	return n, err
}

func soonest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
