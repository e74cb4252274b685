// Package exchange owns the files in which records leave a node and come back exactly: what their
// header says, the columns that decoded values stand in, the formats NDJSON and CSV, and how a
// format is recognised.
//
// It knows nothing of flags, the network, Arrow or Parquet: other packages write and read those
// formats behind [Writer] and [Reader]. It starts no goroutines.
package exchange

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

// Version is the number of the format that this package writes, and the greatest that it reads.
// 1: cid, mid, moid, cap, acq, payload, deleted, and columns of values after them.
const Version = 1

// MetadataKey is the name that a file with named metadata keeps its header under.
const MetadataKey = "pentad.export"

// Header says what a file holds.
type Header struct {
	Version int               `json:"pentad_export"`
	Box     map[string]string `json:"box"`               // selectors by the name of the axis
	Select  string            `json:"select,omitempty"`  // devices by their descriptions
	View    string            `json:"view"`              // all, latest or as-of
	AsOf    string            `json:"as_of,omitempty"`   // of latest, too: it was the horizon
	Last    uint32            `json:"last,omitempty"`    // the newest readings of each series
	Where   string            `json:"where,omitempty"`   // the condition that payloads here meet
	Filters []string          `json:"filters,omitempty"` // plugins that kept what is here
	Horizon string            `json:"horizon"`           // all records below this acq are here
	Value   string            `json:"value,omitempty"`   // what payloads were decoded as
}

// Text is the header as JSON.
func (h *Header) Text() []byte {
	text, err := json.Marshal(h)
	if err != nil {
		panic("BUG: a header is always JSON: " + err.Error())
	}
	return text
}

// ParseHeader reads the JSON of a header.
func ParseHeader(text []byte) (*Header, error) {
	h := &Header{}
	if err := json.Unmarshal(text, h); err != nil {
		return nil, damaged("header", "it is not the header of an export: %v", err)
	}
	if h.Version < 1 || h.Version > Version {
		return nil, damaged("header", "format version %d is newer than version %d of this program",
			h.Version, Version)
	}
	return h, nil
}

// Writer writes the records of one file. A file without the end that Close writes is recognised as
// one that was cut.
type Writer interface {
	// Write takes stamped records; the batch is the caller's again when it returns.
	Write(b *record.Batch) error
	Close() error
}

// Reader reads the records of one file.
type Reader interface {
	// Next puts the next records into b, in place of what it holds, without acq: a node gives them
	// new ones. After the last it returns io.EOF. A *DamageError ends the reading; what came before
	// it is true.
	Next(b *record.Batch) error
}

const (
	// BatchRecords is how many records a reader hands out at once.
	BatchRecords = 4096
	// batchBytes ends a batch before that: payloads may be large.
	batchBytes = 8 << 20
)

// full reports whether a reader hands a batch out.
func full(b *record.Batch) bool { return b.Len() >= BatchRecords || len(b.Data) >= batchBytes }

// DamageError is a file that is cut or is not what it says.
type DamageError struct{ Where, Reason string }

// Error implements error.
func (e *DamageError) Error() string { return e.Where + ": " + e.Reason }

func damaged(where, format string, args ...any) error {
	return &DamageError{where, fmt.Sprintf(format, args...)}
}

// Damaged returns a *DamageError for the packages that read other formats.
func Damaged(where, format string, args ...any) error { return damaged(where, format, args...) }

// FormatError is a file that is no export.
type FormatError struct{ Reason string }

// Error implements error.
func (e *FormatError) Error() string { return e.Reason }

// Format is a format of files.
type Format string

// Formats.
const (
	NDJSON  Format = "ndjson"
	CSV     Format = "csv"
	Arrow   Format = "arrow"
	Parquet Format = "parquet"
)

// Formats is the list for help and errors.
const Formats = "ndjson, csv, arrow or parquet"

// ParseFormat reads the name of a format.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case NDJSON, CSV, Arrow, Parquet:
		return f, nil
	}
	return "", fmt.Errorf("unknown format %q; use %s", name, Formats)
}

// Recognise returns the format of what in holds by its first bytes, without taking them.
func Recognise(in *bufio.Reader) (Format, error) {
	head, err := in.Peek(8)
	if err != nil && err != io.EOF {
		return "", err
	}
	switch {
	case bytes.HasPrefix(head, []byte("PAR1")):
		return Parquet, nil
	case bytes.HasPrefix(head, []byte("ARROW1")),
		bytes.HasPrefix(head, []byte{0xff, 0xff, 0xff, 0xff}):
		return Arrow, nil
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte(byteOrderMark)), " \t\r\n")
	if bytes.HasPrefix(text, []byte("{")) {
		return NDJSON, nil
	}
	return CSV, nil
}

// AppendTime writes a time so that it reads back exactly: RFC 3339, and whole ns in the years
// that int64 holds a part of.
func AppendTime(dst []byte, ns int64) []byte {
	const from, to = -9_214_560_000_000_000_000, 9_214_646_400_000_000_000 // 1678 and 2262
	if ns < from || ns >= to {
		return strconv.AppendInt(dst, ns, 10)
	}
	return timeparse.Append(dst, ns)
}

const byteOrderMark = "\xef\xbb\xbf"

// Plain returns what in holds, unpacked when it is gzip.
func Plain(in io.Reader) (*bufio.Reader, error) {
	buffered := bufio.NewReaderSize(in, 1<<18)
	magic, err := buffered.Peek(2)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return buffered, nil
	}
	unpacked, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, damaged("gzip header", "%v", err)
	}
	return bufio.NewReaderSize(unpacked, 1<<18), nil
}
