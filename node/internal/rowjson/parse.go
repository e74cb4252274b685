package rowjson

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/internal/strictjson"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

// Posted is a record as people write it, for the description of the routes; [Parser] reads it.
type Posted struct {
	CID   *int32          `json:"cid,omitzero"`
	MID   *int64          `json:"mid,omitzero"`
	MOID  *int32          `json:"moid,omitzero"`
	Cap   json.RawMessage `json:"cap,omitzero"`
	CapNs *int64          `json:"cap_ns,omitzero"` // stands for cap, as in an answer
	// Acq and AcqNs are of an answer; they are left aside, as pentad gives new ones.
	Acq     json.RawMessage `json:"acq,omitzero"`
	AcqNs   json.RawMessage `json:"acq_ns,omitzero"`
	Value   json.RawMessage `json:"value,omitzero"`
	Payload *string         `json:"payload,omitzero"`
	Deleted bool            `json:"deleted,omitzero"` // a tombstone, without value and payload
	// Names in place of cid, mid and moid.
	Tenant   *string `json:"tenant,omitzero"`
	Device   *string `json:"device,omitzero"`
	Quantity *string `json:"quantity,omitzero"`
}

// memberNames are the members of a posted record, as those of [Posted].
var memberNames = [...]string{"cid", "mid", "moid", "cap", "cap_ns", "acq", "acq_ns", "value",
	"payload", "deleted", "tenant", "device", "quantity"}

const (
	memberCID = iota
	memberMID
	memberMOID
	memberCap
	memberCapNs
	memberAcq
	memberAcqNs
	memberValue
	memberPayload
	memberDeleted
	memberTenant
	memberDevice
	memberQuantity
)

// Names finds the numbers of names.
type Names interface {
	Tenant(name string) (int32, error)
	Device(cid int32, name string) (int64, error)
	Quantity(name string) (int32, error)
}

// Parser reads posted records, one after another. It is not for many goroutines.
type Parser struct {
	payloads quantity.Types
	now      time.Time
	reader   strictjson.Reader

	// Names are asked for names in place of numbers, which are refused without them.
	Names Names

	// Of the record that is read.
	out     record.Record
	has     [len(memberNames)]bool // those that are not null
	seen    [len(memberNames)]bool
	cap     []byte // as JSON, as value
	value   []byte
	payload []byte
	names   [3]string // of tenant, device and quantity
}

// NewParser returns a parser for records whose payloads are of these types. A cap may be relative
// to now.
func NewParser(payloads quantity.Types, now time.Time) *Parser {
	return &Parser{payloads: payloads, now: now}
}

// Parse reads one record: cap as RFC 3339 or integer ns, the payload in base64 or a value of the
// type of its quantity. The payload is valid until the next call.
func (p *Parser) Parse(src []byte) (out record.Record, err error) {
	p.out, p.payload = record.Record{}, p.payload[:0]
	clear(p.has[:])
	clear(p.seen[:])
	if err := p.reader.Object(src, p.member); err != nil {
		return out, jsonError(err)
	}
	if err := p.replaceNames(); err != nil {
		return out, err
	}
	if !p.has[memberCID] || !p.has[memberMID] || !p.has[memberMOID] ||
		!p.has[memberCap] && !p.has[memberCapNs] {
		return out, errors.New("cid, mid, moid and cap must be there")
	}
	if !p.has[memberCapNs] {
		if p.out.CapNs, err = parseCap(p.cap, p.now); err != nil {
			return out, fmt.Errorf("cap: %w", err)
		}
	}
	out = p.out
	hasValue, hasPayload := p.has[memberValue], p.has[memberPayload]
	switch {
	case out.Tomb && (hasValue || hasPayload):
		return out, errors.New("a deleted record must not have a payload or value")
	case out.Tomb:
		return out, nil
	case hasValue == hasPayload:
		return out, errors.New("either payload (base64) or value must be there")
	case hasPayload:
		out.Payload = p.payload
		if err = p.payloads.Check(out.MOID, out.Payload); err != nil {
			err = fmt.Errorf("%w; add ?type=base64 to store it as it is", err)
		}
		return out, err
	}
	kind := p.payloads.Of(out.MOID)
	q := quantity.Struct(p.payloads, out.MOID)
	switch {
	case q != nil && p.value[0] == '{':
		if out.Payload, err = quantity.AppendObject(p.payload, q, p.value); err != nil {
			err = fmt.Errorf("value: %w", err)
		}
	case q != nil:
		err = fmt.Errorf("value: %s has several fields; give them as an object, or payload in "+
			"base64", quantity.Label(q))
	case kind.Raw():
		err = fmt.Errorf("quantity %d is not declared as a number or text: declare it, or "+
			"add ?type=f64, i64 or text", out.MOID)
	default:
		out.Payload, err = appendValue(p.payload, p.value, kind)
	}
	if err != nil {
		return out, err
	}
	p.payload = out.Payload[:0]
	return out, nil
}

// member takes a member of the record. One that is null is not there.
func (p *Parser) member(name, value []byte) (err error) {
	at := memberOf(name)
	if at < 0 {
		return fmt.Errorf("unknown field %.80q", name)
	}
	if p.seen[at] {
		return &strictjson.DoubledKeyError{Key: string(name)}
	}
	p.seen[at] = true
	if value[0] == 'n' {
		return nil
	}
	p.has[at] = true
	var n int64
	switch at {
	case memberCID:
		n, err = parseID(at, value, 32)
		p.out.CID = int32(n)
	case memberMID:
		p.out.MID, err = parseID(at, value, 64)
	case memberMOID:
		n, err = parseID(at, value, 32)
		p.out.MOID = int32(n)
	case memberCapNs:
		p.out.CapNs, err = parseID(at, value, 64)
	case memberCap:
		p.cap = append(p.cap[:0], value...)
	case memberValue:
		p.value = append(p.value[:0], value...)
	case memberPayload:
		err = p.takePayload(value)
	case memberTenant, memberDevice, memberQuantity:
		p.names[at-memberTenant], err = textOf(at, value)
	case memberDeleted:
		if p.out.Tomb = value[0] == 't'; !p.out.Tomb && value[0] != 'f' {
			err = strictjson.WrongType(memberNames[at], value, "bool")
		}
	}
	return err
}

// memberOf returns the number of a member, -1 if there is none. Upper and lower case are one.
func memberOf(name []byte) int {
	for i, known := range memberNames {
		if string(name) == known {
			return i
		}
	}
	return slices.IndexFunc(memberNames[:], func(known string) bool {
		return strings.EqualFold(string(name), known)
	})
}

func parseID(member int, value []byte, bits int) (int64, error) {
	n, err := strconv.ParseInt(string(value), 10, bits)
	if err != nil {
		return 0, strictjson.WrongType(memberNames[member], value, fmt.Sprintf("int%d", bits))
	}
	return n, nil
}

func (p *Parser) takePayload(value []byte) (err error) {
	var text []byte
	if strictjson.Plain(value) {
		text = value[1 : len(value)-1]
	} else if text, err = strictjson.AppendText(nil, "payload", value); err != nil {
		return err
	}
	if p.payload, err = base64.StdEncoding.AppendDecode(p.payload, text); err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	return nil
}

// jsonError says of a value that is not an object what a record is.
func jsonError(err error) error {
	var wrong *strictjson.TypeError
	if errors.As(err, &wrong) && wrong.Member == "" {
		return fmt.Errorf("a record is a JSON object, this is a JSON %s", wrong.Value)
	}
	return err
}

// parseCap reads a time that is not a span: a date would be a guess of midnight.
func parseCap(src []byte, now time.Time) (int64, error) {
	if src[0] != '"' {
		ns, err := strconv.ParseInt(string(src), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%.40s is neither a time in quotes nor whole ns since 1970", src)
		}
		return ns, nil
	}
	text := string(src[1 : len(src)-1])
	if !strictjson.Plain(src) {
		unquoted, err := strictjson.AppendText(nil, "cap", src)
		if text = string(unquoted); err != nil {
			return 0, err
		}
	}
	at, err := timeparse.Parse(text, now)
	if err == nil && at.ToNs != at.FromNs+1 {
		err = fmt.Errorf("%q is a time span; add the time of day", text)
	}
	return at.FromNs, err
}

// appendValue appends the payload that a JSON value stands for.
func appendValue(dst, src []byte, kind quantity.Type) ([]byte, error) {
	little := binary.LittleEndian
	switch kind {
	case quantity.F64:
		f, err := parseFloat(src, 64)
		return little.AppendUint64(dst, math.Float64bits(f)), err
	case quantity.F32:
		f, err := parseFloat(src, 32)
		return little.AppendUint32(dst, math.Float32bits(float32(f))), err
	case quantity.I64:
		n, err := parseInt(src, math.MinInt64, math.MaxInt64)
		return little.AppendUint64(dst, uint64(n)), err
	case quantity.I32:
		n, err := parseInt(src, math.MinInt32, math.MaxInt32)
		return little.AppendUint32(dst, uint32(n)), err
	case quantity.U32:
		n, err := parseInt(src, 0, math.MaxUint32)
		return little.AppendUint32(dst, uint32(n)), err
	}
	if src[0] != '"' {
		return dst, fmt.Errorf("value: %.40s is not a string", src)
	}
	return strictjson.AppendText(dst, "value", src)
}

// parseFloat reads a number, or one of those that JSON does not have, as answers write them.
func parseFloat(src []byte, bits int) (float64, error) {
	switch string(src) {
	case `"NaN"`, `"+Inf"`, `"-Inf"`:
		return strconv.ParseFloat(string(src[1:len(src)-1]), 64)
	}
	if c := src[0]; c == '-' || c >= '0' && c <= '9' {
		if f, err := strconv.ParseFloat(string(src), bits); err == nil {
			return f, nil
		}
	}
	return 0, fmt.Errorf("value: %.40s is not a number of %d bits", src, bits)
}

func parseInt(src []byte, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(string(src), 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("value: %.40s is not an integer from %d to %d", src, least, most)
	}
	return n, nil
}
