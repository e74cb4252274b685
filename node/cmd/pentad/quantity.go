package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) quantityCommand() *cobra.Command {
	c := cli.Group("quantity", "Manage declarations of quantities",
		"  pentad quantity set 7 --name heat --unit kWh --type f64\n  pentad quantity ls\n"+
			"  pentad plugin run stats --moid 7",
		a.quantitySetCommand(), a.quantityListCommand(), a.quantityRemoveCommand())
	c.Long = `Manage declarations of quantities: name, unit and payload type of a moid. Records do not change.
Commands show and read payloads as declared, without --type; tables name the quantity and its unit;
put and import csv reject what does not fit. Quantities that are bytes take every payload.

Plugins that read numbers decode payloads as declared, and are refused if they cannot; --unchecked
runs them anyway. The modulus of a meter's register is a parameter of delta wherever none is given.`
	return c
}

func (a *app) quantitySetCommand() *cobra.Command {
	var q client.Quantity
	var fields []string
	c := &cobra.Command{
		Use:   "set MOID",
		Short: "Declare a quantity",
		Args:  cli.Arguments(1, 1, "the moid"),
		Example: `  pentad quantity set 1 --name energy --unit kWh --type f64
  pentad quantity set 6 --name register --unit kWh --type f64 --modulus 100000
  pentad quantity set 8 --name "phase 1" --fields power:f32:0,voltage:f32:4
  pentad quantity set 9 --name remark --type bytes -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.quantitySet(c.Context(), args[0], q, fields)
		},
	}
	flags := c.Flags()
	flags.Var((*cli.FilledFlag)(&q.Name), "name", "name of the quantity, e.g. energy")
	flags.StringVar(&q.Unit, "unit", "", "unit of the numbers, e.g. kWh")
	flags.StringVar(&q.Type, "type", "",
		"type of payloads: f64, f32, i64, i32, u32, text (a decimal number) or bytes")
	flags.StringSliceVar(&fields, "fields", nil,
		"fields of payloads with several numbers: NAME:TYPE:OFFSET,...")
	flags.Float64Var(&q.Modulus, "modulus", 0,
		"where the register of a meter begins again, e.g. 100000 for five digits,\nfor plugins "+
			"with this parameter (0: it does not)")
	cli.Complete(c, "type", "f64", "f32", "i64", "i32", "u32", "text", "bytes")
	return c
}

func parseMOID(text string) (int32, error) {
	moid, err := strconv.ParseInt(text, 10, 32)
	if err != nil || moid < 0 {
		return 0, cli.Usagef("moid %q: not an integer from 0", text)
	}
	return int32(moid), nil
}

func (a *app) quantitySet(
	ctx context.Context, moid string, q client.Quantity, fields []string,
) (err error) {
	if q.MOID, err = parseMOID(moid); err != nil {
		return err
	}
	if q.Name == "" {
		return cli.Usagef("--name is required, e.g. --name energy")
	}
	if (q.Type == "") == (len(fields) == 0) {
		return cli.Usagef("--type or --fields: give exactly one of them")
	}
	if len(fields) > 0 {
		q.Type = "struct"
	}
	for _, text := range fields {
		parts := strings.Split(text, ":")
		if len(parts) != 3 {
			return cli.Usagef("--fields %q: malformed; use NAME:TYPE:OFFSET", text)
		}
		offset, err := strconv.ParseUint(parts[2], 10, 32)
		if err != nil {
			return cli.Usagef("--fields %q: %q is not an offset in bytes", text, parts[2])
		}
		q.Fields = append(q.Fields, client.QuantityField{Name: parts[0], Type: parts[1],
			Offset: uint32(offset)})
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.SetQuantity(ctx, q); err != nil {
		return err
	}
	return a.One(quantityColumns(), quantityRow(q)...)
}

func quantityColumns() []output.Column {
	return []output.Column{cli.Right("moid"), cli.Left("name"), cli.Left("unit"), cli.Left("type"),
		cli.Left("fields"), cli.Right("modulus")}
}

func quantityRow(q client.Quantity) []output.Value {
	fields := make([]string, len(q.Fields))
	for i, f := range q.Fields {
		fields[i] = fmt.Sprintf("%s:%s:%d", f.Name, f.Type, f.Offset)
	}
	modulus := output.Null()
	if q.Modulus != 0 {
		modulus = output.Float(q.Modulus)
	}
	return []output.Value{output.Int(q.MOID), output.Text(q.Name), output.Text(q.Unit),
		output.Text(q.Type), output.Text(strings.Join(fields, ",")), modulus}
}

func (a *app) quantityListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List declared quantities",
		Args:  cli.NoCommand,
		Example: `  pentad quantity ls
  pentad quantity ls -o csv
  pentad quantity ls -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return a.quantityList(c.Context()) },
	}
}

func (a *app) quantityList(ctx context.Context) error {
	return cli.List(ctx, a.App, (*client.Client).Quantities, quantityColumns(), quantityRow)
}

func (a *app) quantityRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm MOID",
		Short: "Remove the declaration of a quantity",
		Args:  cli.Arguments(1, 1, "the moid"),
		Example: `  pentad quantity rm 31
  pentad quantity rm 32 -o json
  pentad quantity rm 33 -q`,
		RunE: func(c *cobra.Command, args []string) error {
			moid, err := parseMOID(args[0])
			if err != nil {
				return err
			}
			db, err := a.Connect(c.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			if err := db.ForgetQuantity(c.Context(), moid); err != nil {
				return err
			}
			return a.One([]output.Column{cli.Right("removed")}, output.Int(moid))
		},
		ValidArgsFunction: cli.First(a.Completion(cli.QuantityIDs)),
	}
}
