// Package bench holds the load generator: pentad bench write, query and replay.
//
// It owns the content of requests and the summary of a run. Package load decides when requests are
// sent, measures them and owns the goroutines.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/load"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

const (
	// benchCID is the tenant of records that bench stores: far above where people begin to count.
	benchCID = 2_000_000_000
	// replayCID is that of replays, whose records are not made up.
	replayCID = benchCID + 1
	// maxBenchWorkers is where a load generator is busy with itself.
	maxBenchWorkers = 1024

	defaultBenchFor = 10 * time.Second // where no flag says how long
	defaultGiveUp   = 30 * time.Second // a node that restarts with much to replay comes back in it
)

const rateHelp = `
With --rate, requests are due at fixed times, whether or not earlier ones were answered. Latency is
counted from the time a request was due to its answer, so a stall of the node affects every request
that had to wait; "once sent" counts from the time it was sent. (A ready connection that wakes up to
2 ms late counts from then: that is timer imprecision.) With --rate 0 each connection sends its next
request after the previous answer: that measures the maximum throughput.
`

const benchHelp = `
Progress is shown every second on stderr if it is a terminal, or with --progress. Ctrl-C stops the
run and shows the results so far. The exit code is 6 if requests failed, and 5 if the run stopped
because no request succeeded for --give-up.`

// benchFlags are the flags of every kind of load.
type benchFlags struct {
	workers  int
	rate     float64
	length   cli.DurationFlag
	giveUp   cli.DurationFlag
	progress bool
}

// Command returns pentad bench.
func Command(shared *cli.App) *cobra.Command {
	a := &app{shared}
	c := cli.Group("bench", "Put load on a node and report latency",
		"  pentad bench write --records 100000\n  pentad bench query --queries 200",
		a.benchWriteCommand(), a.benchQueryCommand(), a.benchReplayCommand())
	c.Long = "Put load on a running node over the network, and report its latency." +
		fmt.Sprintf("\n\nwrite and replay store records in the tenants cid %d and %d unless "+
			"others are given.\nThe records stay until pentad purge removes them.\n",
			benchCID, replayCID) + rateHelp + benchHelp
	return c
}

// add adds the flags that every load has, and ends its help.
func (f *benchFlags) add(c *cobra.Command, workersName string, workers int, what string) {
	f.giveUp = cli.DurationFlag(defaultGiveUp)
	c.Long = strings.TrimSpace(c.Long) + "\n" + benchHelp
	flags := c.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.workers, workersName, workers, what)
	flags.Var(&f.giveUp, "give-up", "stop if no request succeeds for this long, e.g. 30s")
	flags.BoolVar(&f.progress, "progress", false,
		"show progress every second even if stderr is not a terminal")
}

// addRate adds the flags of loads that follow a schedule.
func (f *benchFlags) addRate(c *cobra.Command, what string) {
	c.Long = strings.TrimSpace(c.Long) + "\n" + rateHelp
	c.Flags().Var(&f.length, "for", fmt.Sprintf("duration of the run, e.g. 30s (default %s)",
		defaultBenchFor))
	c.Flags().Float64Var(&f.rate, "rate", 0,
		what+" per second, e.g. 500 (0: as fast as the node answers)")
}

func (f *benchFlags) check(workersName string) error {
	switch {
	case f.workers < 1 || f.workers > maxBenchWorkers:
		return cli.Usagef("--%s %d: give 1 to %d connections", workersName, f.workers,
			maxBenchWorkers)
	case math.IsNaN(f.rate) || math.IsInf(f.rate, 0) || f.rate < 0:
		return cli.Usagef("--rate %v: not a rate; use a number per second, or 0 for no limit",
			f.rate)
	}
	return nil
}

// benchSeries are the flags that say which records are made up.
type benchSeries struct {
	devices, quantities int
	seed                uint64
}

func (s *benchSeries) add(c *cobra.Command) {
	flags := c.Flags()
	flags.IntVar(&s.devices, "devices", 1000, "number of devices")
	flags.IntVar(&s.quantities, "quantities", 3, "quantities per device")
	flags.Uint64Var(&s.seed, "seed", 1,
		"seed of the generator; the same seed generates the same records")
}

func (s *benchSeries) generator(cid int32) (load.Generator, error) {
	switch {
	case s.devices < 1 || s.devices > load.MaxDevices:
		return load.Generator{}, cli.Usagef("--devices %d: give 1 to %d", s.devices,
			load.MaxDevices)
	case s.quantities < 1 || s.quantities > load.MaxQuantities:
		return load.Generator{}, cli.Usagef("--quantities %d: give 1 to %d", s.quantities,
			load.MaxQuantities)
	}
	return load.Generator{CID: cid, Devices: s.devices, Quantities: s.quantities, Seed: s.seed},
		nil
}

// checkCID reads a flag that names one tenant.
func checkCID(cid int64) (int32, error) {
	if cid < 0 || cid >= record.CID.Max() {
		return 0, cli.Usagef("--cid %d is outside 0 to %d", cid, record.CID.Max()-1)
	}
	return int32(cid), nil
}

// connectMany opens one client per worker, so that each has a connection of its own.
func (a *app) connectMany(ctx context.Context, n int) (dbs []*client.Client, closeAll func(),
	err error) {
	closeAll = func() {
		for _, db := range dbs {
			_ = db.Close() // never fails
		}
	}
	for range n {
		db, err := a.Connect(ctx)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		dbs = append(dbs, db)
	}
	return dbs, closeAll, nil
}

// runBench runs a load and shows its progress, and at the end its summary, whatever ended it.
func (a *app) runBench(ctx context.Context, r *load.Run, f *benchFlags, s *benchSummary) error {
	r.Judge, r.GiveUp = judge, time.Duration(f.giveUp)
	if !a.Quiet && (a.StderrTerminal || f.progress) {
		r.Tell = func(p load.Progress) { fmt.Fprintln(a.Stderr, progressLine(p)) }
	}
	report, err := r.Do(ctx)
	if s.unsent != nil {
		s.unsentCount = s.unsent(report.Duration)
	}
	s.records = report.All.Records + report.All.Counted
	if showErr := a.showBench(report, s); showErr != nil {
		return showErr
	}
	if s.unsentCount > 0 && err == nil {
		a.Note("%s requests were due and not sent: the node, the network or the connections "+
			"could not keep up with --rate", output.Thousands(s.unsentCount))
	}
	var gaveUp *load.GiveUpError
	switch all := &report.All; {
	case errors.As(err, &gaveUp):
		return cli.Coded(cli.ExitUnavailable, err)
	case err != nil:
		return err
	case all.Failed > 0:
		return cli.Coded(cli.ExitPartial, fmt.Errorf("%s of %s requests failed (%s)",
			output.Thousands(all.Failed), output.Thousands(all.Requests), cli.Reasons(all.Errors)))
	}
	return nil
}

// judge names an error of a request, and says whether every other request would fail likewise.
func judge(err error) load.Verdict {
	var remote *wire.Error
	var network net.Error
	switch {
	case errors.As(err, &remote):
		fatal := slices.Contains([]wire.Kind{wire.KindBadFrame, wire.KindUnsupportedVersion,
			wire.KindInvalid, wire.KindTooLarge, wire.KindUnknownPlugin, wire.KindBadModule,
			wire.KindDamaged, wire.KindSequenceTooOld, wire.KindNotFound, wire.KindForbidden,
			wire.KindSequenceGap}, remote.Kind)
		return load.Verdict{Name: remote.Kind.String(), Fatal: fatal,
			After: time.Duration(remote.RetryAfterMs) * time.Millisecond}
	case errors.As(err, new(*record.InvalidError)):
		return load.Verdict{Name: wire.KindInvalid.String(), Fatal: true}
	case errors.As(err, new(cli.CodeError)):
		return load.Verdict{Name: "incomplete"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return load.Verdict{Name: "connection-refused"}
	case errors.As(err, &network) && network.Timeout():
		return load.Verdict{Name: "timeout"}
	case errors.Is(err, client.ErrNoEnd), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return load.Verdict{Name: "connection-lost"}
	case cli.IsTransport(err):
		return load.Verdict{Name: "network"}
	}
	return load.Verdict{Name: "bad-answer"}
}

// errorNames returns the names of errors in a stable order.
func errorNames(counts map[string]int64) []string { return slices.Sorted(maps.Keys(counts)) }
