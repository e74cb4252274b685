package seal

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Definition is what a schema is made of, and its JSON form.
type Definition struct {
	ID uint16 `json:"schema"` // in every payload; never given to another schema of the tenant
	// MaxRecords bounds how many records are ever summed together. By it and the Max of fields the
	// schema proves that no sum overflows.
	MaxRecords uint64  `json:"max_records"`
	Fields     []Field `json:"fields"`
	// Envelope adds a part that only a holder of the key reads, and that authenticates the whole
	// payload and its key when one record is opened. Without it a payload is lean: its values are
	// those of its lanes.
	Envelope bool `json:"envelope,omitempty"`
	// MAC adds 16 bytes that authenticate sums.
	MAC *MAC `json:"mac,omitempty"`
}

// MAC asks for authenticated sums.
type MAC struct {
	// Scope: sums of one device are authenticated, or those over all devices of a tenant. With the
	// second, who has the key of one device and the node can forge sums of all.
	Scope Scope `json:"scope,omitempty"`
}

// laneKind says what a lane adds.
type laneKind uint8

const (
	laneSum laneKind = iota
	laneSquares
	laneTrend
	laneCount // 1 when the value is in the bucket
)

// lane is one number of a payload that is added while it is encrypted.
type lane struct {
	field  int // of the definition
	kind   laneKind
	bucket int // with laneCount
	width  int // bytes
	offset int // in the payload
	pad    int // offset in the row of pads of the field
}

// section is an order or equality tag in a payload.
type section struct {
	field  int
	offset int
	width  int
}

// Schema is a definition that holds, with the layout of payloads. It is immutable.
type Schema struct {
	def      Definition
	lanes    []lane // in the order in which they lie
	padWidth []int  // of each field: bytes of a row; 0 if it has no lanes
	order    []section
	equal    []section
	mac      int   // offset, 0 without
	prefix   int   // bytes in front of the envelope
	flags    uint8 // of payloads without a correction
	print    [sha256.Size]byte
}

// NewSchema checks a definition and lays out its payloads. It fails where a lane could overflow,
// and where order is asked for without an acknowledgement of what it tells.
func NewSchema(def Definition) (*Schema, error) {
	s := &Schema{def: def}
	s.def.Fields = slices.Clone(def.Fields)
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("schema %d: %w", def.ID, err)
	}
	for i := range s.def.Fields {
		if err := s.addLanes(i); err != nil {
			return nil, fmt.Errorf("schema %d: field %q: %w", def.ID, s.def.Fields[i].Name, err)
		}
	}
	s.place()
	s.print = fingerprint(&s.def)
	if def.MAC != nil {
		s.flags |= flagMAC
	}
	if def.Envelope {
		s.flags |= flagEnvelope
	}
	if s.prefix > maxPrefix {
		return nil, fmt.Errorf("schema %d: %d bytes in front of the envelope, at most %d; "+
			"use fewer buckets", def.ID, s.prefix, maxPrefix)
	}
	return s, nil
}

// ParseSchema reads the JSON form of a definition.
func ParseSchema(source []byte) (*Schema, error) {
	var def Definition
	d := json.NewDecoder(bytes.NewReader(source))
	d.DisallowUnknownFields()
	err := d.Decode(&def)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return nil, fmt.Errorf("schema: %s: a JSON %s does not fit there", wrong.Field, wrong.Value)
	}
	if wrong := (*json.SyntaxError)(nil); errors.As(err, &wrong) {
		return nil, fmt.Errorf("schema: line %d: %w", lineOf(source, wrong.Offset), err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		end := len(bytes.TrimSpace(source))
		return nil, fmt.Errorf("schema: line %d: it ends within the JSON",
			lineOf(source, int64(end)))
	}
	if err != nil {
		return nil, fmt.Errorf("schema: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if d.More() {
		return nil, fmt.Errorf("schema: there is more after its end")
	}
	return NewSchema(def)
}

// lineOf is the number of the line of a byte, from 1 on.
func lineOf(source []byte, at int64) int {
	return 1 + bytes.Count(source[:min(at, int64(len(source)))], []byte{'\n'})
}

// Definition returns a copy of what the schema was made of.
func (s *Schema) Definition() Definition {
	def := s.def
	def.Fields = slices.Clone(def.Fields)
	return def
}

// ID is the schema's number in every payload.
func (s *Schema) ID() uint16 { return s.def.ID }

// LeanBytes is the size of a payload without its envelope.
func (s *Schema) LeanBytes() int { return s.prefix }

func (s *Schema) check() error {
	switch n := len(s.def.Fields); {
	case n == 0 || n > maxFields:
		return fmt.Errorf("%d fields; there are 1 to %d", n, maxFields)
	case s.def.MaxRecords == 0:
		return fmt.Errorf("max_records: say how many records are ever summed together at most")
	}
	ids, names := map[uint16]bool{}, map[string]bool{}
	for i := range s.def.Fields {
		f := &s.def.Fields[i]
		if err := f.check(); err != nil {
			return fmt.Errorf("field %d %q: %w", i+1, f.Name, err)
		}
		if ids[f.ID] || names[f.Name] {
			return fmt.Errorf("field %d %q: its id %d or its name is that of another field", i+1,
				f.Name, f.ID)
		}
		ids[f.ID], names[f.Name] = true, true
		if !s.def.Envelope && !f.Sum {
			return fmt.Errorf("field %q has no sum, so its value is nowhere to be read: "+
				"set envelope", f.Name)
		}
	}
	if s.def.MAC == nil {
		return nil
	}
	if err := s.def.MAC.Scope.check(); err != nil {
		return fmt.Errorf("mac: %w", err)
	}
	if !slices.ContainsFunc(s.def.Fields, func(f Field) bool { return f.Sum }) {
		return fmt.Errorf("mac: authenticates sums, and no field has one")
	}
	return nil
}

// addLanes adds the lanes of a field, wide enough for all records.
func (s *Schema) addLanes(i int) error {
	f, records := &s.def.Fields[i], s.def.MaxRecords
	from := len(s.lanes)
	add := func(kind laneKind, bucket, width int) {
		s.lanes = append(s.lanes, lane{field: i, kind: kind, bucket: bucket, width: width})
	}
	wide := func(kind laneKind, name string, max ...uint64) error {
		width := needs(records, max...)
		if width == 0 {
			return fmt.Errorf("%s: %d records of at most %d overflow 128 bits; lower max or "+
				"max_records", name, records, f.Max)
		}
		add(kind, 0, width)
		return nil
	}
	if f.Sum {
		if err := wide(laneSum, "sum", f.Max); err != nil {
			return err
		}
	}
	if f.SumSquares {
		if err := wide(laneSquares, "sum_squares", f.Max, f.Max); err != nil {
			return err
		}
	}
	if f.Trend != nil {
		if err := wide(laneTrend, "trend", f.Max, f.Trend.MaxUnits); err != nil {
			return err
		}
	}
	if len(f.Histogram) > 0 {
		width := 4
		if records > math.MaxUint32 {
			width = 8
		}
		for b := range len(f.Histogram) + 1 {
			add(laneCount, b, width)
		}
	}
	pad := 0
	for k := from; k < len(s.lanes); k++ {
		s.lanes[k].pad = pad
		pad += s.lanes[k].width
	}
	s.padWidth = append(s.padWidth, pad)
	return nil
}

// place gives all parts their offsets: lanes of 8 and 16 bytes before those of 4, so that each is
// aligned to at least 4 bytes and the wide ones to 8.
func (s *Schema) place() {
	slices.SortStableFunc(s.lanes, func(a, b lane) int {
		return boolInt(a.width == 4) - boolInt(b.width == 4)
	})
	at := headerBytes
	for i := range s.lanes {
		s.lanes[i].offset = at
		at += s.lanes[i].width
	}
	at = (at + 7) / 8 * 8
	for i := range s.def.Fields {
		if o := s.def.Fields[i].Order; o != nil {
			width := 8
			if o.Width == 0 && s.def.Fields[i].Max > math.MaxInt32 {
				width = 16
			}
			s.order = append(s.order, section{i, at, width})
			at += width
		}
	}
	for i := range s.def.Fields {
		if s.def.Fields[i].Equal != nil {
			s.equal = append(s.equal, section{i, at, tagBytes})
			at += tagBytes
		}
	}
	if s.def.MAC != nil {
		s.mac = at
		at += macBytes
	}
	s.prefix = at
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fieldOf returns the place of a field by its name.
func (s *Schema) fieldOf(name string) (int, error) {
	for i := range s.def.Fields {
		if s.def.Fields[i].Name == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("schema %d has no field %q", s.def.ID, name)
}

// checkValues says which value does not fit its field.
func (s *Schema) checkValues(capNs int64, values []Value) error {
	if len(values) != len(s.def.Fields) {
		return fmt.Errorf("schema %d has %d fields, and there are %d values", s.def.ID,
			len(s.def.Fields), len(values))
	}
	for i, v := range values {
		f := &s.def.Fields[i]
		if f.Kind == Text {
			if len(v.Text) > maxTextBytes {
				return fmt.Errorf("field %q: a text of %d bytes, at most %d", f.Name, len(v.Text),
					maxTextBytes)
			}
			continue
		}
		if v.Number > int64(f.Max) || v.Number < -int64(f.Max) {
			return fmt.Errorf("field %q: %s is beyond the max of the schema, %s", f.Name,
				f.Format(v.Number), f.Format(int64(f.Max)))
		}
		if t := f.Trend; t != nil {
			if units := t.units(capNs); units > int64(t.MaxUnits) || units < -int64(t.MaxUnits) {
				return fmt.Errorf("field %q: its time is %d units from the origin of its trend, "+
					"at most %d", f.Name, units, t.MaxUnits)
			}
		}
	}
	return nil
}

// units is the time of a record, rounded down.
func (t *Trend) units(capNs int64) int64 {
	ns := wideOf(capNs).minus(wideOf(t.OriginNs))
	if !ns.fits64() {
		return math.MaxInt64 // farther than any bound
	}
	units := int64(ns.lo) / t.UnitNs
	if int64(ns.lo)%t.UnitNs < 0 {
		units--
	}
	return units
}

// Layout says where lanes lie, for the plugin sealed-stats: schema with the beginning of its
// fingerprint, bytes in front of the envelope and flags, then the width of each lane. That of a
// trend is followed by @ORIGIN/UNIT.
func (s *Schema) Layout() string {
	widths := make([]string, len(s.lanes))
	for i := range s.lanes {
		widths[i] = strconv.Itoa(s.lanes[i].width)
		if s.lanes[i].kind == laneTrend {
			t := s.def.Fields[s.lanes[i].field].Trend
			widths[i] += fmt.Sprintf("@%d/%d", t.OriginNs, t.UnitNs)
		}
	}
	return fmt.Sprintf("%v %d %d %s", s.checked(), s.prefix, s.flags, strings.Join(widths, ","))
}
