// Package changestream writes changes for one reader: as lines of JSON, as server-sent events or as
// frames.
//
// It knows nothing of where changes come from. Its main type is [Writer]; it starts no goroutines.
package changestream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

var frameBuffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledBytes keeps frames of large payloads out of the pool.
const maxPooledBytes = 4 << 20

// Format is how changes are written.
type Format uint8

const (
	Lines  Format = 0 // NDJSON
	Events Format = 1 // server-sent events, each with the acq to go on from as its id
	Frames Format = 2
)

// ContentTypes by format.
var ContentTypes = [...]string{"application/x-ndjson", "text/event-stream", wire.ContentType}

// Writer writes slices for one reader.
type Writer struct {
	Format   Format
	Payloads quantity.Types // of formats other than Frames
	Keys     bool           // payloads are left out
	rows     uint64
}

// EventLine is an event among changes as people read it.
type EventLine struct {
	Event string            `json:"event"`
	Acq   string            `json:"acq"`
	AcqNs int64             `json:"acq_ns"`
	Box   map[string]string `json:"box"`             // without the dimensions of which all is meant
	Slots []uint32          `json:"slots,omitempty"` // from and to; without, of all devices
}

// ClosedLine says how far the reader is.
type ClosedLine struct {
	Closed   string `json:"closed"`
	ClosedNs int64  `json:"closed_ns"`
}

// Slice writes rows and events in the order of acq, and then how far the reader is.
func (c *Writer) Slice(w *bufio.Writer, s *store.Slice) error {
	from := 0
	for i := range s.Events {
		e := &s.Events[i]
		to := from
		for to < s.Rows.Len() && s.Rows.AcqNs[to] < e.AcqNs {
			to++
		}
		if err := c.write(w, &s.Rows, from, to, false); err != nil {
			return err
		}
		from = to
		closed := e.AcqNs + 1
		if i+1 < len(s.Events) && s.Events[i+1].AcqNs == e.AcqNs ||
			to < s.Rows.Len() && s.Rows.AcqNs[to] == e.AcqNs {
			closed = e.AcqNs // steps of a retention, another group or restored records share it
		}
		if err := c.event(w, e, closed); err != nil {
			return err
		}
	}
	if err := c.write(w, &s.Rows, from, s.Rows.Len(), s.IsOpen()); err != nil {
		return err
	}
	c.rows += uint64(s.Rows.Len())
	return c.closed(w, s.ClosedNs)
}

// write writes the rows [from, to); open says that others with the acq of the last one follow.
func (c *Writer) write(
	w *bufio.Writer, b *record.Batch, from, to int, open bool,
) error {
	if from == to {
		return nil
	}
	if c.Format == Frames {
		if to-from < b.Len() {
			part := new(record.Batch)
			part.AppendRows(b, from, to)
			b = part
		}
		buf := frameBuffers.Get().(*[]byte)
		defer frameBuffers.Put(buf)
		appendFrame := wire.AppendRows
		if open {
			appendFrame = wire.AppendOpenRows
		}
		var err error
		if *buf, err = appendFrame((*buf)[:0], b); err == nil {
			_, err = w.Write(*buf)
		}
		if cap(*buf) > maxPooledBytes {
			*buf = nil
		}
		return err
	}
	for i := from; i < to; i++ {
		closed := closedBy(b, i)
		if open && i == to-1 {
			closed = b.AcqNs[i]
		}
		if err := c.line(w, "", closed, rowjson.RowOf(b, i, c.Payloads, c.Keys)); err != nil {
			return err
		}
	}
	return nil
}

// closedBy returns the acq to go on from after a row: two groups may have rows of one acq.
func closedBy(b *record.Batch, i int) int64 {
	if i+1 < b.Len() && b.AcqNs[i+1] == b.AcqNs[i] {
		return b.AcqNs[i]
	}
	return b.AcqNs[i] + 1
}

func (c *Writer) event(w *bufio.Writer, e *event.Event, closedNs int64) error {
	if c.Format == Frames {
		_, err := w.Write(wire.AppendChange(nil, changeOf(e, closedNs)))
		return err
	}
	out := EventLine{Event: e.Kind.String(), Acq: record.FormatNs(e.AcqNs), AcqNs: e.AcqNs,
		Box: selector.FormatBox(&e.Box)}
	if e.ToSlot > 0 {
		out.Slots = []uint32{e.FromSlot, e.ToSlot}
	}
	return c.line(w, out.Event, closedNs, out)
}

func (c *Writer) closed(w *bufio.Writer, ns int64) error {
	if c.Format == Frames {
		_, err := w.Write(wire.AppendClosed(nil, ns))
		return err
	}
	return c.line(w, "closed", ns, ClosedLine{record.FormatNs(ns), ns})
}

// End writes how the answer ended: at the horizon, or with an error.
func (c *Writer) End(w *bufio.Writer, closedNs int64, failure *wire.Error) error {
	if c.Format == Frames {
		if failure == nil {
			return nil
		}
		_, err := w.Write(wire.AppendError(nil, failure))
		return err
	}
	end := rowjson.NewEnd(wire.End{Complete: true, Rows: c.rows, HorizonNs: closedNs}, failure)
	return c.line(w, "end", closedNs, map[string]any{"end": end})
}

// line writes one line, or one server-sent event; without a name it is a message.
func (c *Writer) line(w *bufio.Writer, name string, closedNs int64, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if c.Format == Lines {
		_, err = w.Write(append(text, '\n'))
		return err
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	_, err = fmt.Fprintf(w, "%sid: %s\ndata: %s\n\n", name, strconv.FormatInt(closedNs, 10), text)
	return err
}

// changeOf converts an event for the protocol.
func changeOf(e *event.Event, closedNs int64) *wire.Change {
	return &wire.Change{AcqNs: e.AcqNs, ClosedNs: closedNs, Kind: wire.ChangeKind(e.Kind),
		Box: e.Box, FromSlot: e.FromSlot, ToSlot: e.ToSlot}
}
