package guest

import (
	"encoding/binary"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// regionAlign is what the host wants of addresses, and more than any column needs.
const regionAlign = 64

// region is memory that the host asked for; it lives as long as the instance.
type region struct {
	at    uint32 // address of the first byte
	bytes []byte
}

// memory turns addresses from the host into slices. They always lie in a region, because the host
// writes nowhere else, so that no address is ever trusted.
type memory struct {
	regions []region // a handful
}

// alloc returns the address of size bytes, 0 when that many cannot be.
func (m *memory) alloc(size uint32) uint32 {
	if size > 1<<31 {
		return 0
	}
	whole := make([]byte, int(size)+regionAlign)
	skip := -addressOf(whole) & (regionAlign - 1)
	bytes := whole[skip : int(skip)+int(size) : int(skip)+int(size)]
	r := region{at: addressOf(bytes), bytes: bytes}
	m.regions = append(m.regions, r)
	return r.at
}

// addressOf returns where b lies. Go's collector moves nothing. Off WebAssembly it is the low half
// of an address: enough for tests, which have few regions.
func addressOf(b []byte) uint32 { return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// view returns size bytes at an address, nil for none.
func (m *memory) view(at, size uint32) []byte {
	if size == 0 {
		return nil
	}
	for i := len(m.regions) - 1; i >= 0; i-- {
		r := &m.regions[i]
		offset := at - r.at // wraps below the region, to more than its size
		if uint64(offset)+uint64(size) <= uint64(len(r.bytes)) {
			return r.bytes[offset : offset+size : offset+size]
		}
	}
	panic("guest: the host gave an address that it did not ask for")
}

// cells reads memory as values of a plain type. The host aligns columns and states to 64 bytes.
func cells[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	first := unsafe.Pointer(unsafe.SliceData(b))
	var t T
	if uintptr(first)%unsafe.Alignof(t) != 0 {
		panic("guest: the host gave an address that is not aligned")
	}
	return unsafe.Slice((*T)(first), len(b)/int(unsafe.Sizeof(t)))
}

// column returns n values at the address in a field of a header, nil where that is 0.
func column[T any](m *memory, header []byte, field, n int) []T {
	at := binary.LittleEndian.Uint32(header[field:])
	if at == 0 {
		return nil
	}
	var t T
	return cells[T](m.view(at, uint32(n)*uint32(unsafe.Sizeof(t))))
}

// readBatch reads the header at an address and finds the columns.
func (b *Batch) readBatch(m *memory, at uint32) {
	h := m.view(at, plugin.BatchHeaderSize)
	u32 := func(field int) int { return int(binary.LittleEndian.Uint32(h[field:])) }
	if u32(0) != plugin.BatchMagic {
		panic("guest: the batch does not start with its magic")
	}
	n := u32(4)
	*b = Batch{
		CID: column[int32](m, h, 16, n), MOID: column[int32](m, h, 20, n),
		MID: column[int64](m, h, 24, n), CapNs: column[int64](m, h, 28, n),
		AcqNs: column[int64](m, h, 32, n), GID: column[uint32](m, h, 36, n),
		Offsets: column[uint32](m, h, 40, n+1), Data: column[byte](m, h, 44, u32(48)),
		Stride: u32(52), Groups: u32(56), Runs: column[Run](m, h, 64, u32(60)),
		Series: column[Series](m, h, 76, u32(72)), Seq: uint32(u32(68)), Rows: n,
	}
}
