package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/format"
)

const (
	maxFooterBytes = 64 << 20
	// maxPageBytes bounds a page, packed and unpacked. Writers make pages of about a megabyte; one
	// of ours with the largest payload has 33.
	maxPageBytes = 256 << 20
	// headerBytes is what the header of a page may take: it holds two bounds at most.
	headerBytes = 1 << 20
	maxDepth    = 32
)

// walker reads the compact form of Thrift, only to see that lengths in it are followed by as much.
// It panics where they are not: the library allocates what they say.
type walker struct {
	b       []byte
	at      int
	structs int // in lists
}

func (w *walker) byte() byte {
	if w.at >= len(w.b) {
		panic("metadata is truncated")
	}
	w.at++
	return w.b[w.at-1]
}

func (w *walker) uvarint() uint64 {
	n, size := binary.Uvarint(w.b[w.at:])
	if size <= 0 {
		panic("metadata is truncated")
	}
	w.at += size
	return n
}

func (w *walker) varint() int64 {
	n := w.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

// skip passes over n bytes.
func (w *walker) skip(n uint64) {
	if n > uint64(len(w.b)-w.at) {
		panic("a length exceeds the metadata")
	}
	w.at += int(n)
}

// Types of values in the compact form.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
	thriftUUID   = 13
)

// value passes over one value; number is that of an integer.
func (w *walker) value(kind byte, depth int) (number int64) {
	if depth > maxDepth {
		panic("metadata is nested too deeply")
	}
	switch kind {
	case thriftTrue, thriftFalse:
	case thriftByte:
		w.byte()
	case thriftI16, thriftI32, thriftI64:
		return w.varint()
	case thriftDouble:
		w.skip(8)
	case thriftUUID:
		w.skip(16)
	case thriftBinary:
		w.skip(w.uvarint())
	case thriftList, thriftSet:
		w.list(depth)
	case thriftMap:
		count := w.count(w.uvarint())
		kinds := byte(0)
		if count > 0 {
			kinds = w.byte()
		}
		for range 2 * count {
			w.element(kinds>>4, depth)
			kinds = kinds<<4 | kinds>>4
		}
	case thriftStruct:
		w.fields(depth, func(int64, int64) {})
	default:
		panic(fmt.Sprintf("metadata has a value of unknown type %d", kind))
	}
	return 0
}

// count checks a number of elements, each of which takes a byte at least.
func (w *walker) count(n uint64) int {
	if n > uint64(len(w.b)-w.at) {
		panic("a length exceeds the metadata")
	}
	return int(n)
}

func (w *walker) list(depth int) {
	head := w.byte()
	count := uint64(head >> 4)
	if count == 15 {
		count = w.uvarint()
	}
	n := w.count(count)
	if head&15 == thriftStruct {
		// A struct in memory takes hundreds of bytes, and a true one eight at least in the file.
		if w.structs += n; w.structs > 1<<16+len(w.b)/8 {
			panic("metadata has more structs than bytes for them")
		}
	}
	for range n {
		w.element(head&15, depth)
	}
}

// element passes over one element; truth values take a byte there.
func (w *walker) element(kind byte, depth int) {
	if kind == thriftTrue || kind == thriftFalse {
		kind = thriftByte
	}
	w.value(kind, depth+1)
}

// fields hands out the numbers of a struct by the id of their field.
func (w *walker) fields(depth int, number func(id, n int64)) {
	id := int64(0)
	for {
		head := w.byte()
		if head == 0 {
			return
		}
		if head>>4 == 0 {
			id = w.varint()
		} else {
			id += int64(head >> 4)
		}
		if head&15 == thriftStruct && depth == 0 {
			w.fields(1, func(inner, n int64) { number(id<<8|inner&255, n) })
			continue
		}
		number(id, w.value(head&15, depth+1))
	}
}

// verifyFooter looks at the metadata in the end of a file.
func verifyFooter(in io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < 12 {
		return errCut
	}
	if _, err := in.ReadAt(tail[:], size-8); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	switch {
	case string(tail[4:]) != "PAR1":
		return errCut
	case length > min(size-12, maxFooterBytes):
		return fmt.Errorf("footer of %d bytes in a file of %d", length, size)
	}
	footer := make([]byte, length)
	if _, err := in.ReadAt(footer, size-8-length); err != nil {
		return err
	}
	(&walker{b: footer}).value(thriftStruct, 1)
	return nil
}

// verifyPages looks at the headers of all pages of a column in a row group.
func verifyPages(in io.ReaderAt, c *format.ColumnMetaData, rows int64) error {
	at, size := c.DataPageOffset, c.TotalCompressedSize
	if c.DictionaryPageOffset != 0 {
		at = c.DictionaryPageOffset
	}
	if at < 0 || size < 0 || c.NumValues < 0 {
		return fmt.Errorf("invalid extent: %d bytes at offset %d with %d values", size, at,
			c.NumValues)
	}
	pages := io.NewSectionReader(in, at, size)
	for at = 0; at < size; {
		n, err := verifyPage(pages, at, min(4096, size-at), rows)
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// verifyPage checks the header at an offset, of which window bytes are read first, and returns
// the length of the page with it.
func verifyPage(pages io.ReaderAt, at, window, rows int64) (length int64, err error) {
	head := make([]byte, window)
	n, err := pages.ReadAt(head, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	w := &walker{b: head[:n]}
	// Slots are the field of the header, and for those in a field of it also that, as in fields.
	sizes := map[int64]int64{}
	if stopped := w.stops(func() { w.fields(0, func(id, n int64) { sizes[id] = n }) }); stopped {
		if int64(n) < window || window >= headerBytes {
			return 0, fmt.Errorf("the page header at offset %d is truncated", at)
		}
		return verifyPage(pages, at, headerBytes, rows)
	}
	for _, id := range []int64{2, 3} {
		if sizes[id] < 0 || sizes[id] > maxPageBytes {
			return 0, fmt.Errorf("page of %d bytes; the limit is %d", sizes[id], maxPageBytes)
		}
	}
	for _, id := range []int64{5<<8 | 1, 8<<8 | 1, 8<<8 | 2, 8<<8 | 3} {
		if sizes[id] < 0 || sizes[id] > rows {
			return 0, fmt.Errorf("page of %d values in a row group of %d rows", sizes[id], rows)
		}
	}
	if entries := sizes[7<<8|1]; entries < 0 || entries > sizes[2] {
		return 0, fmt.Errorf("dictionary of %d entries in %d bytes", entries, sizes[2])
	}
	return int64(w.at) + sizes[3], nil
}

// stops runs a walk and reports whether the bytes did not suffice.
func (w *walker) stops(walk func()) (stopped bool) {
	defer func() { stopped = recover() != nil }()
	walk()
	return false
}

// errCut is a file without the end of one.
var errCut = errors.New("no Parquet footer at the end: the file is truncated")
