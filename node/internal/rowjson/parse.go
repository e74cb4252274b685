package rowjson

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/internal/strictjson"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

// Posted is a record as people write it.
type Posted struct {
	CID   *int32          `json:"cid"`
	MID   *int64          `json:"mid"`
	MOID  *int32          `json:"moid"`
	Cap   json.RawMessage `json:"cap,omitzero"`
	CapNs *int64          `json:"cap_ns,omitzero"` // stands for cap, as in an answer
	// Acq and AcqNs are of an answer; they are left aside, as pentad gives new ones.
	Acq     json.RawMessage `json:"acq,omitzero"`
	AcqNs   json.RawMessage `json:"acq_ns,omitzero"`
	Value   json.RawMessage `json:"value,omitzero"`
	Payload *string         `json:"payload,omitzero"`
	Deleted bool            `json:"deleted,omitzero"` // a tombstone, without value and payload
}

// ParseRecord reads one record: cap as RFC 3339 or integer ns, the payload in base64 or a value of
// the type of its quantity.
func ParseRecord(
	src []byte, payloads quantity.Types, now time.Time,
) (out record.Record, err error) {
	var r Posted
	if err := strictjson.Unmarshal(src, &r); err != nil {
		return out, jsonError(err)
	}
	if string(r.Value) == "null" {
		r.Value = nil
	}
	if r.CID == nil || r.MID == nil || r.MOID == nil || r.Cap == nil && r.CapNs == nil {
		return out, errors.New("cid, mid, moid and cap must be there")
	}
	out.Key = record.Key{CID: *r.CID, MID: *r.MID, MOID: *r.MOID}
	if r.CapNs != nil {
		out.CapNs = *r.CapNs
	} else if out.CapNs, err = parseCap(r.Cap, now); err != nil {
		return out, fmt.Errorf("cap: %w", err)
	}
	if out.Tomb = r.Deleted; out.Tomb {
		if r.Value != nil || r.Payload != nil {
			return out, errors.New("a deleted record must not have a payload or value")
		}
		return out, nil
	}
	if (r.Value == nil) == (r.Payload == nil) {
		return out, errors.New("either payload (base64) or value must be there")
	}
	if r.Payload != nil {
		if out.Payload, err = base64.StdEncoding.DecodeString(*r.Payload); err != nil {
			return out, fmt.Errorf("payload: %w", err)
		}
		if err = payloads.Check(out.MOID, out.Payload); err != nil {
			err = fmt.Errorf("%w; add ?type=base64 to store it as it is", err)
		}
		return out, err
	}
	kind := payloads.Of(out.MOID)
	if kind.Raw() {
		return out, fmt.Errorf("quantity %d is not declared as a number or text: declare it, or "+
			"add ?type=f64, i64 or text", out.MOID)
	}
	out.Payload, err = parseValue(r.Value, kind)
	return out, err
}

// jsonError rewrites an error of encoding/json in terms of JSON instead of Go.
func jsonError(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	case wrong.Field == "":
		return fmt.Errorf("a record is a JSON object, this is a JSON %s", wrong.Value)
	}
	return fmt.Errorf("%s: %s is not a valid %s", wrong.Field, wrong.Value, wrong.Type)
}

// parseCap reads a time that is not a span: a date would be a guess of midnight.
func parseCap(src json.RawMessage, now time.Time) (int64, error) {
	var text string
	if err := json.Unmarshal(src, &text); err != nil {
		ns, err := strconv.ParseInt(string(src), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%.40s is neither a time in quotes nor whole ns since 1970", src)
		}
		return ns, nil
	}
	at, err := timeparse.Parse(text, now)
	if err == nil && at.ToNs != at.FromNs+1 {
		err = fmt.Errorf("%q is a time span; add the time of day", text)
	}
	return at.FromNs, err
}

func parseValue(src json.RawMessage, kind quantity.Type) ([]byte, error) {
	little := binary.LittleEndian
	switch kind {
	case quantity.F64:
		f, err := parseFloat(src, 64)
		return little.AppendUint64(nil, math.Float64bits(f)), err
	case quantity.F32:
		f, err := parseFloat(src, 32)
		return little.AppendUint32(nil, math.Float32bits(float32(f))), err
	case quantity.I64:
		n, err := parseInt(src, math.MinInt64, math.MaxInt64)
		return little.AppendUint64(nil, uint64(n)), err
	case quantity.I32:
		n, err := parseInt(src, math.MinInt32, math.MaxInt32)
		return little.AppendUint32(nil, uint32(n)), err
	case quantity.U32:
		n, err := parseInt(src, 0, math.MaxUint32)
		return little.AppendUint32(nil, uint32(n)), err
	}
	var text string
	if err := json.Unmarshal(src, &text); err != nil {
		return nil, fmt.Errorf("value: %.40s is not a string", src)
	}
	return []byte(text), nil
}

// parseFloat reads a number, or one of those that JSON does not have, as answers write them.
func parseFloat(src json.RawMessage, bits int) (float64, error) {
	text := string(src)
	switch text {
	case `"NaN"`, `"+Inf"`, `"-Inf"`:
		return strconv.ParseFloat(text[1:len(text)-1], 64)
	}
	var number json.Number
	f := 0.0
	err := json.Unmarshal(src, &number)
	if err == nil && text[0] != '"' {
		f, err = strconv.ParseFloat(text, bits)
	}
	if err != nil || text[0] == '"' {
		return 0, fmt.Errorf("value: %.40s is not a number of %d bits", src, bits)
	}
	return f, nil
}

func parseInt(src json.RawMessage, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(string(src), 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("value: %.40s is not an integer from %d to %d", src, least, most)
	}
	return n, nil
}
