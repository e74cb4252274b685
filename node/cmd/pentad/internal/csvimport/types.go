package csvimport

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// FitTypes fits a checked mapping to the declared quantities. Values without a type take that of
// their quantity, on each line where a column has the moid. It returns the quantities that the
// mapping gives a type and that are not declared, with a name that their column suggests.
//
// Errors: a type that contradicts a declaration; a value without one whose quantity is neither a
// number nor text.
func (m *Mapping) FitTypes(d quantity.Declared) (undeclared []plugin.Quantity, err error) {
	for i := range m.Values {
		v := &m.Values[i]
		moid, constant := m.constantMOID(v)
		if !constant {
			v.ByMOID = v.assumed && !m.byName(v)
			continue
		}
		if q := d.Quantity(moid); q != nil {
			if err := v.fitType(q); err != nil {
				return nil, fmt.Errorf("value %d: %w", i+1, err)
			}
			continue
		}
		if v.assumed || moid < 0 {
			continue
		}
		same := func(q plugin.Quantity) bool { return q.MOID == moid }
		if k := slices.IndexFunc(undeclared, same); k < 0 {
			undeclared = append(undeclared, v.quantity(moid))
		} else if undeclared[k].Type != v.Type {
			return nil, fmt.Errorf("value %d: type %s, but an earlier value of quantity %d is %s; "+
				"give both one type, or each its own moid", i+1, v.Type, moid, undeclared[k].Type)
		}
	}
	return undeclared, nil
}

// constantMOID returns the quantity of a value, unless a column has it.
func (m *Mapping) constantMOID(v *Value) (moid int32, constant bool) {
	switch {
	case v.MOID != nil:
		return int32(*v.MOID), true
	case m.MOID.Constant != nil:
		return int32(*m.MOID.Constant), true
	}
	return 0, false
}

// fitType takes the type of a declared quantity, or checks that the mapping says the same.
func (v *Value) fitType(q *plugin.Quantity) error {
	t, ok := quantity.Parse(q.Type)
	scalar := ok && !t.Raw()
	switch {
	case v.assumed && scalar:
		v.Type = q.Type
	case v.assumed:
		return fmt.Errorf("%s is declared as %s, not as a number or text; name the type of its "+
			"values", quantity.Label(q), q.Type)
	case scalar && v.Type != q.Type:
		return fmt.Errorf("type %s, but %s is declared as %s; leave out the type, or declare it "+
			"again: pentad quantity set %d --name %q --unit %q --type %s", v.Type,
			quantity.Label(q), q.Type, q.MOID, q.Name, q.Unit, v.Type)
	}
	return nil
}

// quantity is what an import declares: the name of the column, if it has one that can be a name.
func (v *Value) quantity(moid int32) plugin.Quantity {
	q := plugin.Quantity{MOID: moid, Name: v.Column, Type: v.Type}
	if _, err := strconv.Atoi(q.Name); err == nil || q.Check() != nil {
		q.Name = fmt.Sprintf("quantity %d", moid)
	}
	return q
}

// contradicts says why a value of a line is not what its quantity is declared as.
func (p *plan) contradicts(moid int32, v *valuePlan) string {
	d, ok := p.im.opt.Types.(quantity.Declared)
	if !ok || v.byMOID || v.raw {
		return ""
	}
	q := d.Quantity(moid)
	if q == nil || q.Type == p.kind.String() || q.Type == plugin.Bytes || q.Type == plugin.Struct {
		return ""
	}
	return fmt.Sprintf("the mapping reads %s, but %s is declared as %s", p.kind, quantity.Label(q),
		q.Type)
}
