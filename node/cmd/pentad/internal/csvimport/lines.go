package csvimport

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

const (
	// maxLineBytes bounds one line: a row of thousands of columns fits, a binary file does not.
	maxLineBytes = 1 << 20
	// maxQuotedLines bounds the lines of one quoted record, so that a quote that is never closed
	// costs a hundred lines and not the file.
	maxQuotedLines = 100
	// An open quote is also found by this many lines in succession that are records by themselves:
	// without a quote, and with as many fields as all lines. With two fields, prose may be so.
	maxOpenRecords, leastOpenFields = 3, 3
)

var (
	errLongLine = fmt.Errorf("line is longer than %d bytes", maxLineBytes)
	errQuote    = errors.New("text follows a closing quote")
	errOpen     = errors.New("a quoted field is not closed")
	errStray    = errors.New("a quote inside a field that does not begin with one")
)

// Decompress returns what r holds, plain or gzip. It looks at the first bytes, not at a name, which
// a pipe does not have.
func Decompress(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, 1<<18)
	magic, err := buffered.Peek(2)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(magic) < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
		return buffered, nil
	}
	return gzip.NewReader(buffered)
}

// lineReader yields lines without their ends, and without a byte order mark on the first.
type lineReader struct {
	in     *bufio.Reader
	number int    // of the line that was read last, from 1
	ending string // of that line: "\n", "\r\n"; "\r" or "" where the file ends
	long   []byte // reused for lines that do not fit into the buffer
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, 1<<16)}
}

// next returns a line that is valid until the next call, io.EOF after the last, or errLongLine
// having passed over a line that is too long.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		line, err = l.readLong(line)
	}
	if err != nil && err != io.EOF && err != errLongLine {
		return nil, err
	}
	if len(line) == 0 && err == io.EOF {
		return nil, io.EOF
	}
	l.number++
	if err == errLongLine {
		return line, err
	}
	line = l.cutEnding(line)
	if l.number == 1 {
		line = bytes.TrimPrefix(line, []byte(byteOrderMark))
	}
	return line, nil
}

func (l *lineReader) cutEnding(line []byte) []byte {
	for _, l.ending = range [...]string{"\r\n", "\n", "\r"} {
		if text, ok := bytes.CutSuffix(line, []byte(l.ending)); ok {
			return text
		}
	}
	l.ending = ""
	return line
}

func (l *lineReader) readLong(start []byte) ([]byte, error) {
	l.long = append(l.long[:0], start...)
	tooLong := false
	for {
		more, err := l.in.ReadSlice('\n')
		if tooLong = tooLong || len(l.long)+len(more) > maxLineBytes; !tooLong {
			l.long = append(l.long, more...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if tooLong && (err == nil || err == io.EOF) {
			err = errLongLine
		}
		return l.long, err
	}
}

// splitter cuts records into fields. Its memory is reused by the next record.
type splitter struct {
	separator byte
	noQuotes  bool // quotes are text
	expect    int  // fields of a line; 0: not known
	bad       int  // the field of errQuote, errOpen or errStray, from 0
	fields    [][]byte
	text      []byte // the whole record where it has quotes; fields alias it then
	plain     []byte // the fields of a record with quotes, unquoted
	ends      []int
}

// record splits the line that was read last, together with the lines that follow when a quoted
// field goes on there.
//
// Returns: the fields and the text of the record, both valid until the next call.
// Errors:  errQuote, errOpen or errStray, with which the text is valid, or what the reader says.
func (s *splitter) record(line []byte, lines *lineReader) (fields [][]byte, text []byte,
	err error) {
	if s.noQuotes || bytes.IndexByte(line, '"') < 0 {
		s.fields = splitPlain(s.fields[:0], line, s.separator)
		return s.fields, line, nil
	}
	s.text = append(s.text[:0], line...)
	records := 0
	for count := 1; ; count++ {
		err := s.splitQuoted()
		if err != errOpen {
			return s.fields, s.text, err
		}
		if count == maxQuotedLines || len(s.text) > maxLineBytes || records == maxOpenRecords {
			return nil, s.text, err
		}
		ending := lines.ending
		more, nextErr := lines.next()
		if nextErr == io.EOF || nextErr == errLongLine {
			return nil, s.text, err
		}
		if nextErr != nil {
			return nil, nil, nextErr
		}
		if records++; !s.looksWhole(more) {
			records = 0
		}
		s.text = append(append(s.text, ending...), more...)
	}
}

// looksWhole reports whether a line inside a quoted field looks like a record by itself.
func (s *splitter) looksWhole(line []byte) bool {
	return s.expect >= leastOpenFields && bytes.IndexByte(line, '"') < 0 &&
		bytes.Count(line, []byte{s.separator}) == s.expect-1
}

func splitPlain(fields [][]byte, line []byte, separator byte) [][]byte {
	for {
		i := bytes.IndexByte(line, separator)
		if i < 0 {
			return append(fields, line)
		}
		fields = append(fields, line[:i])
		line = line[i+1:]
	}
}

// splitQuoted splits s.text by RFC 4180: quotes are only in fields that begin with one.
func (s *splitter) splitQuoted() error {
	s.plain, s.ends = s.plain[:0], s.ends[:0]
	for rest := s.text; ; {
		s.bad = len(s.ends)
		if len(rest) == 0 || rest[0] != '"' {
			field, after, more := bytes.Cut(rest, []byte{s.separator})
			if bytes.IndexByte(field, '"') >= 0 {
				return errStray
			}
			s.plain = append(s.plain, field...)
			s.ends = append(s.ends, len(s.plain))
			if !more {
				break
			}
			rest = after
			continue
		}
		after, err := s.takeQuoted(rest[1:])
		if err != nil {
			return err
		}
		s.ends = append(s.ends, len(s.plain))
		if len(after) == 0 {
			break
		}
		if after[0] != s.separator {
			return errQuote
		}
		rest = after[1:]
	}
	s.fields = s.fields[:0]
	from := 0
	for _, end := range s.ends {
		s.fields = append(s.fields, s.plain[from:end])
		from = end
	}
	return nil
}

// takeQuoted appends the text of a quoted field and returns what follows its closing quote.
func (s *splitter) takeQuoted(src []byte) ([]byte, error) {
	for {
		i := bytes.IndexByte(src, '"')
		if i < 0 {
			return nil, errOpen
		}
		s.plain = append(s.plain, src[:i]...)
		src = src[i+1:]
		if len(src) == 0 || src[0] != '"' {
			return src, nil
		}
		s.plain = append(s.plain, '"')
		src = src[1:]
	}
}
