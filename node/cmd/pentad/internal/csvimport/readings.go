package csvimport

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
)

// Readings makes payloads that have several values each: those of a line that share a quantity are
// the fields of one reading. What Append makes is what leaves through Send.
type Readings interface {
	// Fields are the names of the fields, and which of them are texts.
	Fields() (names []string, texts []bool)
	// Append appends the payload of a reading: a cell for each field, nil where the line has no
	// value. An error rejects the line.
	Append(dst []byte, capNs int64, cells [][]byte) ([]byte, error)
}

// reading is what a line says of one quantity.
type reading struct {
	key   record.Key
	cells [][]byte
}

// checkReadings says what a mapping has that readings have no use for, and what they need.
func (m *Mapping) checkReadings(r Readings) error {
	for i := range m.Values {
		v := &m.Values[i]
		at := func(err error) error {
			return m.places.at(fmt.Sprintf("values.%d", i+1), fmt.Errorf("value %d: %w", i+1, err))
		}
		switch {
		case r == nil && v.Field != "":
			return at(errors.New("field: its quantity is not declared as a struct (pentad " +
				"quantity); for encrypted readings add --seal SCHEMA"))
		case r != nil && !v.assumed:
			return at(errors.New("type: leave it out; the fields of readings, or the schema of " +
				"--seal, say what values are"))
		}
	}
	if r != nil && m.MOID != nil && m.MOID.Types != nil {
		return m.places.at("moid", errors.New("moid: types: leave them out; the schema of --seal "+
			"says what values are"))
	}
	return nil
}

// fieldOf returns the number of the field that a column has the values of: by the name that the
// mapping gives it, else by its header. A schema of one field does not take any column for it.
func (p *plan) fieldOf(v *Value, label string) (int, error) {
	if p.im.opt.Readings == nil {
		return 0, nil
	}
	names, _ := p.im.opt.Readings.Fields()
	name := v.Field
	if name == "" {
		name = label
	}
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%q is not a field of the readings; name one of %s with field%s",
		excerpt.Of(name, 60), strings.Join(names, ", "), excerpt.DidYouMean(name, names))
}

// readings reads the values of a line as fields of readings.
func (p *plan) readings(fields [][]byte) *problem {
	var shared lineParts
	p.said = p.said[:0]
	names, texts := p.im.opt.Readings.Fields()
	for i := range p.values {
		v := &p.values[i]
		cell, bad := p.fieldCell(fields, v, texts[v.field])
		if bad != nil {
			return bad
		}
		if cell == nil && !p.tomb {
			p.skipped++
			continue
		}
		key, bad := p.key(fields, v, &shared)
		if bad != nil {
			return bad
		}
		r := p.readingOf(key, len(names))
		if r.cells[v.field] != nil {
			return &problem{"value", fmt.Sprintf("%s: quantity %d has a value for field %q already",
				p.column(v.column), key.MOID, names[v.field])}
		}
		r.cells[v.field] = cell
	}
	for i := range p.said {
		r := &p.said[i]
		if !p.tomb {
			var err error
			p.payloads, err = p.im.opt.Readings.Append(p.payloads, r.key.CapNs, r.cells)
			if err != nil {
				return &problem{"value", err.Error()}
			}
		}
		p.keys = append(p.keys, r.key)
		p.ends = append(p.ends, len(p.payloads))
	}
	if p.folded && p.cap.fold != FoldBoth {
		return p.claimFold()
	}
	return nil
}

// readingOf returns the reading of a quantity.
func (p *plan) readingOf(key record.Key, fields int) *reading {
	for i := range p.said {
		if p.said[i].key == key {
			return &p.said[i]
		}
	}
	p.said = append(p.said, reading{key, make([][]byte, fields)})
	return &p.said[len(p.said)-1]
}

// fieldCell returns the text of a cell, numbers with a point; nil for no value.
func (p *plan) fieldCell(fields [][]byte, v *valuePlan, text bool) ([]byte, *problem) {
	cell := fields[v.column]
	trimmed := bytes.TrimSpace(cell)
	empty := p.nulls && cell == nil || p.skips(trimmed)
	switch {
	case p.tomb && len(trimmed) > 0 && !empty:
		return nil, p.valueOfDeleted(v, cell)
	case p.tomb || empty:
		return nil, nil
	case text:
		return append([]byte{}, cell...), nil // an empty text is a value
	case p.typed != nil && p.typed[v.column]:
		return trimmed, nil
	}
	number, why := p.im.mapping.number(string(trimmed))
	if why != "" {
		return nil, &problem{"value", fmt.Sprintf("%s: %q %s", p.column(v.column), clip(cell), why)}
	}
	return []byte(number), nil
}

// valueOfDeleted rejects a value of a line that deletes.
func (p *plan) valueOfDeleted(v *valuePlan, cell []byte) *problem {
	return &problem{"value", fmt.Sprintf("%s: %q is a value of a deleted reading",
		p.column(v.column), clip(cell))}
}
