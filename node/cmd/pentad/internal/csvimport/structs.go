package csvimport

import (
	"fmt"
	"io"
	"slices"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// StructReadings are readings of quantities that are declared as structs with the same fields.
type StructReadings struct {
	quantity *plugin.Quantity
	names    []string
	texts    []bool
}

// Structs returns the readings of a checked mapping whose quantities are structs; nil if none is.
//
// Errors: some are and others are not, or have other fields.
func (m *Mapping) Structs(d quantity.Declared) (*StructReadings, error) {
	var r *StructReadings
	for i := range m.Values {
		v := &m.Values[i]
		var q *plugin.Quantity
		if moid, constant := m.constantMOID(v); constant && v.assumed {
			q = quantity.Struct(d, moid)
		}
		switch {
		case i == 0 && q != nil:
			r = &StructReadings{quantity: q}
		case (q == nil) != (r == nil) || q != nil && !slices.Equal(q.Fields, r.quantity.Fields):
			return nil, m.places.at(fmt.Sprintf("values.%d", i+1), fmt.Errorf("value %d: its "+
				"quantity has not the same fields as that of value 1; import one of them at a "+
				"time", i+1))
		}
	}
	if r == nil {
		return nil, nil
	}
	if err := r.quantity.CheckFields(); err != nil {
		return nil, err
	}
	for _, f := range r.quantity.Fields {
		r.names = append(r.names, f.Name)
		r.texts = append(r.texts, f.Type == plugin.Text || f.Type == plugin.Bytes)
	}
	return r, nil
}

// Fields implements Readings.
func (r *StructReadings) Fields() (names []string, texts []bool) { return r.names, r.texts }

// Append implements Readings.
func (r *StructReadings) Append(dst []byte, _ int64, cells [][]byte) ([]byte, error) {
	return quantity.AppendFields(dst, r.quantity, func(field string) (string, bool) {
		cell := cells[slices.Index(r.names, field)]
		return string(cell), cell != nil
	})
}

// Identify writes what the payloads follow from to a digest.
func (r *StructReadings) Identify(digest io.Writer) {
	fmt.Fprintf(digest, "struct %v\n", r.quantity.Fields)
}
