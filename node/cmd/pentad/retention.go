package main

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

const retentionHelp = `
A policy applies to a tenant, to a quantity, to both together, or with neither to all records. A
record expires when any policy that applies to it says so: it vanishes from every view, within a
fiftieth of the age, and the node removes it. What has expired stays so when a policy is made
longer or removed.`

func (a *app) retentionCommand() *cobra.Command {
	return group("retention", "How old records get",
		"  pentad retention set --cid 1 --cap-age 90d --yes\n  pentad retention list",
		a.retentionListCommand(), a.retentionSetCommand(), a.retentionRemoveCommand())
}

func (a *app) retentionListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the policies",
		Args:    noCommand,
		Example: `  pentad retention list
  pentad retention list -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return a.retentionList(c.Context()) },
	}
}

func (a *app) retentionList(ctx context.Context) error {
	return list(ctx, a, (*client.Client).Retention, retentionColumns(), retentionRow)
}

func retentionColumns() []output.Column {
	return []output.Column{right("cid"), right("moid"), right("cap_age"), right("acq_age")}
}

func retentionRow(r client.Retention) []output.Value {
	part := func(id *int32) output.Value {
		if id == nil {
			return output.All()
		}
		return output.Int(*id)
	}
	age := func(ns int64) output.Value {
		if ns == 0 {
			return output.Null()
		}
		return output.Span(time.Duration(ns))
	}
	return []output.Value{part(r.CID), part(r.MOID), age(r.MaxCapAgeNs), age(r.MaxAcqAgeNs)}
}

// policyFlags are the flags of one policy.
type policyFlags struct {
	cid, moid      string
	capAge, acqAge time.Duration

	everything, dryRun, yes bool
}

func (f *policyFlags) addScope(c *cobra.Command) {
	c.Flags().StringVar(&f.cid, "cid", "*", "tenant")
	c.Flags().StringVar(&f.moid, "moid", "*", "quantity")
}

func (f *policyFlags) policy() (r client.Retention, err error) {
	r.MaxCapAgeNs, r.MaxAcqAgeNs = int64(f.capAge), int64(f.acqAge)
	if r.CID, err = policyPart(record.CID, f.cid); err != nil {
		return r, err
	}
	r.MOID, err = policyPart(record.MOID, f.moid)
	return r, err
}

func policyPart(d record.Dim, text string) (*int32, error) {
	if text == "*" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < d.Min() || n == math.MaxInt32 {
		return nil, usagef("--%s %q: write one number, or * for all", d, text)
	}
	id := int32(n)
	return &id, nil
}

func (a *app) retentionSetCommand() *cobra.Command {
	var f policyFlags
	c := &cobra.Command{
		Use:   "set",
		Short: "Set how old the records of a tenant and quantity get",
		Long:  "Set how old the records of a tenant and quantity get.\n" + retentionHelp,
		Args:  noCommand,
		Example: `  pentad retention set --cid 1 --moid 3 --cap-age 90d --dry-run
  pentad retention set --cid 1 --moid 3 --cap-age 90d --yes
  pentad retention set --cid 2 --acq-age 24h --yes
  pentad retention set --everything --cap-age 3650d --yes`,
		RunE: func(c *cobra.Command, _ []string) error {
			policy, err := f.policy()
			switch {
			case err != nil:
				return err
			case f.capAge == 0 && f.acqAge == 0:
				return usagef("no age: give --cap-age, --acq-age or both; rm removes a policy")
			case policy.CID == nil && policy.MOID == nil && !f.everything:
				return usagef("neither --cid nor --moid is given; --everything says that all " +
					"records are meant")
			case f.dryRun:
				return a.countExpired(c.Context(), policy)
			case !f.yes:
				return usagef("what expires never comes back: count what does so now with " +
					"--dry-run, and then say --yes")
			}
			return a.setRetention(c.Context(), policy)
		},
	}
	f.addScope(c)
	c.Flags().Var((*durationFlag)(&f.capAge), "cap-age", "age since capture, as 90d")
	c.Flags().Var((*durationFlag)(&f.acqAge), "acq-age", "age since acquisition, as 24h")
	c.Flags().BoolVar(&f.everything, "everything", false,
		"all records are meant, when neither tenant nor quantity is given")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "only count the records that would expire now")
	c.Flags().BoolVar(&f.yes, "yes", false, "do it")
	return c
}

func (a *app) countExpired(ctx context.Context, policy client.Retention) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	records, err := db.CountExpired(ctx, policy)
	if err != nil {
		return err
	}
	return a.one([]output.Column{right("records")}, output.Count(records))
}

func (a *app) retentionRemoveCommand() *cobra.Command {
	var f policyFlags
	c := &cobra.Command{
		Use:     "rm",
		Short:   "Remove the policy of a tenant and quantity",
		Args:    noCommand,
		Example: `  pentad retention rm --cid 1`,
		RunE: func(c *cobra.Command, _ []string) error {
			policy, err := f.policy()
			if err != nil {
				return err
			}
			return a.setRetention(c.Context(), policy)
		},
	}
	f.addScope(c)
	return c
}

func (a *app) setRetention(ctx context.Context, policy client.Retention) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.SetRetention(ctx, policy); err != nil {
		return err
	}
	return a.one(retentionColumns(), retentionRow(policy)...)
}
