package node

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/strictjson"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// forJSON converts values that JSON cannot represent to text: some numbers, and times.
func forJSON(v any) any {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
	case plugin.Moment:
		return record.FormatNs(int64(v))
	case []any:
		for i := range v {
			v[i] = forJSON(v[i])
		}
	}
	return v
}

// jsonRecord is a record as people write it.
type jsonRecord struct {
	CID     *int32          `json:"cid"`
	MID     *int64          `json:"mid"`
	MOID    *int32          `json:"moid"`
	Cap     json.RawMessage `json:"cap"`
	CapNs   *int64          `json:"cap_ns"` // stands for cap, as in an answer
	Acq     json.RawMessage `json:"acq"`    // of an answer; left aside, as pentad gives a new one
	AcqNs   json.RawMessage `json:"acq_ns"`
	Value   json.RawMessage `json:"value"`
	Payload *string         `json:"payload"`
	Deleted bool            `json:"deleted"` // a tombstone, without value and payload
}

type rejected struct {
	Line    int    `json:"line"`
	Message string `json:"message"`
}

// maxRejectedShown bounds the list of rejected records in an answer.
const maxRejectedShown = 100

// parseRecord reads one record: cap as RFC 3339 or integer ns, the payload in base64 or a value of
// the declared type.
func parseRecord(src []byte, kind payloadType, now time.Time) (out record.Record, err error) {
	var r jsonRecord
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
			return out, errors.New("what is deleted has neither payload nor value")
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
		return out, nil
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
	return fmt.Errorf("%s: %s is no %s", wrong.Field, wrong.Value, wrong.Type)
}

// parseCap reads a time that is one moment: a date would be a guess of midnight.
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
		err = fmt.Errorf("%q is more than a moment; add the time of day", text)
	}
	return at.FromNs, err
}

func parseValue(src json.RawMessage, kind payloadType) ([]byte, error) {
	switch kind {
	case payloadF64:
		var f float64
		switch err := json.Unmarshal(src, &f); string(src) {
		case `"NaN"`, `"+Inf"`, `"-Inf"`: // as forJSON writes them
			f, _ = strconv.ParseFloat(string(src[1:len(src)-1]), 64) // one of these three
		default:
			if err != nil {
				return nil, fmt.Errorf("value: %.40s is not a number", src)
			}
		}
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)), nil
	case payloadI64:
		n, err := strconv.ParseInt(string(src), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("value: %.40s is not an integer", src)
		}
		return binary.LittleEndian.AppendUint64(nil, uint64(n)), nil
	case payloadText:
		var text string
		if err := json.Unmarshal(src, &text); err != nil {
			return nil, fmt.Errorf("value: %.40s is not a string", src)
		}
		return []byte(text), nil
	default:
		return nil, errors.New("a value needs a declared type: ?type=f64, i64 or text")
	}
}

// splitRecords returns the records of a body, an array, an object or lines, with line numbers.
func splitRecords(body []byte) (records [][]byte, lines []int, err error) {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) {
		return [][]byte{trimmed}, []int{1}, nil // one record, maybe on many lines
	}
	if len(trimmed) > 0 && trimmed[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(trimmed, &list); err != nil {
			return nil, nil, err
		}
		for i, r := range list {
			records, lines = append(records, r), append(lines, i+1)
		}
		return records, lines, nil
	}
	number := 0
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		number++
		if line = bytes.TrimSpace(line); len(line) > 0 {
			records, lines = append(records, line), append(lines, number)
		}
	}
	return records, lines, nil
}

// withoutRow leaves the row out of an error whose line is told.
func withoutRow(err error) error {
	var invalid *record.InvalidError
	if errors.As(err, &invalid) {
		invalid.Row = -1
	}
	return err
}

// postRecords stores valid records and lists invalid ones; with atomic=1 it stores all or none.
func (s *server) postRecords(ctx *fasthttp.RequestCtx) {
	var atomic bool
	kind, err := parsePayloadType(ctx)
	if err == nil {
		atomic, err = params.Flag(ctx.QueryArgs(), "atomic")
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	if err := httpserver.Needs(ctx, uint64(len(ctx.PostBody()))); err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	records, lines, err := splitRecords(ctx.PostBody())
	if err == nil && len(records) == 0 {
		err = errors.New("it holds none")
	}
	if err != nil {
		httpserver.WriteError(ctx, &wire.Error{Kind: wire.KindInvalid, Part: "body",
			Message: fmt.Sprintf(
				"body is not a JSON record, an array of them or one a line: %v", err)})
		return
	}
	var b record.Batch
	bad := []rejected{}
	good := make([]int, 0, len(records)) // lines of what b has
	now := s.node.now()
	for i, src := range records {
		r, err := parseRecord(src, kind, now)
		if err == nil {
			one := record.Batch{CID: []int32{r.CID}, MID: []int64{r.MID}, MOID: []int32{r.MOID},
				CapNs: []int64{r.CapNs}, Stride: len(r.Payload), Data: r.Payload}
			err = withoutRow(one.Validate())
		}
		if err != nil {
			bad = append(bad, rejected{lines[i], err.Error()})
			continue
		}
		b.AppendRecord(r)
		good = append(good, lines[i])
	}
	if len(bad) > 0 && (atomic || b.Len() == 0) {
		httpserver.WriteError(ctx, &wire.Error{Kind: wire.KindInvalid, Part: "body",
			Message: fmt.Sprintf(
				"nothing is stored: %d of %d records are wrong, first on line %d: %s",
				len(bad), len(records), bad[0].Line, bad[0].Message)})
		return
	}
	s.store(ctx, &b, good, bad, atomic)
}

// store stores the records of some lines of a body.
func (s *server) store(
	ctx *fasthttp.RequestCtx, b *record.Batch, lines []int, bad []rejected, atomic bool,
) {
	if atomic && b.Len() > record.MaxBatchRecords {
		httpserver.WriteError(ctx, &wire.Error{Kind: wire.KindTooLarge, Message: fmt.Sprintf(
			"%d records at once, at most %d with atomic=1", b.Len(), record.MaxBatchRecords)})
		return
	}
	// Under a writer, so that all of it can be sent again where the outcome is unknown.
	w := s.node.writerPool.take()
	keyed := false
	if key := ctx.Request.Header.Peek("Idempotency-Key"); len(key) > 0 {
		s.node.writerPool.give(w)
		var err error
		if w, err = parseKey(string(key)); err != nil {
			httpserver.WriteError(ctx, toWire(err))
			return
		}
		keyed = true
	}
	rc, cancel := s.context()
	defer cancel()
	written, last, duplicate := 0, int64(0), true
	for rest, part := b, 0; rest.Len() > 0; part++ {
		some := rest.Head(min(rest.Len(), record.MaxBatchRecords))
		res, err := s.node.Put(rc, some, partOf(w, part))
		if err != nil {
			e := restOf(err, written, some.Len(), b.Len(), keyed)
			e.writer = w
			httpserver.WriteError(ctx, e.toWire(func(row int) int { return lines[row] }))
			return
		}
		if res.Records != some.Len() {
			httpserver.WriteError(ctx, otherBody(res.Records, some.Len()))
			return
		}
		written, last, duplicate = written+some.Len(), res.LastAcqNs, duplicate && res.Duplicate
		rest = tail(rest, some.Len())
	}
	if !keyed {
		s.node.writerPool.give(w)
	}
	httpserver.WriteJSON(ctx, map[string]any{"written": written, "rejected": len(bad),
		"rejects": bad[:min(len(bad), maxRejectedShown)], "duplicate": duplicate,
		"acq_ns": last, "acq": record.FormatNs(last)})
}

// otherBody is the error of a body under a key that another one was stored under.
func otherBody(stored, rows int) *wire.Error {
	return &wire.Error{Kind: wire.KindInvalid, Part: "Idempotency-Key", Message: fmt.Sprintf(
		"this key was used before, with another body: there are %d records where %d are stored; "+
			"these stay, and nothing of this body is stored; use another key", rows, stored)}
}

// restOf is the error of a body of which the rows before a put that failed are stored and those
// behind it are not. Under a key of the client, which may have sent them before without seeing the
// answer, these are unknown.
func restOf(err error, before, failed, rows int, keyed bool) *PutError {
	e := &PutError{fates: make([]fate, rows), Err: err}
	for i := before; i < before+failed; i++ {
		e.fates[i] = fateOf(err, false)
	}
	for i := before + failed; i < rows; i++ {
		e.fates[i] = rowNotStored
	}
	var some *PutError
	if errors.As(err, &some) {
		e.Err = some.Err
		copy(e.fates[before:], some.fates)
	}
	for i, f := range e.fates {
		if keyed && f == rowNotStored {
			e.fates[i] = rowUnknown
		}
	}
	return e
}
