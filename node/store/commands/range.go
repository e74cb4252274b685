package commands

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// rangeHead is what the command of a range says beside its rows; see [mirror.Range].
type rangeHead struct {
	Of       string             `json:"of"`
	Timeline uint64             `json:"timeline,string,omitempty"`
	Box      event.Box          `json:"box"`
	FromNs   int64              `json:"from_acq_ns"`
	ToNs     int64              `json:"to_acq_ns"`
	Events   []event.Meta       `json:"events,omitempty"`
	Policies []retention.Policy `json:"policies,omitempty"`
	Whole    bool               `json:"whole,omitempty"`
}

// AppendRange appends the command that does what Store.PutRange does, with the range as far as it
// lies above the horizon: what a group has of it already came with a run that was cut short.
//
// Errors: *record.InvalidError.
func AppendRange(dst []byte, r *mirror.Range) ([]byte, error) {
	if err := mirror.CheckIdentity(r.Of); err != nil {
		return dst, err
	}
	if err := r.Validate(); err != nil {
		return dst, err
	}
	head := rangeHead{Of: r.Of, Timeline: r.Timeline, Box: event.BoxOf(&r.Box), FromNs: r.FromNs,
		ToNs: r.ToNs, Whole: r.Whole}
	for i := range r.Events {
		e := event.Event{AcqNs: r.Events[i].AcqNs, Kind: r.Events[i].Kind, Box: r.Events[i].Box}
		head.Events = append(head.Events, event.MetaOf(&e))
	}
	for i := range r.Policies {
		head.Policies = append(head.Policies, r.Policies[i].Unmarked())
	}
	text, err := json.Marshal(&head)
	if err != nil {
		return dst, fmt.Errorf("describe range: %w", err)
	}
	dst = binary.LittleEndian.AppendUint32(appendCommand(dst, KindRange), uint32(len(text)))
	dst = append(dst, text...)
	if r.Len() == 0 {
		return dst, nil
	}
	return AppendRangeRows(dst, r.Rows), nil
}

// AppendPromote appends the command that does what Store.PromoteCopy does.
func AppendPromote(dst []byte) []byte { return appendCommand(dst, KindPromote) }

// AppendRangeRows appends the rows of a range, at least one, as an entry of the log has them.
func AppendRangeRows(dst []byte, rows *record.Batch) []byte {
	return segment.AppendRowsEntry(dst, &segment.RowsHeader{FirstAcqNs: rows.AcqNs[0],
		HasAcqs: true, BatchFirstAcqNs: rows.AcqNs[0], BatchRecords: uint32(rows.Len()),
		BatchEntries: 1}, rows, nil)
}

func (c *Command) parseRange(body []byte) error {
	if len(body) < 4 || uint64(binary.LittleEndian.Uint32(body)) > uint64(len(body)-4) {
		return badCommand("%d bytes end inside a range", len(body))
	}
	size := binary.LittleEndian.Uint32(body)
	text, rest := body[4:4+size], body[4+size:]
	var head rangeHead
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields() // who left one out might differ from who knows it
	if err := from.Decode(&head); err != nil || from.InputOffset() != int64(len(text)) {
		return badCommand("the range is described by %.100q: %v", text, err)
	}
	if err := mirror.CheckIdentity(head.Of); err != nil {
		return err
	}
	r := &mirror.Range{Of: head.Of, Timeline: head.Timeline, FromNs: head.FromNs, ToNs: head.ToNs,
		Whole: head.Whole}
	var err error
	if r.Box, err = event.ParseBox(&head.Box); err != nil {
		return err
	}
	for i := range head.Events {
		e, err := head.Events[i].Event()
		if err != nil {
			return badCommand("%v", err)
		}
		r.Events = append(r.Events, e)
	}
	for i := range head.Policies {
		r.Policies = append(r.Policies, head.Policies[i].Unmarked())
	}
	if len(rest) > 0 {
		if r.Rows, err = c.parseRangeRows(rest); err != nil {
			return err
		}
	}
	c.Range = r
	return r.Validate()
}

func (c *Command) parseRangeRows(src []byte) (*record.Batch, error) {
	if c.Rows == nil {
		c.Rows = new(record.Batch)
	}
	var h segment.RowsHeader
	if err := segment.ParseRowsEntry(src, &h, c.Rows); formats.Is(err) {
		return nil, err
	} else if err != nil {
		return nil, badCommand("%v", err)
	}
	n := c.Rows.Len()
	if n == 0 || !h.HasAcqs || h.EqualAcqs || h.Writer != ([16]byte{}) || h.Seq != 0 ||
		h.Persistent ||
		h.BatchEntries != 1 || uint64(h.BatchRecords) != uint64(n) ||
		h.FirstAcqNs != c.Rows.AcqNs[0] || h.BatchFirstAcqNs != h.FirstAcqNs {
		return nil, badCommand("the rows of the range are not those of a whole stamped batch")
	}
	return c.Rows, nil
}
