package rowjson

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/record"
)

// Record writes a record as [Writer.Row] writes its [Row], in a fraction of the time. Rows of
// structs are left to that, and those of text in CSV, as they may need quotes.
func (o *Writer) Record(r *record.Record, payloads quantity.Types, keys bool) error {
	switch {
	case quantity.Struct(payloads, r.MOID) != nil:
		return o.Row(RowOfRecord(r, payloads, keys))
	case o.Format != CSV:
		o.buf = o.before(o.buf[:0])
		o.buf = appendRecord(o.buf, r, payloads, keys)
		if o.Format != Document {
			o.buf = append(o.buf, '\n')
		}
	case payloads.Of(r.MOID) == quantity.Text:
		return o.Row(RowOfRecord(r, payloads, keys))
	default:
		o.buf = appendCells(o.buf[:0], r, payloads, keys)
	}
	o.Rows++
	_, err := o.W.Write(o.buf)
	return err
}

// appendRecord appends the JSON of a record: what encoding/json makes of its [Row].
func appendRecord(dst []byte, r *record.Record, payloads quantity.Types, keys bool) []byte {
	dst = strconv.AppendInt(append(dst, `{"cid":`...), int64(r.CID), 10)
	dst = strconv.AppendInt(append(dst, `,"mid":`...), r.MID, 10)
	dst = strconv.AppendInt(append(dst, `,"moid":`...), int64(r.MOID), 10)
	dst = record.AppendNs(append(dst, `,"cap":"`...), r.CapNs)
	dst = strconv.AppendInt(append(dst, `","cap_ns":`...), r.CapNs, 10)
	dst = record.AppendNs(append(dst, `,"acq":"`...), r.AcqNs)
	dst = strconv.AppendInt(append(dst, `","acq_ns":`...), r.AcqNs, 10)
	switch {
	case r.Tomb:
		dst = append(dst, `,"deleted":true`...)
	case keys:
	default:
		dst = appendPayload(dst, payloads.Of(r.MOID), r.Payload)
	}
	return append(dst, '}')
}

// appendPayload appends the member value, or payload where the type does not have it all.
func appendPayload(dst []byte, kind quantity.Type, payload []byte) []byte {
	at := len(dst)
	dst = append(dst, `,"value":`...)
	switch v := kind.Decode(payload).(type) {
	case float64:
		return appendFloat(dst, v)
	case float32:
		return appendFloat(dst, float64(v))
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case int32:
		return strconv.AppendInt(dst, int64(v), 10)
	case uint32:
		return strconv.AppendUint(dst, uint64(v), 10)
	case string:
		text, err := json.Marshal(v)
		if err != nil {
			panic("BUG: a string is always JSON: " + err.Error())
		}
		return append(dst, text...)
	}
	dst = append(dst[:at], `,"payload":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, payload), '"')
}

// appendFloat appends a number as encoding/json does, or the text of one that JSON does not have.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(strconv.AppendFloat(append(dst, '"'), f, 'g', -1, 64), '"')
	}
	// Without an exponent where ECMAScript writes none.
	if size := math.Abs(f); size == 0 || size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst = append(dst[:n-2], dst[n-1]) // e-09 is e-9
	}
	return dst
}

// appendCells appends the line of a record that is no text: what the CSV of its [Row] has.
func appendCells(dst []byte, r *record.Record, payloads quantity.Types, keys bool) []byte {
	dst = append(strconv.AppendInt(dst, int64(r.CID), 10), ',')
	dst = append(strconv.AppendInt(dst, r.MID, 10), ',')
	dst = append(strconv.AppendInt(dst, int64(r.MOID), 10), ',')
	dst = append(record.AppendNs(dst, r.CapNs), ',')
	dst = append(record.AppendNs(dst, r.AcqNs), ',')
	switch {
	case r.Tomb:
		return append(dst, ",,true\n"...)
	case keys:
		return append(dst, ",,false\n"...)
	}
	switch v := payloads.Of(r.MOID).Decode(r.Payload).(type) {
	case float64:
		dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	case float32:
		dst = strconv.AppendFloat(dst, float64(v), 'g', -1, 64)
	case int64:
		dst = strconv.AppendInt(dst, v, 10)
	case int32:
		dst = strconv.AppendInt(dst, int64(v), 10)
	case uint32:
		dst = strconv.AppendUint(dst, uint64(v), 10)
	default:
		dst = base64.StdEncoding.AppendEncode(append(dst, ','), r.Payload)
		return append(dst, ",false\n"...)
	}
	return append(dst, ",,false\n"...)
}
