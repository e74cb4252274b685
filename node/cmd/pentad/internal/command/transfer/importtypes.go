package transfer

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// fitTypes fits the mapping to the declared quantities of the node.
func (r *mappedImport) fitTypes(ctx context.Context) error {
	all, err := queryflags.NewestQuantities(ctx, r.db)
	if err != nil {
		return err
	}
	declared := quantity.NewDeclared(all, quantity.F64)
	r.opt.Types = declared
	if r.structs, err = r.mapping.Structs(declared); err != nil {
		return cli.Usage(err)
	}
	if r.structs != nil {
		r.opt.Readings = r.structs
		return nil
	}
	if r.declare, err = r.mapping.FitTypes(declared); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// noteUndeclared takes the quantities of a column that are not declared.
func (r *mappedImport) noteUndeclared(all []plugin.Quantity) {
	for _, q := range all {
		if q.Name == "" {
			r.unnamed = append(r.unnamed, q)
		} else {
			r.declare = append(r.declare, q)
		}
	}
}

// noteUnnamed says how to declare the quantities that the import could not name.
func (r *mappedImport) noteUnnamed() {
	const most = 3
	for i, q := range r.unnamed {
		if i == most {
			r.app.Note("%d more quantities are not declared; see pentad quantity",
				len(r.unnamed)-most)
			return
		}
		r.app.Note("quantity %d is not declared; to show its values as %s: pentad quantity set %d "+
			"--name NAME --unit UNIT --type %s", q.MOID, q.Type, q.MOID, q.Type)
	}
}

// declareAll declares the quantities that the mapping gives a type, before their first record is
// stored.
func (r *mappedImport) declareAll(ctx context.Context) error {
	for len(r.declare) > 0 {
		q := r.declare[0]
		err := r.ownName(ctx, &q)
		if err == nil {
			err = r.db.SetQuantity(ctx, q)
		}
		if err == nil { // again: another import may have declared it at the same time
			err = r.ownName(ctx, &q)
		}
		if err != nil {
			return fmt.Errorf("declare quantity %d as %s: %w", q.MOID, q.Type, err)
		}
		r.app.Note("%s", declaredNote(&q))
		r.declare = r.declare[1:]
	}
	return nil
}

// ownName reports an error if the node keeps the names of quantities, and another import has given
// the name another id, or the id another name.
func (r *mappedImport) ownName(ctx context.Context, own *plugin.Quantity) error {
	if r.opt.LookupPath != "" || r.mapping.MOID == nil || r.mapping.MOID.Lookup == "" {
		return nil
	}
	all, err := queryflags.NewestQuantities(ctx, r.db)
	for _, q := range all {
		if (q.MOID == own.MOID) != (q.Name == own.Name) {
			return fmt.Errorf("meanwhile quantity %d was declared as %q; run the import again",
				q.MOID, q.Name)
		}
	}
	return err
}

// declaredNote says what an import declared, and how to give it a better name and a unit.
func declaredNote(q *plugin.Quantity) string {
	return fmt.Sprintf("declared quantity %d: name %q, type %s; to set its unit: pentad quantity "+
		"set %d --name %q --unit UNIT --type %s", q.MOID, q.Name, q.Type, q.MOID, q.Name, q.Type)
}
