package arrowfile

import "encoding/binary"

const (
	// maxFields bounds the fields of a schema, those in fields included.
	maxFields = 1 << 14
	// maxNamedBytes bounds what names and metadata of a schema take when each is copied.
	maxNamedBytes = 64 << 20
	maxDepth      = 64
)

// verify panics at metadata of a message in which a length or an offset leads outside. The library
// allocates what lengths say, and that cannot be recovered from.
//
// Source: Message.fbs, Schema.fbs of Apache Arrow; the layout of FlatBuffers.
func verify(metadata []byte) {
	v := &verifier{b: metadata}
	message := v.table(v.reference(0))
	header := v.field(message, 2)
	if header == 0 {
		panic("the message has no header")
	}
	kind := byte(0)
	if at := v.field(message, 1); at != 0 {
		kind = v.b[at]
	}
	v.pairs(message, 4)
	switch at := v.table(v.reference(header)); kind {
	case 1:
		v.vector(at, 3, 8)
		v.pairs(at, 2)
		v.fields(at, 1, 0)
	case 2:
		if data := v.field(at, 1); data != 0 {
			v.batch(v.table(v.reference(data)))
		}
	case 3:
		v.batch(at)
	}
}

// verifier walks tables; positions are offsets in b, and 0 is what is not there.
type verifier struct {
	b             []byte
	count, copied int // fields and bytes of texts met so far
}

// need panics unless there are size bytes at a position.
func (v *verifier) need(at, size int) {
	if at < 0 || size < 0 || at > len(v.b)-size {
		panic("an offset points outside of the metadata")
	}
}

// reference follows an offset.
func (v *verifier) reference(at int) int {
	v.need(at, 4)
	return at + int(binary.LittleEndian.Uint32(v.b[at:]))
}

// table checks that there is a table.
func (v *verifier) table(at int) int {
	v.need(at, 4)
	fields := at - int(int32(binary.LittleEndian.Uint32(v.b[at:])))
	v.need(fields, 4)
	v.need(fields, max(int(binary.LittleEndian.Uint16(v.b[fields:])), 4))
	return at
}

// field returns where a field of a table lies.
func (v *verifier) field(table, slot int) int {
	fields := table - int(int32(binary.LittleEndian.Uint32(v.b[table:])))
	entry := 4 + 2*slot
	if entry >= int(binary.LittleEndian.Uint16(v.b[fields:])) { // as the library compares
		return 0
	}
	v.need(fields+entry, 2)
	offset := int(binary.LittleEndian.Uint16(v.b[fields+entry:]))
	if offset == 0 {
		return 0
	}
	v.need(table+offset, 1)
	return table + offset
}

// vector checks the length of a vector and returns where its first element lies.
func (v *verifier) vector(table, slot, size int) (first, count int) {
	at := v.field(table, slot)
	if at == 0 {
		return 0, 0
	}
	at = v.reference(at)
	v.need(at, 4)
	length := binary.LittleEndian.Uint32(v.b[at:])
	if uint64(length) > uint64(len(v.b)/size) {
		panic("a length exceeds the metadata")
	}
	v.need(at+4, int(length)*size)
	return at + 4, int(length)
}

// text counts what a copy of a text takes.
func (v *verifier) text(table, slot int) {
	_, count := v.vector(table, slot, 1)
	if v.copied += count; v.copied > maxNamedBytes {
		panic("field names take too much memory")
	}
}

func (v *verifier) pairs(table, slot int) {
	first, count := v.vector(table, slot, 4)
	for i := range count {
		pair := v.table(v.reference(first + 4*i))
		v.text(pair, 0)
		v.text(pair, 1)
	}
}

func (v *verifier) fields(table, slot, depth int) {
	first, count := v.vector(table, slot, 4)
	if v.count += count; v.count > maxFields || depth > maxDepth {
		panic("the schema has too many fields")
	}
	for i := range count {
		field := v.table(v.reference(first + 4*i))
		v.text(field, 0)
		v.pairs(field, 6)
		if at, kind := v.field(field, 3), v.field(field, 2); at != 0 && kind != 0 {
			switch v.b[kind] {
			case 10: // a timestamp has the name of its zone
				v.text(v.table(v.reference(at)), 1)
			case 14: // a union has the numbers of its types
				v.vector(v.table(v.reference(at)), 1, 4)
			}
		}
		v.fields(field, 5, depth+1)
	}
}

func (v *verifier) batch(table int) {
	v.vector(table, 1, 16)
	v.vector(table, 2, 16)
	v.vector(table, 4, 8)
}
