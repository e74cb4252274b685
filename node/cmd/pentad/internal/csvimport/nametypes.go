package csvimport

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// texts are keys and values of a mapping file as they are written there: 06 is not 6.
type texts map[string]string

// UnmarshalYAML reads keys with one value each.
func (t *texts) UnmarshalYAML(node ast.Node) error {
	pairs, ok := node.(ast.MapNode)
	if !ok {
		return &placeError{line: node.GetToken().Position.Line, err: fmt.Errorf(
			"%q has no keys", excerpt.Of(node.GetToken().Value, 60))}
	}
	*t = texts{}
	for pair := pairs.MapRange(); pair.Next(); {
		if _, ok := pair.Value().(ast.ScalarNode); !ok {
			return &placeError{line: pair.Key().GetToken().Position.Line, err: fmt.Errorf(
				"%q takes one value", excerpt.Of(keyText(pair.Key()), 60))}
		}
		(*t)[keyText(pair.Key())] = pair.Value().GetToken().Value
	}
	return nil
}

// maxDeclared is how many quantities an import declares for the names of a column: a node has room
// for 4096, and a column of the wrong name must not fill it.
const maxDeclared = 500

// checkTypes checks the types of the names of a lookup.
func (p *Part) checkTypes(name string) error {
	if p.Types == nil {
		return nil
	}
	if name != "moid" || p.Lookup == "" {
		return fmt.Errorf("types: only for a moid with a lookup")
	}
	for _, key := range slices.Sorted(maps.Keys(p.Types)) {
		t, ok := quantity.Parse(p.Types[key])
		if !ok || t.Raw() {
			return fmt.Errorf("types: %q: type %q is unknown; use f64, f32, i64, i32, u32 or text",
				key, p.Types[key])
		}
	}
	return nil
}

// byName reports whether the quantity of a value is the id of a name.
func (m *Mapping) byName(v *Value) bool {
	return v.MOID == nil && m.MOID != nil && m.MOID.Lookup != ""
}

// kindOfName is the type of a value whose quantity is the id of a name: that of the name, or that
// of the declaration if the mapping has no types, or that of the value.
func (p *plan) kindOfName(fields [][]byte, v *valuePlan) quantity.Type {
	name, bad := p.moid.text(fields, v.label)
	if bad != nil {
		return v.kind // it is found with the key
	}
	if t, ok := quantity.Parse(p.moid.part.Types[string(name)]); ok {
		return t
	}
	types, ok := p.im.opt.Types.(quantity.Declared)
	if !ok || !v.assumed || p.moid.part.Types != nil {
		return v.kind
	}
	id := p.im.lookups.Find(p.moid.part.Lookup, name)
	if q := types.Quantity(int32(id)); q == nil || dimLimit(p.moid.dim, id) != nil {
		return v.kind
	}
	return types.Of(int32(id))
}

// noteQuantity notes a quantity of a column that is not declared. It has a name if it is the id of
// a name that has a type.
func (p *plan) noteQuantity(fields [][]byte, v *valuePlan, moid int32) *problem {
	types, ok := p.im.opt.Types.(quantity.Declared)
	if !ok || v.moid != nil || p.moid.part.Constant != nil || v.raw || p.tomb || moid < 0 {
		return nil
	}
	if noted, ok := p.im.noted[moid]; ok {
		if noted != p.kind && v.byName {
			return &problem{"value", fmt.Sprintf("%s: type %s, but an earlier value of "+
				"this quantity is %s", p.column(v.column), p.kind, noted)}
		}
		return nil
	}
	if types.Quantity(moid) != nil {
		return nil
	}
	if len(p.im.noted) >= maxDeclared {
		if v.byName && p.im.lookups.inNode() {
			return &problem{"key", fmt.Sprintf("moid: more than %d new quantities; is this the "+
				"column of their names?", maxDeclared)}
		}
		return nil
	}
	p.im.noted[moid] = p.kind
	q := plugin.Quantity{MOID: moid, Type: p.kind.String()}
	if v.byName {
		name, _ := p.moid.text(fields, v.label)
		_, typed := p.moid.part.Types[string(name)]
		switch q.Name = string(name); {
		case p.im.lookups.inNode(): // the declaration is what keeps the name
		case !typed && v.assumed:
			q.Name = ""
		case q.Check() != nil:
			q.Name = "quantity " + strconv.Itoa(int(moid))
		}
	}
	p.im.undeclared = append(p.im.undeclared, q)
	return nil
}

// Undeclared returns the quantities of a column that are not declared, each once: those since the
// last call, before Send takes their records. Those with a name are to be declared.
func (im *Importer) Undeclared() []plugin.Quantity {
	out := im.undeclared
	im.undeclared = nil
	return out
}
