package input

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/internal/strictjson"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

// Line is one record as get writes it. Acq is read and left aside.
type Line struct {
	CID        *int64          `json:"cid"`
	MID        *int64          `json:"mid"`
	MOID       *int64          `json:"moid"`
	Cap        json.RawMessage `json:"cap"`
	CapNs      *int64          `json:"cap_ns"`
	Acq        json.RawMessage `json:"acq"`
	AcqNs      json.RawMessage `json:"acq_ns"`
	Value      json.RawMessage `json:"value"`
	Payload    *string         `json:"payload"`
	PayloadHex *string         `json:"payload_hex"`
	Deleted    bool            `json:"deleted"`

	// Names in place of numbers.
	Tenant   *string `json:"tenant"`
	Device   *string `json:"device"`
	Quantity *string `json:"quantity"`
}

// DecodeLine reads one line of ndjson and its key. Members that it does not know are errors.
func DecodeLine(line []byte) (in Line, key record.Key, err error) {
	return decodeLine(context.Background(), line, nil)
}

func decodeLine(
	ctx context.Context, line []byte, names Names,
) (in Line, key record.Key, err error) {
	err = strictjson.Unmarshal(line, &in)
	if wrong := (*strictjson.TypeError)(nil); names != nil && errors.As(err, &wrong) {
		if named := moveNames(line); named != nil {
			in = Line{}
			err = strictjson.Unmarshal(named, &in)
		}
	}
	if err != nil {
		return in, key, fmt.Errorf("not a record in JSON: %w%s", err, exampleFor(line))
	}
	if err := in.replaceNames(ctx, names); err != nil {
		return in, key, err
	}
	key, err = in.Key()
	return in, key, err
}

// exampleFor returns what to write in place of a line that is not meant as JSON.
func exampleFor(line []byte) string {
	if bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) {
		return ""
	}
	return `; a record is {"cid":1,"mid":42,"moid":7,"cap":"2026-03-03T12:00:00Z","value":21.5}`
}

// ParseLine reads one line of ndjson. A payload has to fit its quantity.
func ParseLine(line []byte, types quantity.Types) (record.Record, error) {
	return parseLine(context.Background(), line, types, nil)
}

func parseLine(
	ctx context.Context, line []byte, types quantity.Types, names Names,
) (record.Record, error) {
	in, key, err := decodeLine(ctx, line, names)
	r := record.Record{Key: key, Tomb: in.Deleted}
	if err != nil {
		return r, err
	}
	var b record.Batch
	if r.Tomb {
		if in.hasValue() || in.Payload != nil || in.PayloadHex != nil {
			return r, errors.New("a deleted record must not have a value or payload")
		}
		b.AppendTomb(key)
		return r, b.Validate()
	}
	if r.Payload, err = in.payload(types, key.MOID); err != nil {
		return r, err
	}
	b.Append(key, r.Payload)
	return r, b.Validate()
}

// ParseKeyLine reads the key of a line, and leaves the value aside. Names may be nil.
func ParseKeyLine(ctx context.Context, line []byte, names Names) (record.Key, error) {
	_, key, err := decodeLine(ctx, line, names)
	if err != nil {
		return key, err
	}
	var b record.Batch
	b.AppendTomb(key)
	return key, b.Validate()
}

func (in *Line) hasValue() bool { return len(in.Value) > 0 && string(in.Value) != "null" }

// Key returns the key of the record.
func (in *Line) Key() (key record.Key, err error) {
	for d, n := range []*int64{in.CID, in.MID, in.MOID} {
		d := record.Dim(d)
		switch {
		case n == nil:
			return key, fmt.Errorf("%s is missing", d)
		case *n < d.Min() || *n >= d.Max():
			return key, fmt.Errorf("%s: %d is outside %d to %d", d, *n, d.Min(), d.Max()-1)
		}
	}
	key = record.Key{CID: int32(*in.CID), MID: *in.MID, MOID: int32(*in.MOID)}
	if in.CapNs != nil {
		key.CapNs = *in.CapNs
		return key, nil
	}
	if len(in.Cap) == 0 {
		return key, errors.New("cap is missing")
	}
	text := string(in.Cap)
	if text[0] == '"' {
		if err := json.Unmarshal(in.Cap, &text); err != nil {
			return key, fmt.Errorf("cap: %w", err)
		}
	}
	layout, err := timeparse.Compile("rfc3339")
	if err != nil {
		return key, err
	}
	key.CapNs, err = layout.Parse([]byte(text))
	switch {
	case errors.Is(err, timeparse.ErrNeedsFormat):
		return key, fmt.Errorf("cap: time %.40q is neither RFC 3339 with an offset nor whole ns; "+
			"write 2026-03-03T12:00:00Z, or use pentad import csv, which reads other formats",
			text)
	case err != nil:
		return key, fmt.Errorf("cap: %w", err)
	}
	return key, nil
}

func (in *Line) payload(types quantity.Types, moid int32) (payload []byte, err error) {
	hasValue := in.hasValue()
	switch {
	case hasValue && (in.Payload != nil || in.PayloadHex != nil):
		return nil, errors.New("value and payload are both given")
	case in.Payload != nil:
		if payload, err = base64.StdEncoding.DecodeString(*in.Payload); err != nil {
			return nil, errors.New("payload is not base64")
		}
		return checked(types, moid, payload)
	case in.PayloadHex != nil:
		if payload, err = quantity.Hex.Append(nil, *in.PayloadHex); err != nil {
			return nil, err
		}
		return checked(types, moid, payload)
	case !hasValue:
		return nil, errors.New("value or payload is missing")
	}
	text := string(in.Value)
	if text[0] == '"' {
		if err := json.Unmarshal(in.Value, &text); err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
	}
	if payload, err = quantity.Read(nil, types, moid, text); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	return payload, nil
}

// checked returns a payload that fits its quantity.
func checked(types quantity.Types, moid int32, payload []byte) ([]byte, error) {
	if err := types.Check(moid, payload); err != nil {
		return nil, fmt.Errorf("%w; --type base64 stores it as it is", err)
	}
	return payload, nil
}
