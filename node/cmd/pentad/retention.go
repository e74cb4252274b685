package main

import (
	"cmp"
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
record expires when any policy that applies to it says so. It goes in three phases:

  hidden    It vanishes from every view within a fiftieth of the age, at most 6 days. A longer age,
            "retention rm" and "retention undo" show it again.
  released  When nodes have run for --delay since it was hidden, its bytes may be removed. From then
            on it never comes back.
  removed   Its bytes are gone from the files of each node at the latest a tenth of the age, at
            most 30 days, and one and a half times the delay after it expired. Snapshots and backups
            keep what they hold.

"pentad events" shows what is hidden, about how many records and bytes that are, when the first of
them may be removed, and when all are. "retention hold" stops all three phases.

A policy does not follow a clock that jumps ahead: it waits until the clocks of other nodes confirm
the time, or else until the clock has stayed there for a tenth of the jump, at least ten minutes
and at most 60 days.
"pentad health" says so; "retention resume --trust-clock" lets it go on at once.`

func (a *app) retentionCommand() *cobra.Command {
	return group("retention", "Set how long records are kept",
		"  pentad retention set --cid 1 --cap-age 90d --yes\n  pentad retention list",
		a.retentionListCommand(), a.retentionSetCommand(), a.retentionRemoveCommand(),
		a.holdCommand("hold", "Stop a policy and the removal of what has expired", `
The policy hides no more records, and nothing is removed of what it has hidden, until
"retention resume". Records that it has hidden stay hidden; "retention undo" shows them.`),
		a.holdCommand("resume", "Let a policy go on that was held", `
The delay of what is hidden begins again. With --trust-clock the clock of the node is right, also if
it jumped: the policy goes on from what it reads, and waits for no further evidence.`),
		a.holdCommand("undo", "Show again what a policy has hidden, and hold it", `
Records that are hidden and not released for removal are to be seen again, in all views. The policy
is held, or it would hide them with its next step: set the age or the clock right, then resume. A
copy that was made while they were hidden does not have them: pentad verify tells.`))
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
	return []output.Column{right("cid"), right("moid"), right("cap_age"), right("acq_age"),
		right("delay"), right("gone_after"), left("held")}
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
	c.Flags().StringVar(&f.cid, "cid", "*", "tenant")
	c.Flags().StringVar(&f.moid, "moid", "*", "quantity")
}

func (f *policyFlags) policy() (r client.Retention, err error) {
	r.MaxCapAgeNs, r.MaxAcqAgeNs, r.DelayNs = int64(f.capAge), int64(f.acqAge), int64(f.delay)
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
		Short: "Set how long records of a tenant and quantity are kept",
		Long:  "Set how long records of a tenant and quantity are kept.\n" + retentionHelp,
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
				return usagef("what expires is removed: count what does so now with --dry-run, " +
					"and then say --yes")
			}
			return a.setRetention(c.Context(), policy)
		},
	}
	f.addScope(c)
	c.Flags().Var((*durationFlag)(&f.capAge), "cap-age", "age since capture, as 90d")
	c.Flags().Var((*durationFlag)(&f.acqAge), "acq-age", "age since acquisition, as 24h")
	c.Flags().Var((*durationFlag)(&f.delay), "delay", "time between hiding and removal, e.g. 6h; "+
		"default a tenth of the age, 1h to 3d")
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
		Use:   "rm",
		Short: "Remove the policy of a tenant and quantity",
		Long: `Remove the policy of a tenant and quantity.

Records that it has hidden are to be seen again, unless their delay is over: what was released for
removal stays away.`,
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

// holdCommand holds, resumes or undoes policies.
func (a *app) holdCommand(action, short, help string) *cobra.Command {
	var f policyFlags
	var trust bool
	c := &cobra.Command{
		Use:   action,
		Short: short,
		Long:  short + ".\n" + help,
		Args:  noCommand,
		Example: "  pentad retention " + action + " --cid 1 --moid 3\n" +
			"  pentad retention " + action + " --everything",
		RunE: func(c *cobra.Command, _ []string) error {
			policy, err := f.policy()
			if err == nil && f.everything && (policy.CID != nil || policy.MOID != nil) {
				err = usagef("--everything means every policy: leave --cid and --moid out")
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
		"every policy, also those that are set later")
	if action == "resume" {
		c.Flags().BoolVar(&trust, "trust-clock", false, "the clock of the node is right")
	}
	return c
}

func (a *app) holdRetention(ctx context.Context, h client.Hold) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.HoldRetention(ctx, h); err != nil {
		return err
	}
	return list(ctx, a, (*client.Client).Retention, retentionColumns(), retentionRow)
}
