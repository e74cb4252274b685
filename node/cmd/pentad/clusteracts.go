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

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
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
	c.Flags().BoolVar(&f.act.DryRun, "dry-run", false, "only show what would happen")
	c.Flags().BoolVar(&f.wait, "wait", false, "return when it is done, and say how far it is "+
		"meanwhile;\nwhat was begun goes on when this is interrupted")
}

const nodeHelp = `

NODE is an id, its first digits, or an address of the node, see pentad cluster nodes. The answer
is what is left to do; pentad cluster shards shows how far it is.`

func (a *app) clusterDrainCommand() *cobra.Command {
	var f actFlags
	c := &cobra.Command{
		Use:   "drain NODE",
		Short: "Move everything off a node, so that it can be stopped for good",
		Long: `Move everything off a node, so that it can be stopped for good. It leads nothing any more, its
copies are made on other nodes and then go, and when it holds none it has left: its directory is of
no use then. Until it has left, pentad cluster undrain takes it back. A node that is only stopped
for some minutes need not be drained.` + nodeHelp,
		Args: arguments(1, 1, "the node"),
		Example: `  pentad cluster drain 10.0.0.7:5150 --dry-run
  pentad cluster drain 3f9a --wait`,
		RunE: a.runAct(&f, (*client.Client).DrainNode, "left"),
	}
	f.add(c)
	c.Flags().BoolVar(&f.act.FewerCopies, "fewer-copies", false,
		"also if too few nodes are left for all copies")
	return c
}

func (a *app) clusterUndrainCommand() *cobra.Command {
	var f actFlags
	c := &cobra.Command{
		Use:     "undrain NODE",
		Short:   "Take back a node that is drained, as long as it has not left",
		Long:    `Take back a node that is drained, as long as it has not left.` + nodeHelp,
		Args:    arguments(1, 1, "the node"),
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
		Short: "Give up a node that is lost for good, and make its copies anew now",
		Long: `Give up a node that is lost for good, and make its copies anew now: without this, that begins
when it has been dead for ten minutes. It is refused while the node answers, and in the seconds
until gossip has given it up. The node is not taken back: started again it ends with an error, and
can join with an empty directory, as a new node. Where no node can take its copies, there are
fewer.` +
			nodeHelp,
		Args: arguments(1, 1, "the node"),
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
		Short: "Show which copies are left to move, and set how fast they do",
		Long: `Show what is left until copies are where they should be, and set how fast they move. They do
so by themselves: nothing has to be started. The limits hold for the whole cluster until they are
set anew; 0 makes one what it was at first: 2 copies, and 64MiB.`,
		Args: noCommand,
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
				act client.ClusterAct) (client.ClusterProspect, error) {
				return db.Rebalance(ctx, limits, act.DryRun)
			}, "")
		},
	}
	f.add(c)
	c.Flags().Uint32Var(&copies, "copies", 0, "copies that a node takes in at a time, up to 64")
	c.Flags().Var(&rate, "rate", "bytes of copies that a node sends in a second, as 64MiB or 50MB")
	return c
}

// act is one of the acts of a client.
type act func(*client.Client, context.Context, client.ClusterAct) (client.ClusterProspect, error)

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
		return usagef("--dry-run does nothing that --wait could wait for; leave out one")
	}
	db, err := client.New(a.addr) // a node that has left is not ready, and can be asked
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := do(db, ctx, f.act)
	if err != nil {
		return err
	}
	a.noteProspect(&p, f.act.DryRun)
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

// noteProspect says in words what came of an act.
func (a *app) noteProspect(p *client.ClusterProspect, dry bool) {
	switch {
	case dry && p.Node != "":
		a.note("nothing was done; node %s would be %s", p.Node, p.State)
	case p.Node != "":
		a.note("node %s is %s", p.Node, p.State)
	}
	a.note("%d changes are left to begin, of about %s; %d are under way", len(p.Changes),
		output.Size(p.Bytes), len(p.Running))
	a.note("a node takes in %d copies at a time, and sends %s of them a second", p.Copies,
		output.Size(p.BytesPerSec))
	for _, note := range p.Notes {
		a.note("note: %s", note)
	}
	for _, text := range p.Blocked {
		a.note("blocked: %s", text)
	}
}

// writeChanges writes a row for each change, those that run first.
func (a *app) writeChanges(p *client.ClusterProspect) error {
	w, err := a.writer(false, left("group"), left("stage"), left("from"), left("to"),
		right("bytes"), left("why"), left("waits"))
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
	heard, told, last := a.now(), time.Time{}, ""
	goes := false // the node was seen to go: the one that is asked may hear of that late
	for {
		all, err := db.Cluster(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && (!mayPass(err) || a.now().Sub(heard) > silentFor):
			return err
		case err == nil:
			heard = a.now()
			text, state, done := moved(&all, id, until)
			switch {
			case done:
				return a.noticed(ctx, &all, id, until)
			case goes && state == "up":
				return fmt.Errorf("node %s was taken back meanwhile", id)
			}
			goes = state != "up"
			if text != last && a.now().Sub(told) >= logEvery/5 {
				told, last = a.now(), text
				a.note("%s", text)
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
func (a *app) noticed(ctx context.Context, all *client.Cluster, id, until string) error {
	at := slices.IndexFunc(all.Nodes, func(n client.ClusterNode) bool { return n.ID == id })
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
			a.note("node %s has left, and its /readyz does not say so yet", id)
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
	return errors.As(err, &remote) && remote.Kind.Temporary() || isTransport(err)
}

// moved says how far it is, the state of the node, and whether it is done.
func moved(all *client.Cluster, id, until string) (text, state string, done bool) {
	text = fmt.Sprintf("%d changes are left to begin, %d are under way", all.Changes,
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
		return errors.New("bytes are wanted, as 64MiB, 50MB or 1000000")
	}
	*r = rateFlag(n * factor)
	return nil
}
