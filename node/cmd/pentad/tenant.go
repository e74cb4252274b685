package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/registry"
)

func (a *app) tenantCommand() *cobra.Command {
	c := cli.Group("tenant", "Manage names of tenants",
		"  pentad tenant set 1 --name acme\n  pentad tenant ls\n"+
			"  pentad get --tenant acme --cap now-24h..",
		a.tenantSetCommand(), a.tenantListCommand(), a.tenantRemoveCommand())
	c.Long = `Manage names of tenants. A tenant is its cid. Its name may be written in place of the number in
the selectors --cid or --tenant of queries, in put and delete, and in records that these read.
Names are stored as records that queries do not show.`
	return c
}

func (a *app) tenantSetCommand() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "set CID",
		Short: "Set the name of a tenant",
		Args:  cli.Arguments(1, 1, "the cid"),
		Example: `  pentad tenant set 1 --name acme
  pentad tenant set 2 --name "beta gmbh"
  pentad tenant set 3 --name gamma -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			cid, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil || cid < 0 {
				return cli.Usagef("cid %q: not an integer from 0", args[0])
			}
			if err := registry.CheckTenantName(name); err != nil {
				return cli.Usagef("--name: %w", err)
			}
			return a.tenantSet(c.Context(), client.Tenant{CID: int32(cid), Name: name})
		},
	}
	c.Flags().StringVar(&name, "name", "", "name of the tenant, e.g. acme")
	return c
}

func (a *app) tenantSet(ctx context.Context, t client.Tenant) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.NameTenant(ctx, t.CID, t.Name); err != nil {
		return err
	}
	return a.One(tenantColumns(), tenantRow(t)...)
}

func tenantColumns() []output.Column {
	return []output.Column{cli.Right("cid"), cli.Left("name")}
}

func tenantRow(t client.Tenant) []output.Value {
	return []output.Value{output.Int(t.CID), output.Text(t.Name)}
}

func (a *app) tenantListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List tenants that have names",
		Args:  cli.NoCommand,
		Example: `  pentad tenant ls
  pentad tenant ls -o csv
  pentad tenant ls -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			return cli.List(c.Context(), a.App, (*client.Client).Tenants, tenantColumns(),
				tenantRow)
		},
	}
}

func (a *app) tenantRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove the name of a tenant, whose records stay",
		Args:  cli.Arguments(1, 1, "the name of a tenant"),
		Example: `  pentad tenant rm a
  pentad tenant rm b -o json
  pentad tenant rm c -q`,
		RunE: func(c *cobra.Command, args []string) error {
			if registry.ReadsAsIDs(args[0]) {
				return cli.Usagef("tenant %q: want the name, and not the number; pentad tenant "+
					"ls lists both", args[0])
			}
			db, err := a.Connect(c.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			if err := db.ForgetTenant(c.Context(), args[0]); err != nil {
				return err
			}
			return a.One([]output.Column{cli.Left("removed")}, output.Text(args[0]))
		},
	}
}
