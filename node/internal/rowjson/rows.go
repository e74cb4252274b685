package rowjson

import (
	"encoding/base64"
	"encoding/json"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Row is a record in JSON.
type Row struct {
	CID     int32   `json:"cid"`
	MID     int64   `json:"mid"`
	MOID    int32   `json:"moid"`
	Cap     string  `json:"cap"`
	CapNs   int64   `json:"cap_ns"`
	Acq     string  `json:"acq"`
	AcqNs   int64   `json:"acq_ns"`
	Value   any     `json:"value,omitempty"`
	Payload *string `json:"payload,omitempty"` // nil if Value has it all; "" is an empty one
	Deleted bool    `json:"deleted,omitempty"` // a tombstone, without value and payload
}

// End is the end of an answer in JSON.
type End struct {
	Complete bool   `json:"complete"`
	Reason   string `json:"reason,omitempty"` // why it is not complete, without an error
	Error    string `json:"error,omitempty"`
	Code     string `json:"code,omitempty"`

	Fault *api.Fault `json:"fault,omitempty"` // of a plugin

	Rows      uint64 `json:"rows"`
	HorizonNs int64  `json:"horizon_ns"`
	Blocks    uint64 `json:"blocks_scanned"`
	Examined  uint64 `json:"rows_examined"`
	PurgedNs  int64  `json:"purged_acq_ns,omitempty"`
	TookNs    int64  `json:"took_ns"`
}

// NewEnd returns the end of an answer; err is nil for none.
func NewEnd(end wire.End, err *wire.Error) End {
	out := End{Complete: end.Complete, Reason: end.Reason, Rows: end.Rows,
		HorizonNs: end.HorizonNs, Blocks: end.BlocksScanned, Examined: end.RowsExamined,
		TookNs: end.TookNs, PurgedNs: end.HistoryChangedAcqNs}
	if err != nil {
		out.Complete, out.Error, out.Code = false, err.Message, err.Kind.String()
		if fault, ok := err.Fault(); ok {
			out.Fault = &fault
		}
	}
	return out
}

// RowOf returns a row of a batch; keys leaves its payload out.
func RowOf(b *record.Batch, i int, payloads quantity.Types, keys bool) Row {
	r := b.Record(i)
	return RowOfRecord(&r, payloads, keys)
}

// RowOfRecord returns the row of a record.
func RowOfRecord(r *record.Record, payloads quantity.Types, keys bool) Row {
	row := Row{CID: r.CID, MID: r.MID, MOID: r.MOID, CapNs: r.CapNs, AcqNs: r.AcqNs,
		Cap: record.FormatNs(r.CapNs), Acq: record.FormatNs(r.AcqNs)}
	if row.Deleted = r.Tomb; keys || row.Deleted {
		return row
	}
	if q := quantity.Struct(payloads, r.MOID); q != nil {
		if object, same := quantity.AppendShown(nil, q, r.Payload); same {
			row.Value = json.RawMessage(object)
			return row
		}
	}
	kind := payloads.Of(r.MOID)
	if row.Value = value(kind, r.Payload); row.Value == nil {
		text := base64.StdEncoding.EncodeToString(r.Payload)
		row.Value, row.Payload = nil, &text
	}
	return row
}
