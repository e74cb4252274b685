package wasmhost

import (
	"fmt"
	"unicode/utf8"
)

// reader reads the WebAssembly binary format from src. The first error sticks and every later
// read returns zero, so that callers may check once after several reads.
type reader struct {
	src  []byte
	pos  int
	base int // offset of src[0] in the module, for messages
	err  error
}

func (r *reader) failf(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: "+format, append([]any{r.base + r.pos}, args...)...)
	}
}

func (r *reader) done() bool { return r.err != nil || r.pos == len(r.src) }

func (r *reader) byte() byte {
	if r.err != nil || r.pos == len(r.src) {
		r.failf("the module ends early")
		return 0
	}
	b := r.src[r.pos]
	r.pos++
	return b
}

// bytes returns the next n bytes, aliasing src.
func (r *reader) bytes(n uint32) []byte {
	if r.err != nil || uint64(n) > uint64(len(r.src)-r.pos) {
		r.failf("%d bytes are announced, fewer follow", n)
		return nil
	}
	b := r.src[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// sub returns a reader of the next n bytes.
func (r *reader) sub(n uint32) reader {
	s := reader{base: r.base + r.pos}
	s.src = r.bytes(n)
	s.err = r.err
	return s
}

// u32 reads an unsigned LEB128 number of at most 32 bits.
func (r *reader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.failf("a number has more than 32 bits")
	return 0
}

// signed reads a signed LEB128 number of at most the given number of bits.
func (r *reader) signed(bits int) int64 {
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b >= 0x80 {
			continue
		}
		if shift+7 < 64 && b&0x40 != 0 {
			v |= -1 << (shift + 7)
		}
		return v
	}
	r.failf("a number has more than %d bits", bits)
	return 0
}

// count reads the length of a vector whose elements take at least one byte each.
func (r *reader) count(what string, limit uint32) uint32 {
	n := r.u32()
	switch {
	case r.err != nil:
		return 0
	case uint64(n) > uint64(len(r.src)-r.pos):
		r.failf("%d %s are announced, fewer follow", n, what)
		return 0
	case n > limit:
		r.failf("%d %s, at most %d are allowed", n, what, limit)
		return 0
	}
	return n
}

func (r *reader) name() string {
	b := r.bytes(r.u32())
	if !utf8.Valid(b) {
		r.failf("a name is not UTF-8")
		return ""
	}
	return string(b)
}

func appendU32(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

func appendSigned(dst []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(dst, b)
		}
		dst = append(dst, b|0x80)
	}
}
