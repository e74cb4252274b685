package node

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// changesForm is how changes are written.
type changesForm uint8

const (
	changesLines  changesForm = 0 // NDJSON
	changesEvents changesForm = 1 // server-sent events, each with the acq to go on from as its id
	changesFrames changesForm = 2
)

// contentTypes by form.
var contentTypes = [...]string{"application/x-ndjson", "text/event-stream", wire.ContentType}

// changesWriter writes slices for one reader.
type changesWriter struct {
	form     changesForm
	payloads payloadType
	keys     bool
	rows     uint64
}

// jsonChange is an event among changes as people read it.
type jsonChange struct {
	Event string            `json:"event"`
	Acq   string            `json:"acq"`
	AcqNs int64             `json:"acq_ns"`
	Box   map[string]string `json:"box"`             // without the dimensions of which all is meant
	Slots []uint32          `json:"slots,omitempty"` // from and to; without, of all devices
}

type jsonClosed struct {
	Closed   string `json:"closed"`
	ClosedNs int64  `json:"closed_ns"`
}

// slice writes rows and events in the order of acq, and then how far the reader is.
func (c *changesWriter) slice(w *bufio.Writer, s *store.Slice) error {
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
func (c *changesWriter) write(
	w *bufio.Writer, b *record.Batch, from, to int, open bool,
) error {
	if from == to {
		return nil
	}
	if c.form == changesFrames {
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
		if err := c.line(w, "", closed, rowOf(b, i, c.payloads, c.keys)); err != nil {
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

func (c *changesWriter) event(w *bufio.Writer, e *event.Event, closedNs int64) error {
	if c.form == changesFrames {
		_, err := w.Write(wire.AppendChange(nil, changeOf(e, closedNs)))
		return err
	}
	out := jsonChange{Event: e.Kind.String(), Acq: record.FormatNs(e.AcqNs), AcqNs: e.AcqNs,
		Box: map[string]string{}}
	if e.ToSlot > 0 {
		out.Slots = []uint32{e.FromSlot, e.ToSlot}
	}
	for d, set := range e.Box {
		if dim := record.Dim(d); len(set) > 0 {
			out.Box[dim.String()] = selector.Format(dim, set)
		}
	}
	return c.line(w, out.Event, closedNs, out)
}

func (c *changesWriter) closed(w *bufio.Writer, ns int64) error {
	if c.form == changesFrames {
		_, err := w.Write(wire.AppendClosed(nil, ns))
		return err
	}
	return c.line(w, "closed", ns, jsonClosed{record.FormatNs(ns), ns})
}

// end writes how the answer ended: at the horizon, or with an error.
func (c *changesWriter) end(w *bufio.Writer, closedNs int64, err error) error {
	if c.form == changesFrames {
		if err != nil {
			_, err = w.Write(wire.AppendError(nil, toWire(err)))
		}
		return err
	}
	end := newJSONEnd(wire.End{Complete: true, Rows: c.rows, HorizonNs: closedNs}, err)
	return c.line(w, "end", closedNs, map[string]any{"end": end})
}

// line writes one line, or one server-sent event; without a name it is a message.
func (c *changesWriter) line(w *bufio.Writer, name string, closedNs int64, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if c.form == changesLines {
		_, err = w.Write(append(text, '\n'))
		return err
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	_, err = fmt.Fprintf(w, "%sid: %s\ndata: %s\n\n", name, strconv.FormatInt(closedNs, 10), text)
	return err
}
