package wire

import "encoding/binary"

// decoder reads little-endian numbers and remembers that the input ran out.
type decoder struct {
	src   []byte
	short bool
}

func (d *decoder) take(n uint64) []byte {
	if d.short || n > uint64(len(d.src)) {
		d.short = true
		return nil
	}
	out := d.src[:n:n]
	d.src = d.src[n:]
	return out
}

func (d *decoder) u8() uint8 {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u16() uint16 {
	if b := d.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) i64() int64 { return int64(d.u64()) }

// bytes reads a length u32 and so many bytes, aliasing the input.
func (d *decoder) bytes() []byte { return d.take(uint64(d.u32())) }

// end returns an error unless everything was read and nothing is left.
func (d *decoder) end(what string) error {
	if d.short {
		return badFrame("%s ends early", what)
	}
	if len(d.src) != 0 {
		return badFrame("%d bytes follow the %s", len(d.src), what)
	}
	return nil
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(b))), b...)
}
