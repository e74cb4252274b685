package main

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

const retentionHelp = `
A policy applies to a tenant, to a quantity, to both together, or to all records; a name is looked
up once, and the policy keeps the number. None is of devices, as they may be described otherwise
later: erase --select hides readings of devices. A record expires when any policy that applies to it
says so. Expiry has three phases:

  hidden    The record disappears from every view within 2 % of the age, at most 6 days. A longer
            age, "retention rm" and "retention undo" show it again.
  removable When nodes have run for --delay since it was hidden, its bytes may be removed. From then
            on it never comes back.
  removed   Its bytes are gone from the files of each node. This takes at most 10 % of the age, at
            most 30 days, plus 1.5 times the delay after expiry. Snapshots and backups keep them.

"pentad events" shows the hidden records, their approximate number and bytes, when the first of
them may be removed, and when all are. "retention hold" stops all three phases.

A policy does not follow a clock that jumps ahead: it waits until the clocks of other nodes confirm
the time, or until the clock has been there for 10 % of the jump, 10 minutes to 60 days.
"pentad health" reports this; "retention resume --trust-clock" continues at once.`

func (a *app) retentionCommand() *cobra.Command {
	return cli.Group("retention", "Manage how long records are kept",
		"  pentad retention set --cid 1 --cap-age 90d --yes\n  pentad retention list",
		a.retentionListCommand(), a.retentionSetCommand(), a.retentionRemoveCommand(),
		a.holdCommand("hold", "Stop a policy and its removals", `
The policy hides no more records, and none of its hidden records are removed, until
"retention resume". Hidden records stay hidden; "retention undo" shows them.`),
		a.holdCommand("resume", "Resume a held policy", `
The delay of hidden records starts again. --trust-clock declares the clock of the node correct, even
if it jumped: the policy continues from its reading without waiting for further evidence.`),
		a.holdCommand("undo", "Undo what a policy has hidden, and hold it", `
Hidden records that are not yet removable are shown again in all views. The policy is
held, or its next step would hide them again: correct the age or the clock, then resume. A copy made
while they were hidden lacks them; pentad sync verify reports that.`))
}

func (a *app) retentionListCommand() *cobra.Command {
	var q queryflags.Flags
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List retention policies",
		Args:    cli.NoCommand,
		Example: `  pentad retention list
  pentad retention list --names cid --names moid
  pentad retention list -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := q.ShowNames(c.Context(), a.App); err != nil {
				return err
			}
			return cli.List(c.Context(), a.App, (*client.Client).Retention, retentionColumns(),
				retentionRow)
		},
	}
	q.AddNames(c)
	return c
}

func retentionColumns() []output.Column {
	return []output.Column{cli.Right("cid"), cli.Right("moid"), cli.Right("cap_age"),
		cli.Right("acq_age"), cli.Right("delay"), cli.Right("gone_after"), cli.Left("held")}
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
	return []output.Value{part(r.CID), part(r.MOID), age(r.MaxCapAgeNs), age(r.MaxAcqAgeNs),
		age(r.DelayNs), age(goneAfter(&r)), output.Bool(r.Held)}
}

// goneAfter is how long after its capture, or acquisition where the policy has no age of that, a
// record's bytes are gone at the latest.
func goneAfter(r *client.Retention) int64 {
	const day = 24 * time.Hour
	ageNs := cmp.Or(r.MaxCapAgeNs, r.MaxAcqAgeNs)
	if ageNs == 0 {
		return 0
	}
	delay := r.DelayNs
	if delay == 0 {
		delay = min(max(ageNs/10, int64(time.Hour)), int64(3*day))
	}
	return ageNs + min(ageNs/10, int64(30*day)) + delay + delay/2
}

// policyFlags are the flags of one policy.
type policyFlags struct {
	cid, moid      string
	capAge, acqAge time.Duration
	delay          time.Duration

	everything, dryRun, yes bool
}

func (f *policyFlags) addScope(c *cobra.Command) {
	c.Flags().StringVar(&f.cid, "cid", "*", "tenant, e.g. 1 or acme (*: any); also --tenant")
	c.Flags().StringVar(&f.moid, "moid", "*",
		"quantity, e.g. 7 or energy (*: any); also --quantity")
}

// policy returns what the flags say. It asks the node only for names.
func (f *policyFlags) policy(ctx context.Context, a *app) (r client.Retention, err error) {
	r.MaxCapAgeNs, r.MaxAcqAgeNs, r.DelayNs = int64(f.capAge), int64(f.acqAge), int64(f.delay)
	names := queryflags.Resolver{Prefix: "--"}
	for _, part := range []struct {
		dim  record.Dim
		text string
		to   **int32
	}{{record.CID, f.cid, &r.CID}, {record.MOID, f.moid, &r.MOID}} {
		if part.text == "*" {
			continue
		}
		if !registry.ReadsAsIDs(part.text) && names.DB == nil {
			if names.DB, err = a.Connect(ctx); err != nil {
				return r, err
			}
			defer names.DB.Close()
		}
		id, err := names.Part(ctx, part.dim, part.text)
		if err != nil {
			return r, cli.Usage(err)
		}
		*part.to = &id
	}
	return r, nil
}

func (a *app) retentionSetCommand() *cobra.Command {
	var f policyFlags
	c := &cobra.Command{
		Use:   "set",
		Short: "Set a retention policy",
		Long:  "Set how long records of a tenant and quantity are kept.\n" + retentionHelp,
		Args:  cli.NoCommand,
		Example: `  pentad retention set --cid 1 --moid 3 --cap-age 90d --dry-run
  pentad retention set --cid 1 --moid 3 --cap-age 90d --yes
  pentad retention set --tenant a --quantity energy --acq-age 24h --yes
  pentad retention set --everything --cap-age 3650d --yes`,
		RunE: func(c *cobra.Command, _ []string) error {
			policy, err := f.policy(c.Context(), a)
			switch {
			case err != nil:
				return err
			case f.capAge == 0 && f.acqAge == 0:
				return cli.Usagef("no age given; use --cap-age, --acq-age or both, or rm to " +
					"remove a policy")
			case policy.CID == nil && policy.MOID == nil && !f.everything:
				return cli.Usagef("neither --cid nor --moid given; use --everything for all " +
					"records")
			case f.dryRun:
				return a.countExpired(c.Context(), policy)
			case !f.yes:
				return cli.Usagef("expired records are removed; check with --dry-run what " +
					"expires now, then confirm with --yes")
			}
			return a.setRetention(c.Context(), policy)
		},
	}
	f.addScope(c)
	c.Flags().Var((*cli.DurationFlag)(&f.capAge), "cap-age", "maximum age since capture, e.g. 90d")
	c.Flags().Var((*cli.DurationFlag)(&f.acqAge), "acq-age",
		"maximum age since acquisition, e.g. 24h")
	c.Flags().Var((*cli.DurationFlag)(&f.delay), "delay",
		"time between hiding and removal, e.g. 6h (default: a tenth of the age, 1h to 3d)")
	c.Flags().BoolVar(&f.everything, "everything", false,
		"apply to all records; needed if neither tenant nor quantity is given")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false,
		"count the records that would expire now and change nothing")
	c.Flags().BoolVar(&f.yes, "yes", false, "confirm the removal")
	return c
}

func (a *app) countExpired(ctx context.Context, policy client.Retention) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	records, err := db.CountExpired(ctx, policy)
	if err != nil {
		return err
	}
	return a.One([]output.Column{cli.Right("records")}, output.Count(records))
}

func (a *app) retentionRemoveCommand() *cobra.Command {
	var f policyFlags
	c := &cobra.Command{
		Use:   "rm",
		Short: "Remove a retention policy",
		Long: `Remove the policy of a tenant and quantity.

Records that it has hidden are shown again, unless they are removable.`,
		Args:    cli.NoCommand,
		Example: `  pentad retention rm --cid 1`,
		RunE: func(c *cobra.Command, _ []string) error {
			policy, err := f.policy(c.Context(), a)
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
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.SetRetention(ctx, policy); err != nil {
		return err
	}
	return a.One(retentionColumns(), retentionRow(policy)...)
}

// holdCommand holds, resumes or undoes policies.
func (a *app) holdCommand(action, short, help string) *cobra.Command {
	var f policyFlags
	var trust bool
	c := &cobra.Command{
		Use:   action,
		Short: short,
		Long:  short + ".\n" + help,
		Args:  cli.NoCommand,
		Example: "  pentad retention " + action + " --cid 1 --moid 3\n" +
			"  pentad retention " + action + " --everything",
		RunE: func(c *cobra.Command, _ []string) error {
			policy, err := f.policy(c.Context(), a)
			if err == nil && f.everything && (policy.CID != nil || policy.MOID != nil) {
				err = cli.Usagef("--everything: applies to every policy; leave out --cid and " +
					"--moid")
			}
			if err != nil {
				return err
			}
			return a.holdRetention(c.Context(), client.Hold{Action: action, CID: policy.CID,
				MOID: policy.MOID, Everything: f.everything, TrustClock: trust})
		},
	}
	f.addScope(c)
	c.Flags().BoolVar(&f.everything, "everything", false,
		"apply to every policy, including later ones")
	if action == "resume" {
		c.Flags().BoolVar(&trust, "trust-clock", false, "trust the clock of the node")
	}
	return c
}

func (a *app) holdRetention(ctx context.Context, h client.Hold) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.HoldRetention(ctx, h); err != nil {
		return err
	}
	return cli.List(ctx, a.App, (*client.Client).Retention, retentionColumns(), retentionRow)
}
