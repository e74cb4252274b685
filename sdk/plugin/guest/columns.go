package guest

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// Run is a run of rows of one group: the rows from the end of the run before it to End.
type Run struct {
	GID uint32
	End uint32
}

// Batch is the columns of one call. Those that were not asked for are nil. It is valid, and not to
// be changed, until the method returns.
type Batch struct {
	Rows   int
	CID    []int32
	MOID   []int32
	MID    []int64
	CapNs  []int64
	AcqNs  []int64
	GID    []uint32 // group of each row; nil when there are runs
	Runs   []Run    // nil unless plugin.NeedRuns was asked for and they are long
	Series []Series // nil unless plugin.NeedSeries was asked for, see ABI.md
	Groups int
	Seq    uint32 // number of this batch in the instance, from 0

	// Payload i is Data[i*Stride:(i+1)*Stride], or, with Stride 0, Data[Offsets[i]:Offsets[i+1]].
	Stride  int
	Offsets []uint32
	Data    []byte
}

// Payload returns payload i.
func (b *Batch) Payload(i int) []byte {
	if b.Stride > 0 {
		return b.Data[i*b.Stride : (i+1)*b.Stride : (i+1)*b.Stride]
	}
	if b.Offsets == nil {
		return nil
	}
	return b.Data[b.Offsets[i]:b.Offsets[i+1]:b.Offsets[i+1]]
}

// Bitmap has one bit per row.
type Bitmap []uint64

// Set keeps row i.
func (m Bitmap) Set(i int) { m[i>>6] |= 1 << (i & 63) }

// Params are the parameters of a call: 8 bytes for each that the document declares, then their
// texts, or nothing.
type Params []byte

// Count returns the number of parameters, where none is a text.
func (p Params) Count() int { return len(p) / 8 }

// U64 returns parameter i; an enum is the number of its value.
func (p Params) U64(i int) uint64 { return binary.LittleEndian.Uint64(p[8*i:]) }

// I64 returns parameter i.
func (p Params) I64(i int) int64 { return int64(p.U64(i)) }

// F64 returns parameter i.
func (p Params) F64(i int) float64 { return math.Float64frombits(p.U64(i)) }

// Text returns parameter i, which is a text. It is valid as long as Init runs.
func (p Params) Text(i int) []byte {
	from := binary.LittleEndian.Uint32(p[8*i:])
	size := binary.LittleEndian.Uint32(p[8*i+4:])
	return p[from : from+size : from+size]
}

// AppendText appends a text as documents mean it: its size, its bytes and zeros up to a multiple of
// 8.
func AppendText(dst, text []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(text)))
	dst = append(dst, text...)
	return append(dst, make([]byte, -len(text)&7)...)
}

// TakeText reads what AppendText wrote, and returns it and the bytes behind, which alias src; or
// false when these end too early.
func TakeText(src []byte) (text, rest []byte, ok bool) {
	if len(src) < 8 {
		return nil, src, false
	}
	size := binary.LittleEndian.Uint64(src)
	if src = src[8:]; size > uint64(len(src)) || size+-size&7 > uint64(len(src)) {
		return nil, src, false
	}
	return src[:size:size], src[size+-size&7:], true
}

// NumberType is the type of a number in a payload, in the order of the enum f64, f32, i64, i32,
// u32, text.
type NumberType uint8

// Types of numbers.
const (
	F64 NumberType = iota
	F32
	I64
	I32
	U32
	Text        // decimal, of at most 19 digits
	NumberTypes // how many there are
)

// Size returns the bytes of a number, of a text the least.
func (t NumberType) Size() int {
	switch t {
	case F32, I32, U32:
		return 4
	case Text:
		return 1
	}
	return 8
}

// Front returns how many bytes at the front of payloads are read for a number that starts at an
// offset, as [Fronting] says it: 0 for Text, which ends where the payload does.
func (t NumberType) Front(offset int) int {
	if t == Text {
		return 0
	}
	return offset + t.Size()
}

// Numbers appends the number of each payload to dst, which starts at an offset there.
//
// Errors: a payload that ends before the number, or has no decimal number where one is asked for.
func (b *Batch) Numbers(dst []float64, t NumberType, offset int) ([]float64, error) {
	if t == F64 && b.Stride >= offset+t.Size() {
		return b.dense(dst, offset), nil
	}
	for i := range b.Rows { // of few instructions, as each turn pays for all of them
		x, err := b.number(i, t, offset)
		if err != nil {
			return dst, err
		}
		dst = append(dst, x)
	}
	return dst, nil
}

func (b *Batch) dense(dst []float64, offset int) []float64 {
	for at := offset; at < len(b.Data); at += b.Stride {
		dst = append(dst, math.Float64frombits(binary.LittleEndian.Uint64(b.Data[at:])))
	}
	return dst
}

func (b *Batch) number(i int, t NumberType, offset int) (float64, error) {
	payload := b.Payload(i)
	switch {
	case len(payload) < offset+t.Size():
		return 0, ShortPayload(i, len(payload), offset+t.Size())
	case t != Text:
		return t.Read(payload[offset:]), nil
	}
	if x, ok := decimal(payload[offset:]); ok {
		return x, nil
	}
	return 0, noDecimal(i, offset)
}

func noDecimal(i, offset int) error {
	return &Error{Status: plugin.StatusPayload, Text: "record " + strconv.Itoa(i) +
		" of the batch has no decimal number of up to 19 digits at byte " + strconv.Itoa(offset)}
}

// Read returns the number at the start of src, of any type but Text.
func (t NumberType) Read(src []byte) float64 {
	switch t {
	case F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(src)))
	case I64:
		return float64(int64(binary.LittleEndian.Uint64(src)))
	case I32:
		return float64(int32(binary.LittleEndian.Uint32(src)))
	case U32:
		return float64(binary.LittleEndian.Uint32(src))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(src))
}

// Error is a failure with a status of the ABI. Methods may return it, or any other error: one of
// Init then counts as plugin.StatusParams and one of the rest as -100.
type Error struct {
	Status int32 // negative
	Text   string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// ShortPayload is the error for row i, whose payload of size bytes ends before byte want.
func ShortPayload(i, size, want int) error {
	return &Error{Status: plugin.StatusPayload, Text: "record " + strconv.Itoa(i) +
		" of the batch has a payload of " + strconv.Itoa(size) +
		" bytes, the number ends at byte " + strconv.Itoa(want)}
}
