package writers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/crc32c"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// Magic begins the file WRITERS.
	Magic = 0x31575450 // "PTW1"
	// MaxResults is how many results are kept per writer: the greatest number of batches that a
	// client may have in flight and still retry.
	MaxResults = 64
	// EntryBytes is what a writer takes in the file besides its results.
	EntryBytes = 16 + 8 + 8 + 2 + 2

	resultBytes    = 8 + 8 + 4
	flagPersistent = 1 // of a writer
)

// Writer is what the file WRITERS says of a writer.
type Writer struct {
	record.Writer
	High      uint64 // its greatest sequence
	LastAcqNs int64
	Results   []Result
}

// Result is what the put of a batch of a writer returned: consecutive acqs.
type Result struct {
	Seq     uint64
	FirstNs int64 // acq of the first record
	Records uint32
}

// UntilNs returns the acq above those of its records.
func (a Result) UntilNs() int64 { return a.FirstNs + int64(a.Records) }

// Parse reads the file WRITERS and calls visit for each writer, which it lends for the call:
// magic u32, count u32, then per writer id, high u64, last acq i64, n u16, flags u16 and n results
// {seq u64, first acq i64, records u32}, then crc32c over all before it.
func Parse(buf []byte, visit func(*Writer)) error {
	if len(buf) < 12 || binary.LittleEndian.Uint32(buf) != Magic {
		return errors.New("not a writers table")
	}
	body, sum := buf[:len(buf)-4], binary.LittleEndian.Uint32(buf[len(buf)-4:])
	if crc32c.Sum(body) != sum {
		return errors.New("checksum differs")
	}
	count, rest := binary.LittleEndian.Uint32(body[4:]), body[8:]
	var w Writer
	for range count {
		if len(rest) < EntryBytes {
			return errors.New("ends inside a writer")
		}
		w.ID, w.High = [16]byte(rest[:16]), binary.LittleEndian.Uint64(rest[16:])
		w.LastAcqNs, w.Results = int64(binary.LittleEndian.Uint64(rest[24:])), w.Results[:0]
		n, flags := binary.LittleEndian.Uint16(rest[32:]), binary.LittleEndian.Uint16(rest[34:])
		rest = rest[EntryBytes:]
		if w.Persistent = flags&flagPersistent != 0; flags&^flagPersistent != 0 {
			return fmt.Errorf("a writer has flags %#x; this program knows %#x", flags,
				flagPersistent)
		}
		if n > MaxResults || uint64(len(rest)) < uint64(n)*resultBytes {
			return errors.New("ends inside the answers of a writer")
		}
		for range n {
			w.Results = append(w.Results, Result{
				Seq:     binary.LittleEndian.Uint64(rest),
				FirstNs: int64(binary.LittleEndian.Uint64(rest[8:])),
				Records: binary.LittleEndian.Uint32(rest[16:]),
			})
			rest = rest[resultBytes:]
		}
		visit(&w)
	}
	if len(rest) != 0 {
		return errors.New("bytes follow the last writer")
	}
	return nil
}

// Save writes the table to dir, so that log files which also hold it may go.
func (t *Table[R]) Save(dir string) error {
	return Replace(dir, t.Encode(math.MaxInt64))
}

// Replace makes a file that Encode returned the one of a directory.
func Replace(dir string, table []byte) error {
	return durable.ReplaceFile(filepath.Join(dir, layout.WritersFile), table)
}

// Encode returns the file, with those results whose records all have an acq below untilNs. Of a
// persistent writer whose newest batch is not below, nothing is known of what is there.
func (t *Table[R]) Encode(untilNs int64) []byte {
	t.mu.Lock()
	buf := binary.LittleEndian.AppendUint32(nil, Magic)
	count, countAt := uint32(0), len(buf)
	buf = binary.LittleEndian.AppendUint32(buf, 0)
	for of, w := range t.byWriter {
		if of.Persistent && !slices.ContainsFunc(w.results, func(a Result) bool {
			return a.Seq == w.high && a.UntilNs() <= untilNs
		}) {
			continue
		}
		count++
		buf = append(buf, of.ID[:]...)
		buf = binary.LittleEndian.AppendUint64(buf, w.high)
		buf = binary.LittleEndian.AppendUint64(buf, uint64(w.lastAcq))
		at, n, flags := len(buf), uint16(0), uint16(0)
		if of.Persistent {
			flags = flagPersistent
		}
		buf = binary.LittleEndian.AppendUint16(buf, 0)
		buf = binary.LittleEndian.AppendUint16(buf, flags)
		for _, a := range w.results {
			if a.UntilNs() > untilNs {
				continue
			}
			n++
			buf = binary.LittleEndian.AppendUint64(buf, a.Seq)
			buf = binary.LittleEndian.AppendUint64(buf, uint64(a.FirstNs))
			buf = binary.LittleEndian.AppendUint32(buf, a.Records)
		}
		binary.LittleEndian.PutUint16(buf[at:], n)
	}
	t.mu.Unlock()
	binary.LittleEndian.PutUint32(buf[countAt:], count)
	return binary.LittleEndian.AppendUint32(buf, crc32c.Sum(buf))
}

// Load reads what Save wrote; a missing file is an empty table.
//
// Errors: *durable.CorruptError.
func (t *Table[R]) Load(dir string) error {
	name := filepath.Join(dir, layout.WritersFile)
	buf, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read writers: %w", err)
	}
	table, err := parseTable(buf)
	if err != nil {
		return &durable.CorruptError{File: name, Reason: err.Error()}
	}
	t.byWriter, t.persistent = table, 0
	for w := range table {
		if w.Persistent {
			t.persistent++
		}
	}
	return nil
}

// parseTable reads what Encode wrote.
func parseTable(buf []byte) (map[record.Writer]*writer, error) {
	table := map[record.Writer]*writer{}
	err := Parse(buf, func(w *Writer) {
		table[w.Writer] = &writer{high: w.High, lastAcq: w.LastAcqNs,
			results: slices.Clone(w.Results)}
	})
	if err != nil {
		return nil, err
	}
	return table, nil
}
