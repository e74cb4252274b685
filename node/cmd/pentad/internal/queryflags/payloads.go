package queryflags

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// TypeFlag is --type. Without it payloads are of the types that their quantities are declared as,
// and of another type where none is declared.
type TypeFlag struct {
	name  string
	kind  quantity.Type // of name
	other quantity.Type // of quantities that are not declared
}

// NamedType returns the flag as if a type was given that is one of payloads.
func NamedType(name string) *TypeFlag {
	kind, err := output.ParsePayloadType(name)
	if err != nil {
		return nil
	}
	return &TypeFlag{name: name, kind: kind}
}

// Add adds --type; other is the type of quantities that are not declared.
func (f *TypeFlag) Add(c *cobra.Command, usage, other string) {
	c.Flags().Var((*cli.FilledFlag)(&f.name), "type",
		usage+": "+output.PayloadTypes+
			"\n(default: as declared by pentad quantity, else "+other+")")
	cli.Complete(c, "type", "f64", "f32", "i64", "i32", "u32", "text", "hex", "base64")
}

// Check reads the flag, and the type of quantities that are not declared.
func (f *TypeFlag) Check(other string) (err error) {
	if f.other, err = output.ParsePayloadType(other); err != nil {
		return cli.Usage(err)
	}
	if f.name == "" {
		return nil
	}
	if f.kind, err = output.ParsePayloadType(f.name); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// Given reports whether the flag is there: then declarations do not count.
func (f *TypeFlag) Given() bool { return f.name != "" }

// Named is the type that the flag names, if it is given.
func (f *TypeFlag) Named() quantity.Type { return f.kind }

// Types returns how payloads are read. It asks for the declared quantities unless the flag is
// given.
func (f *TypeFlag) Types(ctx context.Context, db *client.Client) (quantity.Types, error) {
	if f.Given() {
		return f.kind, nil
	}
	all, err := NewestQuantities(ctx, db)
	if err != nil {
		return nil, err
	}
	return quantity.NewDeclared(all, f.other), nil
}

// Payloads is how a command shows the payloads of records. A table names their quantities: in the
// header of the values if all rows have one, else in a column.
type Payloads struct {
	types    quantity.Types
	declared quantity.Declared // none if --type is given
	value    output.Column
	named    bool           // there is a column of quantities
	shown    map[int32]bool // moids in the table
	opaque   opaqueHint
}

// Payloads asks for the declared quantities of moids, unless the flag is given.
func (f *TypeFlag) Payloads(
	ctx context.Context, a *cli.App, db *client.Client, q *Flags, moids record.RangeSet,
) (*Payloads, error) {
	p := &Payloads{types: f.kind, value: output.PayloadColumn(f.kind)}
	if f.Given() {
		return p, nil
	}
	all, err := q.quantities(ctx, db, moids)
	if err != nil {
		return nil, err
	}
	p.declared = quantity.NewDeclared(all, f.other)
	p.opaque.wanted = a.Getenv("PENTAD_TYPE") == ""
	p.types, p.value = p.declared, output.PayloadColumn(f.other)
	right, valued := true, false
	for _, one := range all {
		kind, fields := p.declared.Of(one.MOID), len(one.Fields) > 0
		if !kind.Raw() || fields {
			right, valued = right && kind != quantity.Text && !fields, true
		}
	}
	if valued {
		p.value = output.Column{Name: "value", Right: right}
	}
	format, err := a.Format()
	if p.named = format == output.Table && len(all) > 0; p.named {
		p.shown = map[int32]bool{}
	}
	return p, err
}

// Column returns the column of values.
func (p *Payloads) Column() output.Column { return p.value }

// QuantityColumn returns the column that names quantities, none where nothing is declared.
func (p *Payloads) QuantityColumn() []output.Column {
	if !p.named {
		return nil
	}
	return []output.Column{cli.Left("quantity")}
}

// AppendQuantity appends the cell of QuantityColumn to a row that is shown.
func (p *Payloads) AppendQuantity(row []output.Value, moid int32) []output.Value {
	if !p.named {
		return row
	}
	p.shown[moid] = true
	return append(row, output.Text(nameOf(p.declared, moid)))
}

// Value is the payload of a record, or that it is a tombstone.
func (p *Payloads) Value(moid int32, tomb bool, payload []byte) output.Value {
	if tomb {
		return output.Deleted()
	}
	if q := quantity.Struct(p.types, moid); q != nil {
		if object, same := quantity.AppendShown(nil, q, payload); same {
			return output.Raw(object)
		}
	}
	kind := p.types.Of(moid)
	if p.opaque.wanted && kind.Raw() && p.declared.Quantity(moid) == nil {
		p.opaque.see(moid, payload)
	}
	if kind.Raw() && p.value.Name != output.PayloadColumn(kind).Name {
		return output.RawPayload(kind, payload)
	}
	return output.Payload(kind, payload)
}

// ValueOf is the payload of a record in a batch, or that it is a tombstone.
func (p *Payloads) ValueOf(b *record.Batch, i int) output.Value {
	if b.Tomb(i) {
		return output.Deleted()
	}
	return p.Value(b.MOID[i], false, b.Payload(i))
}

// Head names the quantity in the header of the values, and leaves out its own column, if the rows
// of a table are of one quantity. It is called before a table is closed; at is where
// QuantityColumn is, values where there are values.
func (p *Payloads) Head(w *output.Writer, at int, values ...int) {
	if !p.named || len(p.shown) != 1 {
		if p.named && !p.anyDeclared() {
			w.SetColumn(at, output.Column{Omit: true})
		}
		return
	}
	w.SetColumn(at, output.Column{Omit: true})
	for moid := range p.shown {
		one := p.declared.Quantity(moid)
		if one == nil {
			return
		}
		for _, i := range values {
			head := w.Column(i)
			head.Unit = one.Unit
			if head.Name == p.value.Name {
				head.Name = one.Name
			} else {
				head.Name = "old_" + one.Name
			}
			w.SetColumn(i, head)
		}
	}
}

func (p *Payloads) anyDeclared() bool {
	for moid := range p.shown {
		if p.declared.Quantity(moid) != nil {
			return true
		}
	}
	return false
}

// nameOf is the name of a quantity with its unit, "" if it is not declared.
func nameOf(d quantity.Declared, moid int32) string {
	q := d.Quantity(moid)
	switch {
	case q == nil:
		return ""
	case q.Unit == "":
		return q.Name
	}
	return q.Name + " (" + q.Unit + ")"
}

// quantities returns the declared quantities of moids. It asks the node once for a command.
func (q *Flags) quantities(
	ctx context.Context, db *client.Client, moids record.RangeSet,
) ([]client.Quantity, error) {
	if q.declared == nil {
		all, err := db.Quantities(ctx)
		if err != nil {
			return nil, err
		}
		q.declared = &all
	}
	return slices.DeleteFunc(slices.Clone(*q.declared), func(one client.Quantity) bool {
		return !moids.Contains(int64(one.MOID))
	}), nil
}

// Names returns the name of each declared quantity for a table of groups by moid, nil for other
// tables and if nothing is declared.
func (q *Flags) Names(
	ctx context.Context, a *cli.App, db *client.Client, query *record.Query,
) (Names, error) {
	format, err := a.Format()
	if err != nil || format != output.Table || !query.GroupBy.MOID {
		return nil, err
	}
	all, err := q.quantities(ctx, db, query.Box[record.MOID])
	if err != nil || len(all) == 0 {
		return nil, err
	}
	declared := quantity.NewDeclared(all, quantity.Base64)
	return func(moid int32) string { return nameOf(declared, moid) }, nil
}

// Names returns the name of a quantity with its unit, "" if it is not declared.
type Names func(moid int32) string

// ofQuantity returns " of NAME (UNIT)" if a command asks for one quantity that is declared, else
// nothing.
func (q *Flags) ofQuantity(
	ctx context.Context, db *client.Client, query *record.Query,
) (string, error) {
	moids := query.Box[record.MOID]
	if len(moids) != 1 || moids[0].To != moids[0].From+1 {
		return "", nil
	}
	all, err := q.quantities(ctx, db, moids)
	if err != nil || len(all) == 0 {
		return "", err
	}
	return " of " + nameOf(quantity.NewDeclared(all, quantity.Base64), all[0].MOID), nil
}
