package registry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// A description as payload, integers and floats little-endian:
//
//	version     1 byte, 1
//	fields      each: its number, 1 byte; its length, 3 bytes; its bytes
//
//	1 name, 2 type, 3 group    a text
//	4 place                    latitude, longitude, and the altitude if known: 8 bytes each
//	5 attributes               each: the length of its key, 1 byte; the key; its kind, 1 byte; of
//	                           a text (1) its length, 2 bytes, and it; of a number (2) 8 bytes; of
//	                           a boolean (3) 1 byte, 0 or 1
//	6 metadata                 a text
//	7 retired                  empty
//	8 replaces, 9 replaced by  a mid, 8 bytes
//
// Fields, and keys of attributes, ascend; what a description does not have has no field. So one
// description has one form. A later version gets another first byte.
const (
	encodingVersion = 1

	fieldName       = 1
	fieldType       = 2
	fieldGroup      = 3
	fieldPlace      = 4
	fieldAttributes = 5
	fieldMetadata   = 6
	fieldRetired    = 7
	fieldReplaces   = 8
	fieldReplacedBy = 9

	fieldHeaderBytes = 1 + 3
	placeBytes       = 2 * 8 // and 8 more with an altitude
)

// Append appends a description as payload. The error is that of [Description.Check].
func Append(dst []byte, d *Description) ([]byte, error) {
	if err := d.Check(); err != nil {
		return dst, err
	}
	dst = append(dst, encodingVersion)
	dst = appendField(dst, fieldName, d.Name)
	dst = appendField(dst, fieldType, d.Type)
	dst = appendField(dst, fieldGroup, d.Group)
	if p := d.Place; p != nil {
		parts := []float64{p.Lat, p.Lon, p.Alt}
		if !p.HasAlt {
			parts = parts[:2]
		}
		dst = appendHeader(dst, fieldPlace, 8*len(parts))
		for _, f := range parts {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(f+0))
		}
	}
	if len(d.Attributes) > 0 {
		dst = appendHeader(dst, fieldAttributes, d.attributeBytes())
		for _, key := range slices.Sorted(maps.Keys(d.Attributes)) {
			dst = append(append(dst, byte(len(key))), key...)
			dst = d.Attributes[key].append(dst)
		}
	}
	dst = appendField(dst, fieldMetadata, d.Metadata)
	if d.Retired {
		dst = appendHeader(dst, fieldRetired, 0)
	}
	dst = appendMID(dst, fieldReplaces, d.Replaces)
	return appendMID(dst, fieldReplacedBy, d.ReplacedBy), nil
}

func appendHeader(dst []byte, field byte, size int) []byte {
	return append(dst, field, byte(size), byte(size>>8), byte(size>>16))
}

func appendField(dst []byte, field byte, text string) []byte {
	if text == "" {
		return dst
	}
	return append(appendHeader(dst, field, len(text)), text...)
}

func appendMID(dst []byte, field byte, mid int64) []byte {
	if mid == 0 {
		return dst
	}
	return binary.LittleEndian.AppendUint64(appendHeader(dst, field, 8), uint64(mid))
}

func (v Value) append(dst []byte) []byte {
	dst = append(dst, byte(v.kind))
	switch v.kind {
	case KindText:
		return append(binary.LittleEndian.AppendUint16(dst, uint16(len(v.text))), v.text...)
	case KindNumber:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.number))
	}
	return append(dst, byte(v.number))
}

// size is how many bytes Append writes, at most.
func (d *Description) size() int {
	n := 1 + d.attributeBytes()
	for _, text := range []string{d.Name, d.Type, d.Group, d.Metadata} {
		n += fieldHeaderBytes + len(text)
	}
	return n + fieldHeaderBytes + placeBytes + 8 + 4*fieldHeaderBytes + 2*8
}

func (d *Description) attributeBytes() (n int) {
	for key, v := range d.Attributes {
		n += 1 + len(key) + 1
		switch v.kind {
		case KindText:
			n += 2 + len(v.text)
		case KindNumber:
			n += 8
		default:
			n++
		}
	}
	return n
}

// errShort is a description that ends early.
var errShort = errors.New("the description ends early")

// Parse reads a description from a payload, which it does not keep. It accepts what [Append]
// writes, and what it wrote before: names that read as ids, and attributes called metadata.
//
// Cost: allocates in proportion to the payload.
func Parse(payload []byte) (*Description, error) {
	switch {
	case len(payload) > MaxBytes:
		return nil, fmt.Errorf("the description has %d bytes, at most %d", len(payload), MaxBytes)
	case len(payload) == 0:
		return nil, errShort
	case payload[0] != encodingVersion:
		return nil, fmt.Errorf("the description is of version %d, and version %d is known here; "+
			"use a newer pentad", payload[0], encodingVersion)
	}
	d := &Description{}
	last := byte(0)
	for rest := payload[1:]; len(rest) > 0; {
		if len(rest) < fieldHeaderBytes {
			return nil, errShort
		}
		field, size := rest[0], int(rest[1])|int(rest[2])<<8|int(rest[3])<<16
		rest = rest[fieldHeaderBytes:]
		if size > len(rest) {
			return nil, errShort
		}
		if field <= last {
			return nil, fmt.Errorf("field %d comes after field %d", field, last)
		}
		last = field
		if err := d.parseField(field, rest[:size]); err != nil {
			return nil, err
		}
		rest = rest[size:]
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Description) parseField(field byte, b []byte) error {
	if empty := len(b) == 0; empty != (field == fieldRetired) {
		return fmt.Errorf("field %d has %d bytes", field, len(b))
	}
	switch field {
	case fieldName:
		d.Name = string(b)
	case fieldType:
		d.Type = string(b)
	case fieldGroup:
		d.Group = string(b)
	case fieldMetadata:
		d.Metadata = string(b)
	case fieldRetired:
		d.Retired = true
	case fieldReplaces:
		return parseMID(&d.Replaces, field, b)
	case fieldReplacedBy:
		return parseMID(&d.ReplacedBy, field, b)
	case fieldPlace:
		return d.parsePlace(b)
	case fieldAttributes:
		return d.parseAttributes(b)
	default:
		return fmt.Errorf("field %d is unknown", field)
	}
	return nil
}

func parseMID(mid *int64, field byte, b []byte) error {
	if len(b) != 8 {
		return fmt.Errorf("field %d has %d bytes, not 8", field, len(b))
	}
	if *mid = int64(binary.LittleEndian.Uint64(b)); *mid == 0 {
		return fmt.Errorf("field %d is 0", field)
	}
	return nil
}

func (d *Description) parsePlace(b []byte) error {
	if len(b) != placeBytes && len(b) != placeBytes+8 {
		return fmt.Errorf("the place has %d bytes", len(b))
	}
	p := &Place{HasAlt: len(b) > placeBytes}
	for i, f := range []*float64{&p.Lat, &p.Lon, &p.Alt} {
		if 8*i == len(b) {
			break
		}
		*f = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		if *f == 0 && math.Signbit(*f) {
			return errors.New("the place has a negative zero")
		}
	}
	d.Place = p
	return nil
}

func (d *Description) parseAttributes(b []byte) error {
	d.Attributes = map[string]Value{}
	for last := ""; len(b) > 0; {
		n := 1 + int(b[0])
		if n >= len(b) {
			return errShort
		}
		key := string(b[1:n])
		if key <= last {
			return fmt.Errorf("the attribute %q comes after %q", key, last)
		}
		if len(d.Attributes) == MaxAttributes {
			return fmt.Errorf("more than %d attributes", MaxAttributes)
		}
		last = key
		v, rest, err := parseValue(Kind(b[n]), b[n+1:])
		if err != nil {
			return fmt.Errorf("the attribute %q: %w", key, err)
		}
		d.Attributes[key], b = v, rest
	}
	return nil
}

func parseValue(kind Kind, b []byte) (v Value, rest []byte, err error) {
	switch kind {
	case KindText:
		if len(b) < 2 {
			return v, nil, errShort
		}
		n := int(binary.LittleEndian.Uint16(b))
		if b = b[2:]; n > len(b) {
			return v, nil, errShort
		}
		return Text(string(b[:n])), b[n:], nil
	case KindNumber:
		if len(b) < 8 {
			return v, nil, errShort
		}
		f := math.Float64frombits(binary.LittleEndian.Uint64(b))
		if f == 0 && math.Signbit(f) {
			return v, nil, errors.New("it is a negative zero")
		}
		return Number(f), b[8:], nil
	case KindBool:
		if len(b) < 1 {
			return v, nil, errShort
		}
		if b[0] > 1 {
			return v, nil, fmt.Errorf("the boolean is %d", b[0])
		}
		return Bool(b[0] == 1), b[1:], nil
	}
	return v, nil, fmt.Errorf("the kind %d is unknown", kind)
}
