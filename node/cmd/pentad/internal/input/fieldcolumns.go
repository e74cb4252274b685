package input

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
)

// fieldColumns reads CSV whose header has fields of structs in place of a column of values, and
// gives them that column: a JSON object of the cells that are not empty. Each record begins at the
// line where it was, which errors name.
type fieldColumns struct {
	in     *csv.Reader
	fields map[int]string // by column
	cells  int            // of a line
	line   int            // that is written next, from 1
	out    bytes.Buffer
	err    error // of in
}

// fieldPrefix may be in front of the name of a field, as in files of export.
const fieldPrefix = "value_"

// withFields returns what reads a CSV file with a column of values.
func withFields(source io.Reader) io.Reader {
	in := bufio.NewReader(SkipByteOrderMark(source))
	first, err := in.ReadString('\n')
	rest := io.MultiReader(strings.NewReader(first), in)
	if err != nil && !errors.Is(err, io.EOF) {
		return io.MultiReader(strings.NewReader(first), failingReader{err})
	}
	header, err := csv.NewReader(strings.NewReader(first)).Read()
	if err != nil {
		return rest // the import says what is wrong
	}
	f := &fieldColumns{in: csv.NewReader(rest), fields: map[int]string{}, cells: len(header),
		line: 1}
	f.in.FieldsPerRecord = -1
	for i, name := range header {
		switch name = strings.TrimSpace(name); name {
		case "value", "payload", "payload_hex":
			return rest
		case "cid", "mid", "moid", "cap", "acq", "tenant", "device", "quantity", "deleted", "":
		default:
			if !strings.HasSuffix(name, "_ns") {
				f.fields[i] = strings.TrimPrefix(name, fieldPrefix)
			}
		}
	}
	if len(f.fields) == 0 {
		return rest
	}
	return f
}

type failingReader struct{ err error }

// Read implements io.Reader.
func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// Read implements io.Reader.
func (f *fieldColumns) Read(dst []byte) (int, error) {
	for f.out.Len() == 0 && f.err == nil {
		f.err = f.next()
	}
	if f.out.Len() == 0 {
		return 0, f.err
	}
	return f.out.Read(dst)
}

// next adds the value of a line.
func (f *fieldColumns) next() error {
	cells, err := f.in.Read()
	if err != nil {
		return err
	}
	line, _ := f.in.FieldPos(0)
	header := f.line == 1
	for ; f.line < line; f.line++ {
		f.out.WriteByte('\n')
	}
	switch {
	case header:
		cells = append(slices.Clone(cells), "value")
	case len(cells) == f.cells: // else the import rejects it
		cells = append(slices.Clone(cells), f.object(cells))
	}
	from := f.out.Len()
	w := csv.NewWriter(&f.out)
	if err := w.Write(cells); err != nil {
		return err
	}
	w.Flush()
	f.line += bytes.Count(f.out.Bytes()[from:], []byte{'\n'})
	return w.Error()
}

// object is the value of a line, empty if no field has one.
func (f *fieldColumns) object(cells []string) string {
	values := map[string]string{}
	for i, name := range f.fields {
		if cells[i] != "" {
			values[name] = cells[i]
		}
	}
	if len(values) == 0 {
		return ""
	}
	text, err := json.Marshal(values)
	if err != nil {
		panic("BUG: texts are always JSON: " + err.Error())
	}
	return string(text)
}
