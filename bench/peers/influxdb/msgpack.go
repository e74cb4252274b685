package influxdb

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

const (
	maxTextLength = 64 << 10 // of a string
	maxNesting    = 16
)

// unpacker reads MessagePack: of it what InfluxDB writes. It allocates nothing by a length that it
// read but strings, which are bounded.
type unpacker struct {
	src  *bufio.Reader
	text []byte
}

// value is a number, a string or nil.
type value struct {
	kind  kind
	whole int64
	float float64
	text  []byte // valid until the next read
	size  int    // of a map or an array
}

type kind uint8

const (
	kindNil kind = iota
	kindBool
	kindWhole
	kindFloat
	kindText
	kindMap
	kindArray
)

// word reads a big-endian number of 1, 2, 4 or 8 bytes.
func (u *unpacker) word(size int) (uint64, error) {
	b, err := u.src.Peek(size)
	if err != nil {
		return 0, cut(err)
	}
	var v uint64
	switch size {
	case 1:
		v = uint64(b[0])
	case 2:
		v = uint64(binary.BigEndian.Uint16(b))
	case 4:
		v = uint64(binary.BigEndian.Uint32(b))
	default:
		v = binary.BigEndian.Uint64(b)
	}
	_, err = u.src.Discard(size)
	return v, err
}

// cut returns the error of an answer that ends within a value.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// next reads a value; of a map or an array only its size. At the end it returns io.EOF.
func (u *unpacker) next(v *value) error {
	head, err := u.src.ReadByte()
	if err != nil {
		return err
	}
	switch {
	case head <= 0x7f || head >= 0xe0:
		v.kind, v.whole = kindWhole, int64(int8(head))
		return nil
	case head <= 0x8f:
		v.kind, v.size = kindMap, int(head&0x0f)
		return nil
	case head <= 0x9f:
		v.kind, v.size = kindArray, int(head&0x0f)
		return nil
	case head <= 0xbf:
		return u.readText(v, uint64(head&0x1f))
	case head == 0xc0:
		v.kind = kindNil
		return nil
	case head == 0xc2 || head == 0xc3:
		v.kind = kindBool
		return nil
	case head >= 0xca && head <= 0xd3:
		return u.number(v, head)
	}
	return u.long(v, head)
}

// long reads a string, or the size of an array or a map, of which the length is a word of its own.
func (u *unpacker) long(v *value, head byte) error {
	size := 4
	switch head {
	case 0xd9:
		size = 1
	case 0xda, 0xdc, 0xde:
		size = 2
	case 0xdb, 0xdd, 0xdf:
	default:
		return fmt.Errorf("msgpack: unknown byte %#x", head)
	}
	length, err := u.word(size)
	switch {
	case err != nil:
		return err
	case head <= 0xdb:
		return u.readText(v, length)
	case head <= 0xdd:
		v.kind, v.size = kindArray, int(length)
	default:
		v.kind, v.size = kindMap, int(length)
	}
	return nil
}

// number reads what follows the byte of a number.
func (u *unpacker) number(v *value, head byte) error {
	size := 1 << (head & 3) // of 0xcc to 0xcf, unsigned, and 0xd0 to 0xd3, signed
	if head <= 0xcb {
		size = 4 << (head & 1)
	}
	word, err := u.word(size)
	if err != nil {
		return err
	}
	v.kind = kindWhole
	switch head {
	case 0xca:
		v.kind, v.float = kindFloat, float64(math.Float32frombits(uint32(word)))
	case 0xcb:
		v.kind, v.float = kindFloat, math.Float64frombits(word)
	case 0xd0:
		v.whole = int64(int8(word))
	case 0xd1:
		v.whole = int64(int16(word))
	case 0xd2:
		v.whole = int64(int32(word))
	default:
		v.whole = int64(word)
	}
	return nil
}

func (u *unpacker) readText(v *value, length uint64) error {
	if length > maxTextLength {
		return fmt.Errorf("msgpack: a string of %d bytes", length)
	}
	if uint64(cap(u.text)) < length {
		u.text = make([]byte, length)
	}
	v.kind, v.text = kindText, u.text[:length]
	_, err := io.ReadFull(u.src, v.text)
	return cut(err)
}

// expect reads a value of a kind.
func (u *unpacker) expect(v *value, want kind) error {
	if err := u.next(v); err != nil {
		return cut(err)
	}
	if v.kind != want {
		return fmt.Errorf("msgpack: kind %d, want %d", v.kind, want)
	}
	return nil
}

// skip reads over a value.
func (u *unpacker) skip(nesting int) error {
	if nesting > maxNesting {
		return fmt.Errorf("msgpack: nested more than %d times", maxNesting)
	}
	var v value
	if err := u.next(&v); err != nil {
		return cut(err)
	}
	values := 0
	switch v.kind {
	case kindMap:
		values = 2 * v.size
	case kindArray:
		values = v.size
	}
	for range values {
		if err := u.skip(nesting + 1); err != nil {
			return err
		}
	}
	return nil
}
