package exchange

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/pentad-db/pentad/node/internal/strictjson"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

// writeBytes is how much text is gathered before it is written.
const writeBytes = 1 << 16

// ndjsonWriter writes a line with the header, one per record, and one with the end.
type ndjsonWriter struct {
	out     io.Writer
	values  []Value
	buf     []byte
	records int64
}

// NewNDJSONWriter begins a file of lines of JSON.
func NewNDJSONWriter(out io.Writer, h *Header, values []Value) Writer {
	return &ndjsonWriter{out: out, values: values, buf: append(h.Text(), '\n')}
}

func (w *ndjsonWriter) Write(b *record.Batch) error {
	for i := range b.Len() {
		w.buf = append(w.buf, `{"cid":`...)
		w.buf = strconv.AppendInt(w.buf, int64(b.CID[i]), 10)
		w.buf = append(w.buf, `,"mid":`...)
		w.buf = strconv.AppendInt(w.buf, b.MID[i], 10)
		w.buf = append(w.buf, `,"moid":`...)
		w.buf = strconv.AppendInt(w.buf, int64(b.MOID[i]), 10)
		w.buf = append(w.buf, `,"cap":"`...)
		w.buf = AppendTime(w.buf, b.CapNs[i])
		w.buf = append(w.buf, `","acq":"`...)
		w.buf = AppendTime(w.buf, b.AcqNs[i])
		if b.Tomb(i) {
			w.buf = append(w.buf, `","deleted":true}`...)
		} else {
			payload := b.Payload(i)
			w.buf = append(w.buf, `","payload":"`...)
			w.buf = base64.StdEncoding.AppendEncode(w.buf, payload)
			w.buf = append(w.buf, '"')
			w.appendValues(payload)
			w.buf = append(w.buf, '}')
		}
		w.buf = append(w.buf, '\n')
		if err := w.flush(writeBytes); err != nil {
			return err
		}
	}
	w.records += int64(b.Len())
	return nil
}

func (w *ndjsonWriter) appendValues(payload []byte) {
	for i := range w.values {
		v := &w.values[i]
		before := len(w.buf)
		w.buf = append(w.buf, ',', '"')
		w.buf = append(w.buf, v.Name...)
		w.buf = append(w.buf, '"', ':')
		from := len(w.buf)
		if v.Kind == Text {
			if text, ok := v.Text(payload); ok {
				w.buf = appendJSONText(w.buf, text)
			}
		} else {
			var inJSON bool
			if w.buf, inJSON = v.appendNumber(w.buf, payload); !inJSON {
				number := string(w.buf[from:])
				w.buf = append(append(append(w.buf[:from], '"'), number...), '"')
			}
		}
		if len(w.buf) == from {
			w.buf = w.buf[:before]
		}
	}
}

func appendJSONText(dst, text []byte) []byte {
	plain := true
	for _, c := range text {
		plain = plain && c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf
	}
	if plain {
		return append(append(append(dst, '"'), text...), '"')
	}
	quoted, err := json.Marshal(string(text))
	if err != nil {
		panic("BUG: a string is always JSON: " + err.Error())
	}
	return append(dst, quoted...)
}

// flush writes what was gathered when it is at least so much.
func (w *ndjsonWriter) flush(least int) error {
	if len(w.buf) < least {
		return nil
	}
	_, err := w.out.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *ndjsonWriter) Close() error {
	w.buf = append(fmt.Appendf(w.buf, `{"end":{"records":%d}}`, w.records), '\n')
	return w.flush(0)
}

// ndjsonReader reads what ndjsonWriter writes.
type ndjsonReader struct {
	filler
	lines   *lineReader
	times   *timeparse.Layout
	payload []byte // reused
	records int64
	ended   bool
}

// jsonLine is a line of a record, or the one at the end. Other members, values and acq among them,
// are left aside.
type jsonLine struct {
	CID     *int64  `json:"cid"`
	MID     *int64  `json:"mid"`
	MOID    *int64  `json:"moid"`
	Cap     *string `json:"cap"`
	Payload *[]byte `json:"payload"`
	Deleted bool    `json:"deleted"`
	End     *struct {
		Records int64 `json:"records"`
	} `json:"end"`
}

// NewNDJSONReader reads the header of lines of JSON.
func NewNDJSONReader(in *bufio.Reader) (Reader, *Header, error) {
	r := &ndjsonReader{lines: &lineReader{in: in}}
	var err error
	if r.times, err = timeparse.Compile("rfc3339"); err != nil {
		return nil, nil, err
	}
	line, err := r.lines.next()
	if errors.Is(err, io.EOF) {
		return nil, nil, damaged("line 1", "the file is empty; an export has a header")
	}
	if err != nil {
		return nil, nil, err
	}
	if !bytes.Contains(line, []byte(`"pentad_export"`)) {
		return nil, nil,
			&FormatError{"line 1 is not the header of an export; use pentad put for the output " +
				"of pentad get -o ndjson"}
	}
	h, err := ParseHeader(line)
	return r, h, err
}

func (r *ndjsonReader) Next(b *record.Batch) error {
	return r.fill(b, func() error {
		line, err := r.lines.next()
		switch {
		case err == nil && len(line) == 0:
			return nil
		case err == nil && r.ended:
			return r.lines.damaged("text follows the end line")
		case err == nil:
			return r.take(line, b)
		case errors.Is(err, io.EOF) && !r.ended:
			return r.lines.damaged("the file has no end line after %d records: it was truncated",
				r.records)
		}
		return err
	})
}

// take reads one line that is not empty.
func (r *ndjsonReader) take(line []byte, b *record.Batch) error {
	var one row
	if r.own(line, &one) {
		if err := one.appendTo(b); err != nil {
			return r.lines.damaged("%v", err)
		}
		r.records++
		return nil
	}
	return r.takeAny(line, b)
}

// own reads a line as ndjsonWriter writes it, byte for byte, and reports whether it is one.
func (r *ndjsonReader) own(line []byte, one *row) bool {
	rest, ok := line, true
	until := func(before string, after byte) (text []byte) {
		if rest, ok = bytes.CutPrefix(rest, []byte(before)); ok {
			i := bytes.IndexByte(rest, after)
			if ok = i >= 0; ok {
				text, rest = rest[:i], rest[i:]
			}
		}
		return text
	}
	for d, name := range [...]string{`{"cid":`, `,"mid":`, `,"moid":`} {
		text := until(name, ',')
		n, err := strconv.ParseInt(string(text), 10, 64)
		if !ok || err != nil {
			return false
		}
		one.set(record.Dim(d), &n)
	}
	ns, err := parseTime(r.times, until(`,"cap":"`, '"'))
	if !ok || err != nil {
		return false
	}
	one.set(record.Cap, &ns)
	if until(`","acq":"`, '"'); !ok {
		return false
	}
	if string(rest) == `","deleted":true}` {
		one.deleted = true
		return true
	}
	payload := until(`","payload":"`, '"')
	if ok = ok && (string(rest) == `"}` || bytes.HasPrefix(rest, []byte(`","value`)) &&
		rest[len(rest)-1] == '}' && !bytes.Contains(rest, []byte(`"deleted"`))); !ok {
		return false
	}
	r.payload, err = base64.StdEncoding.AppendDecode(r.payload[:0], payload)
	one.payload, one.hasPayload = r.payload, true
	return err == nil
}

// takeAny reads a line as any JSON.
func (r *ndjsonReader) takeAny(line []byte, b *record.Batch) error {
	var l jsonLine
	if err := strictjson.UnmarshalKnown(line, &l); err != nil {
		return r.lines.damaged("not a record in JSON: %v", err)
	}
	if l.End != nil {
		if r.ended = true; l.End.Records != r.records {
			return r.lines.damaged("the end line says %d records, but %d were read",
				l.End.Records, r.records)
		}
		return nil
	}
	var row row
	row.set(record.CID, l.CID)
	row.set(record.MID, l.MID)
	row.set(record.MOID, l.MOID)
	if l.Cap != nil {
		ns, err := parseTime(r.times, []byte(*l.Cap))
		if err != nil {
			return r.lines.damaged("cap: %v", err)
		}
		row.set(record.Cap, &ns)
	}
	if row.deleted = l.Deleted; l.Payload != nil {
		row.payload, row.hasPayload = *l.Payload, true
	}
	if err := row.appendTo(b); err != nil {
		return r.lines.damaged("%v", err)
	}
	r.records++
	return nil
}
