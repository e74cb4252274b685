package csvimport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
)

// file is one file on its way through the importer.
type file struct {
	im    *Importer
	name  string
	lines *lineReader
	split splitter
	plan  *plan
	head  []byte // the text of the header
}

func (f *file) run(ctx context.Context) error {
	f.split.separator, f.split.noQuotes = f.im.mapping.Separator[0], f.im.mapping.NoQuotes
	for range f.im.mapping.SkipLines {
		if _, err := f.lines.next(); errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: the file has %d lines, and skip_lines is %d", f.name,
				f.lines.number, f.im.mapping.SkipLines)
		} else if err != nil && !errors.Is(err, errLongLine) {
			return f.atEnd(err)
		}
	}
	if !f.im.mapping.NoHeader {
		if err := f.readHeader(); err != nil {
			return err
		}
	}
	f.im.marks.head = int64(f.lines.number)
	for {
		line, err := f.lines.next()
		number := f.lines.number
		if stop := ended(ctx, number); stop != nil {
			return stop
		}
		if errors.Is(err, errLongLine) {
			f.im.summary.Lines++
			err = f.im.reject(&RejectError{f.name, number, number, "size", err.Error()}, line)
		} else if err != nil {
			return f.atEnd(err)
		} else if len(line) > 0 {
			err = f.line(line, number)
		}
		if err == nil && f.im.pending.Len() >= batchRecords {
			err = f.im.flush(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (f *file) atEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("read %s after line %d: %w", f.name, f.lines.number, err)
}

// excelSeparator is a line that only Excel reads.
var excelSeparator = regexp.MustCompile(`^"?sep=(.)"?$`)

// readHeader plans the columns by the header line.
func (f *file) readHeader() error {
	line, err := f.lines.next()
	number := f.lines.number
	switch {
	case errors.Is(err, io.EOF) && f.im.mapping.Own:
		return nil
	case errors.Is(err, io.EOF) && number == 0:
		return fmt.Errorf("%s: the file is empty: it has no header line", f.name)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: the file ends at line %d, before the header", f.name, number)
	case err != nil && !errors.Is(err, errLongLine):
		return f.atEnd(err)
	case err == nil && excelSeparator.Match(line) && !f.im.mapping.Own:
		s := string(excelSeparator.FindSubmatch(line)[1])
		return fmt.Errorf("%s line %d: %s names the separator for Excel; set skip_lines: %d and "+
			"separator: %q (--skip-lines %d --separator '%s')", f.name, number, line, number, s,
			number, s)
	case err == nil && bytes.IndexByte(line, 0) >= 0:
		return fmt.Errorf("%s line %d: the header has a NUL byte: the file is not text", f.name,
			number)
	case err == nil && len(bytes.TrimSpace(line)) == 0 && !f.im.mapping.Own:
		return fmt.Errorf("%s line %d: the header is a blank line; pass over it with skip_lines "+
			"(--skip-lines)", f.name, number)
	}
	var fields [][]byte
	if err == nil {
		fields, line, err = f.split.record(line, f.lines)
		f.head = slices.Clone(line)
	}
	if f.lines.ending != "\n" && f.lines.ending != "\r\n" &&
		bytes.IndexByte(bytes.TrimRight(line, "\r"), '\r') >= 0 {
		return fmt.Errorf("%s: lines end in CR alone; convert the file, e.g. tr '\\r' '\\n'",
			f.name)
	}
	if isQuotes(err) {
		return fmt.Errorf("%s line %d: header: %s", f.name, number, f.quotes(err))
	}
	if err != nil {
		return fmt.Errorf("%s line %d: header: %w", f.name, number, err)
	}
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = string(bytes.TrimSpace(field))
	}
	err = f.makePlan(newHeader(names), fields)
	if err != nil && !utf8.Valid(f.head) {
		err = fmt.Errorf("%w; the header is not UTF-8: %s", err, convertHint)
	}
	return err
}

// makePlan plans the columns by the header, and by the fields of the first line.
func (f *file) makePlan(h *header, fields [][]byte) error {
	fieldCount := len(fields)
	if f.im.mapping.ExpectFields > 0 {
		fieldCount = f.im.mapping.ExpectFields
	}
	if err := f.im.mapping.valuesOf(h); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	p, err := newPlan(f.im, h, fieldCount, filepath.Base(f.name))
	if err != nil && len(fields) == 1 {
		if s := otherSeparator(fields[0]); s != "" {
			err = fmt.Errorf("the file seems to be separated by %q: give --separator %q, or "+
				"separator: %q in the mapping", s, s, s)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	f.plan, f.split.expect = p, fieldCount
	return nil
}

// line stores one line whole or rejects it.
func (f *file) line(line []byte, number int) error {
	fields, text, err := f.split.record(line, f.lines)
	if err == nil && f.plan == nil {
		if err := f.makePlan(newHeader(nil), fields); err != nil {
			return err
		}
	}
	last := f.lines.number
	if err != nil {
		if !isQuotes(err) {
			return f.atEnd(err)
		}
		f.im.summary.Lines += int64(last - number + 1)
		return f.im.reject(&RejectError{f.name, number, last, "quotes", f.quotes(err)}, text)
	}
	f.im.summary.Lines++
	if bad := f.plan.line(fields); bad != nil {
		f.im.summary.Lines += int64(last - number)
		if len(f.head) > 0 && bytes.Equal(text, f.head) {
			bad = &problem{"header", "the header again; are these several files in one?"}
		}
		return f.im.reject(&RejectError{f.name, number, last, bad.kind, bad.reason}, text)
	}
	f.im.store(f.plan, number, last)
	return nil
}

func isQuotes(err error) bool { return err == errQuote || err == errOpen || err == errStray }

// quotes says what is wrong with the quotes of a record.
func (f *file) quotes(err error) string {
	h := &header{}
	if f.plan != nil {
		h = f.plan.header
	}
	text := fmt.Sprintf("quotes: %s: %v", h.title(f.split.bad), err)
	if err == errStray {
		text += "; put the field in quotes and double the quotes in it"
		if !f.im.mapping.Own {
			text += ", or set no_quotes: true (--no-quotes), by which quotes are text"
		}
	}
	return text
}

// header finds columns by name.
type header struct {
	names []string
	index map[string]int // -1: the name occurs twice
}

func newHeader(names []string) *header {
	h := &header{names: append([]string(nil), names...), index: make(map[string]int, len(names))}
	for i, name := range h.names {
		if _, twice := h.index[name]; twice {
			h.index[name] = -1
		} else {
			h.index[name] = i
		}
	}
	return h
}

// column returns the index, from 0, of a column named or numbered from 1.
func (h *header) column(reference string, fieldCount int) (int, error) {
	if i, ok := h.index[reference]; ok {
		if i < 0 {
			return 0, fmt.Errorf("column %q occurs twice in the header; use its number, %s",
				reference, h.numbers(reference))
		}
		return i, nil
	}
	if n, err := strconv.Atoi(reference); err == nil {
		if n < 1 || n > fieldCount {
			return 0, fmt.Errorf("column %d: lines have %d", n, fieldCount)
		}
		return n - 1, nil
	}
	if len(h.names) == 0 {
		return 0, fmt.Errorf("column %q: there is no header line; use its number from 1", reference)
	}
	names := slices.Sorted(maps.Keys(h.index)) // each once
	return 0, fmt.Errorf("column %q is not in the header%s; it has %s", reference,
		excerpt.DidYouMean(reference, names), columnList(reference, h.names))
}

// columnList lists columns by how near they are to the name of one that is not there.
func columnList(reference string, names []string) string {
	const most, maxBytes = 20, 40
	var list []string
	for _, name := range excerpt.Nearest(reference, names)[:min(len(names), most)] {
		list = append(list, excerpt.Of(name, maxBytes))
	}
	text := strings.Join(list, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// otherSeparator returns what seems to separate a line that is one field, "" for nothing.
func otherSeparator(line []byte) string {
	best, count := "", 0
	for _, separator := range []string{",", ";", "\t", "|"} {
		if n := bytes.Count(line, []byte(separator)); n > count {
			best, count = separator, n
		}
	}
	switch {
	case best == "\t":
		return "tab"
	case best == "" && bytes.IndexByte(line, ' ') >= 0:
		return " "
	}
	return best
}

// numbers are those of the columns of a name: "3 or 4".
func (h *header) numbers(name string) string {
	var all []string
	for i, other := range h.names {
		if other == name {
			all = append(all, strconv.Itoa(i+1))
		}
	}
	return strings.Join(all, " or ")
}

func (h *header) name(index int) string {
	if index < len(h.names) {
		return h.names[index]
	}
	return ""
}

func clip(text []byte) string { return excerpt.Of(text, 60) }

func dimLimit(d record.Dim, n int64) error {
	if n < d.Min() || n >= d.Max() {
		return fmt.Errorf("%s: %d is outside %d to %d", d, n, d.Min(), d.Max()-1)
	}
	return nil
}
