package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// lookEvery is how often --wait looks: copies take seconds at least.
	lookEvery = 500 * time.Millisecond
	// silentFor is how long --wait bears a node that does not answer: an election and a restart.
	silentFor = time.Minute
	// noticeTimeout is how long --wait gives a node that has left to hear of that.
	noticeTimeout = 10 * time.Second
)

// actFlags are those of commands that change something of a cluster.
type actFlags struct {
	act  client.ClusterAct
	wait bool
}

func (f *actFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.act.DryRun, "dry-run", false, "show what would happen and change nothing")
	c.Flags().BoolVar(&f.wait, "wait", false,
		"wait until it is done and report progress;\nan interrupt ends the wait, not the change")
}

const nodeHelp = `

NODE is an id, its first digits, or an address of the node; see pentad cluster nodes. The output is
the remaining work; pentad cluster groups shows its progress.`

func (a *app) clusterDrainCommand() *cobra.Command {
	var f actFlags
	c := &cobra.Command{
		Use:   "drain NODE",
		Short: "Move all data off a node",
		Long: `Move all data off a node, so that it can be stopped permanently. The node gives up leadership, other
nodes receive its copies, and when it holds none it has left the cluster and its directory is not
needed any more. Until then pentad cluster undrain cancels the drain. A node that stops for only a
few minutes need not be drained.` + nodeHelp,
		Args: cli.Arguments(1, 1, "the node"),
		Example: `  pentad cluster drain 10.0.0.7:5150 --dry-run
  pentad cluster drain 3f9a --wait`,
		RunE: a.runAct(&f, (*client.Client).DrainNode, "left"),
	}
	f.add(c)
	c.Flags().BoolVar(&f.act.FewerCopies, "fewer-copies", false,
		"proceed if too few nodes remain for all copies")
	return c
}

func (a *app) clusterUndrainCommand() *cobra.Command {
	var f actFlags
	c := &cobra.Command{
		Use:     "undrain NODE",
		Short:   "Cancel the drain of a node",
		Long:    `Cancel the drain of a node that has not left the cluster yet.` + nodeHelp,
		Args:    cli.Arguments(1, 1, "the node"),
		Example: "  pentad cluster undrain 3f9a",
		RunE:    a.runAct(&f, (*client.Client).UndrainNode, ""),
	}
	f.add(c)
	return c
}

func (a *app) clusterRemoveCommand() *cobra.Command {
	var f actFlags
	c := &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove a lost node and replace its copies",
		Long: `Remove a node that is permanently lost, and replace its copies now. Without this, replacement starts
when the node has been dead for ten minutes. The command is refused while the node answers, and for
the seconds until gossip declares it dead. The node cannot return: if started, it stops with an
error; with an empty directory it can join as a new node. If no node can take its copies, groups
have fewer.` +
			nodeHelp,
		Args: cli.Arguments(1, 1, "the node"),
		Example: `  pentad cluster remove 10.0.0.7:5150 --dry-run
  pentad cluster remove 3f9a --wait`,
		RunE: a.runAct(&f, (*client.Client).RemoveNode, "left"),
	}
	f.add(c)
	return c
}

func (a *app) clusterRebalanceCommand() *cobra.Command {
	var f actFlags
	var copies uint32
	var rate rateFlag
	c := &cobra.Command{
		Use:   "rebalance",
		Short: "Show pending moves and set their limits",
		Long: `Show pending moves of copies and set their limits. Moves start by themselves. The limits apply to
the whole cluster until they are set again; 0 restores a default: 2 copies, and 64MiB.`,
		Args: cli.NoCommand,
		Example: `  pentad cluster rebalance --dry-run
  pentad cluster rebalance --copies 4 --rate 200MB --wait`,
		RunE: func(c *cobra.Command, _ []string) error {
			var limits client.ClusterLimits
			if c.Flags().Changed("copies") {
				limits.Copies = &copies
			}
			if c.Flags().Changed("rate") {
				limits.BytesPerSec = (*uint64)(&rate)
			}
			return a.clusterAct(c.Context(), &f, func(db *client.Client, ctx context.Context,
				act client.ClusterAct) (api.ClusterPreview, error) {
				return db.Rebalance(ctx, limits, act.DryRun)
			}, "")
		},
	}
	f.add(c)
	c.Flags().Uint32Var(&copies, "copies", 0,
		"copies that a node receives at a time, 1 to 64, e.g. 4 (0: the default, 2)")
	c.Flags().Var(&rate, "rate",
		"limit of copy traffic that a node sends per second, e.g. 64MiB or 50MB\n(0: the "+
			"default, 64MiB)")
	return c
}

// act is one of the acts of a client.
type act func(*client.Client, context.Context, client.ClusterAct) (api.ClusterPreview, error)

// runAct does what a command of one node says; see clusterAct.
func (a *app) runAct(f *actFlags, do act, until string) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		f.act.Node = args[0]
		return a.clusterAct(c.Context(), f, do, until)
	}
}

// clusterAct acts, and waits if it shall: until the node is in a state, or nothing is left to move.
func (a *app) clusterAct(ctx context.Context, f *actFlags, do act, until string) error {
	if f.act.DryRun && f.wait {
		return cli.Usagef("--dry-run and --wait: mutually exclusive, a dry run changes nothing; " +
			"use one")
	}
	db, err := client.New(a.Addr) // a node that has left is not ready, and can be asked
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := do(db, ctx, f.act)
	if err != nil {
		return err
	}
	a.notePreview(&p, f.act.DryRun)
	if f.wait {
		if err := a.waitMoved(ctx, db, p.Node, until); err != nil {
			return err
		}
		if p, err = db.Rebalance(ctx, client.ClusterLimits{}, true); err != nil {
			return err
		}
	}
	return a.writeChanges(&p)
}

// notePreview says in words what came of an act.
func (a *app) notePreview(p *api.ClusterPreview, dry bool) {
	switch {
	case dry && p.Node != "":
		a.Note("nothing changed; node %s would be %s", p.Node, p.State)
	case p.Node != "":
		a.Note("node %s is %s", p.Node, p.State)
	}
	a.Note("%d moves are pending, about %s; %d are running", len(p.Changes),
		output.Size(p.Bytes), len(p.Running))
	a.Note("limits per node: %d copies received at a time, %s sent per second", p.Copies,
		output.Size(p.BytesPerSec))
	for _, note := range p.Notes {
		a.Note("note: %s", note)
	}
	for _, text := range p.Blocked {
		a.Note("blocked: %s", text)
	}
}

// writeChanges writes a row for each change, those that run first.
func (a *app) writeChanges(p *api.ClusterPreview) error {
	w, err := a.Writer(false, cli.Left("group"), cli.Left("stage"), cli.Left("from"),
		cli.Left("to"), cli.Right("bytes"), cli.Left("why"), cli.Left("waits"))
	if err != nil {
		return err
	}
	for _, c := range append(p.Running, p.Changes...) {
		if err := w.Row(output.Int(c.Group), someText(c.Stage), someText(c.From), someText(c.Add),
			output.Bytes(c.Bytes), output.Text(c.Why), someText(c.Waits)); err != nil {
			return err
		}
	}
	return w.Close()
}

// someText is nothing where there is no text.
func someText(text string) output.Value {
	if text == "" {
		return output.Null()
	}
	return output.Text(text)
}

// waitMoved waits until a node is in a state, or, without one, until nothing is left to move.
func (a *app) waitMoved(ctx context.Context, db *client.Client, id, until string) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	heard, told, last := a.Now(), time.Time{}, ""
	goes := false // the node was seen to go: the one that is asked may hear of that late
	for {
		all, err := db.Cluster(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && (!mayPass(err) || a.Now().Sub(heard) > silentFor):
			return err
		case err == nil:
			heard = a.Now()
			text, state, done := moved(&all, id, until)
			switch {
			case done:
				return a.noticed(ctx, &all, id, until)
			case goes && state == "up":
				return fmt.Errorf("node %s: the drain was cancelled while waiting", id)
			}
			goes = state != "up"
			if text != last && a.Now().Sub(told) >= cli.LogEvery/5 {
				told, last = a.Now(), text
				a.Note("%s", text)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// noticed waits until a node that has left knows that itself, so that its /readyz says so: it hears
// of it from others, within some seconds. One that is not reached from here is not waited for.
func (a *app) noticed(ctx context.Context, all *api.Cluster, id, until string) error {
	at := slices.IndexFunc(all.Nodes, func(n api.NodeStatus) bool { return n.ID == id })
	if until != "left" || at < 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for isReady(asking, all.Nodes[at].HTTP) {
		select {
		case <-tick.C:
		case <-asking.Done():
			a.Note("node %s has left, but its /readyz does not report it yet", id)
			return context.Cause(ctx)
		}
	}
	return nil
}

// isReady reports whether the node at an address says that it is ready. A client would turn to
// another node.
func isReady(ctx context.Context, addr string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // the status says it
	return resp.StatusCode == http.StatusOK
}

// mayPass reports whether a node that answered so may do better some seconds later.
func mayPass(err error) bool {
	var remote *wire.Error
	return errors.As(err, &remote) && remote.Kind.Temporary() || cli.IsTransport(err)
}

// moved says how far it is, the state of the node, and whether it is done.
func moved(all *api.Cluster, id, until string) (text, state string, done bool) {
	text = fmt.Sprintf("%d moves are pending, %d are running", all.Changes,
		len(all.Running))
	if len(all.Blocked) > 0 {
		text += "; blocked: " + strings.Join(all.Blocked, "; ")
	}
	if until == "" {
		return text, "", all.Changes+len(all.Running)+len(all.Blocked) == 0
	}
	for _, n := range all.Nodes {
		if n.ID == id {
			return fmt.Sprintf("node %s is %s and holds %d copies; %s", id, n.State, n.Replicas,
				text), n.State, n.State == until
		}
	}
	return text, "", false
}

// rateFlag is a number of bytes, as 64MiB, 50MB or 1000000.
type rateFlag uint64

func (r *rateFlag) String() string { return "" }
func (r *rateFlag) Type() string   { return "bytes" }

func (r *rateFlag) Set(text string) error {
	factor := uint64(1)
	for suffix, n := range map[string]uint64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
		"KB": 1e3, "MB": 1e6, "GB": 1e9} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			text, factor = number, n
			break
		}
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 63)
	if err != nil || n > math.MaxInt64/factor {
		return errors.New("not a number of bytes; use e.g. 64MiB, 50MB or 1000000")
	}
	*r = rateFlag(n * factor)
	return nil
}
