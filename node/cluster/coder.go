package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errForm is what bytes are refused with that no encoder writes.
var errForm = errors.New("bytes are not in the form that is written")

// coder writes fields to dst, or reads the same fields from src: one list of fields serves both, so
// that they cannot drift apart. There is one form for each value: numbers are varints of the fewest
// bytes, texts are a length and bytes. After an error it reads zeros.
type coder struct {
	dst     []byte
	src     []byte
	reading bool
	err     error
}

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{errForm}, args...)...)
	}
	c.src = nil
}

func number[T ~uint8 | ~uint32 | ~uint64](c *coder, v *T) {
	if !c.reading {
		c.dst = binary.AppendUvarint(c.dst, uint64(*v))
		return
	}
	*v = 0
	if c.err != nil {
		return
	}
	u, n := binary.Uvarint(c.src)
	if n <= 0 || n > 1 && c.src[n-1] == 0 {
		c.fail("a number does not end, or has bytes too many")
		return
	}
	if uint64(T(u)) != u {
		c.fail("%d is too large for its field", u)
		return
	}
	*v, c.src = T(u), c.src[n:]
}

// signed is number of what may be negative: those take ten bytes.
func signed[T ~int32 | ~int64](c *coder, v *T) {
	u := uint64(int64(*v))
	number(c, &u)
	if int64(T(int64(u))) != int64(u) {
		c.fail("%d is too large for its field", int64(u))
		u = 0
	}
	if c.reading {
		*v = T(int64(u))
	}
}

func (c *coder) flag(v *bool) {
	var n uint8
	if *v {
		n = 1
	}
	if number(c, &n); n > 1 {
		c.fail("%d where 0 or 1 is wanted", n)
	}
	if c.reading { // views share what is written
		*v = n == 1
	}
}

// bytes copies what it reads.
func (c *coder) bytes(v *[]byte, most int) {
	n := uint64(len(*v))
	number(c, &n)
	if !c.reading {
		if n > uint64(most) {
			c.fail("a text of %d bytes where at most %d are possible", n, most)
		}
		c.dst = append(c.dst, *v...)
		return
	}
	if n > uint64(most) || n > uint64(len(c.src)) {
		c.fail("a text of %d bytes where at most %d are wanted and %d follow", n, most, len(c.src))
		n = 0
	}
	*v, c.src = append([]byte(nil), c.src[:n]...), c.src[n:]
}

func (c *coder) text(v *string, most int) {
	b := []byte(*v)
	c.bytes(&b, most)
	if c.reading { // as above
		*v = string(b)
	}
}

func (c *coder) id(v *ID) {
	if !c.reading {
		c.dst = append(c.dst, v[:]...)
		return
	}
	if len(c.src) < len(v) {
		c.fail("%d bytes where an id of %d is wanted", len(c.src), len(v))
		*v = ID{}
		return
	}
	*v, c.src = ID(c.src[:len(v)]), c.src[len(v):]
}

// count reads or writes how many elements follow, each of which takes at least one byte.
func (c *coder) count(n, most int) int {
	u := uint64(n)
	number(c, &u)
	if !c.reading && n > most {
		c.fail("%d elements where at most %d are possible", n, most)
	}
	if c.reading && (u > uint64(most) || u > uint64(len(c.src))) {
		c.fail("%d elements where at most %d are wanted and %d bytes follow", u, most, len(c.src))
		return 0
	}
	return int(u)
}

// list reads or writes elements; what was read grows with the bytes that were there.
func list[T any](c *coder, v *[]T, most int, each func(*T)) {
	n := c.count(len(*v), most)
	if !c.reading {
		for i := range *v {
			each(&(*v)[i])
		}
		return
	}
	*v = nil
	for range n {
		var e T
		if each(&e); c.err != nil {
			return
		}
		*v = append(*v, e)
	}
}

// end wants everything read.
func (c *coder) end() error {
	if c.err == nil && len(c.src) > 0 {
		c.fail("%d bytes are left", len(c.src))
	}
	return c.err
}
