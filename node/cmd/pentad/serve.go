package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/edge"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/node/internal/prefault"
	"github.com/pentad-db/pentad/node/internal/release"
)

// minClockOffset is what --max-clock-offset must be at least: below it, readings of clocks that
// agree differ.
const minClockOffset = 10 * time.Millisecond

// mostTimerSlack is what --timer-slack may be: elections wait for 500 ms.
const mostTimerSlack = 100 * time.Millisecond

const serveHelp = `Run a node until SIGINT or SIGTERM, then shut down gracefully. Acknowledged records are on disk.

Memory: the node allocates at most --memory, by default the limit of its control group (e.g. of a
container) or of the machine; it needs 256MiB. Three eighths of it are for requests and answers;
the flags --head-memory, --result-memory and --partial-memory set the largest shares. A request body
may have 1/16 of --memory - 96MiB, at least 4 MiB and at most 72 MiB; a larger one is refused as
too large. A put of 64 MiB takes --memory 1.2GiB, one of 32 MiB 640MiB. Memory for bursts is
pre-faulted: 1/64 of the limit, at most 128 MiB, except on an edge node. Segment files are mapped:
their pages count as resident memory in addition, and the system takes them back when it needs them.

Processors: --shards says how many put the records of a batch into memory at the same time. Each
has a part of the devices. The files on disk, the order of acquisition times and the answers are the
same with any number, and the next start may have another one.

Timers: --timer-slack 1ms lets threads wake up to 1 ms late and so less often: on a virtual machine
this saves up to a sixth of the processor time of a cluster node that stores records, and answers
come 5 to 12 % sooner. To set it for all of its threads, the process executes itself once.
TimerSlackNSec=1ms of systemd does the same without that.

Clusters: with --cluster-init the directory of a stand-alone node becomes that of the first node of
a cluster, with all records, plugins and cursors. Other nodes then --join.

Output: the last line on stdout is the address. Logs go to stderr: text on a terminal, else JSON.
They begin with the data directory; while a long log is replayed, a line every 2 s says how far it
is.

Host names: requests must name the node by an IP address, localhost, the name in --listen or one of
--host. This protects against DNS rebinding by web pages. Behind a proxy that preserves the Host
header, give its names as --host, too.`

func (a *app) serveCommand() *cobra.Command {
	var opt node.Options
	var clients tstorageFlags
	var together clusterFlags
	var outer edgeFlags
	var search scrubFlags
	var limits limitFlags
	var may cli.SizeFlag
	var slack time.Duration
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Long:  serveHelp,
		Args:  cli.NoCommand,
		Example: `  pentad serve
  pentad serve --dir /var/lib/pentad --listen 127.0.0.1:5150
  pentad serve --listen :5150 --insecure --host meters.example.org
  pentad serve --listen-tstorage 127.0.0.1:2025
  pentad serve --cluster-token token --cluster-init
  pentad serve --role edge --upstream core-1:5150,core-2:5150 --edge-quota 20GiB`,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			// before a token is read from a pipe
			if err := a.setTimerSlack(slack); err != nil {
				return err
			}
			if opt.Cluster, err = together.options(c); err != nil {
				return err
			}
			opt.Cluster.Program = release.Read().Full()
			if opt.MemoryBytes, err = a.memoryFlag(may); err != nil {
				return err
			}
			if err = limits.set(c, &opt, outer.role == "edge"); err != nil {
				return err
			}
			if opt.Store.Scrub, err = search.scrub(); err != nil {
				return err
			}
			at, err := outer.options(c, opt)
			if err != nil {
				return err
			}
			return a.serve(c.Context(), opt, at, clients)
		},
	}
	flags := c.Flags()
	flags.StringVar(&opt.Dir, "dir", cli.OrElse(a.Getenv("PENTAD_DIR"), a.dataDir("node")),
		"data directory (PENTAD_DIR)")
	flags.StringVar(&opt.Listen, "listen", cli.OrElse(a.Getenv("PENTAD_LISTEN"), cli.DefaultAddr),
		"address for clients (PENTAD_LISTEN)")
	flags.BoolVar(&opt.Insecure, "insecure", false,
		"allow addresses that other machines reach; there is no authentication and no TLS")
	flags.StringArrayVar(&opt.Hosts, "host", nil,
		"name that clients use for this node, e.g. pentad.example.org;\nmay be repeated (IP "+
			"addresses and localhost are always allowed)")
	flags.DurationVar(&opt.MaxClockOffset, "max-clock-offset", clock.DefaultMaxOffset,
		"maximum clock step, and maximum offset from other nodes, e.g. 250ms")
	flags.Var(&may, "memory",
		"memory limit of the node, e.g. 2GiB (PENTAD_MEMORY;\ndefault: limit of the control "+
			"group or of the machine)")
	flags.DurationVar(&slack, "timer-slack", 0,
		"how late timers may be, e.g. 1ms, at most 100ms, to save wakeups; Linux only\n"+
			"(default: what the system gives, 50µs)")
	limits.add(c)
	clients.add(c)
	together.add(c)
	outer.add(c)
	search.add(c)
	return c
}

// setTimerSlack does what --timer-slack says.
func (a *app) setTimerSlack(slack time.Duration) error {
	if slack < 0 || slack > mostTimerSlack {
		return cli.Usagef("--timer-slack %v: at most %v", slack, mostTimerSlack)
	}
	if slack == 0 {
		return nil
	}
	if err := a.RelaxTimers(slack); err != nil {
		return fmt.Errorf("--timer-slack %v: %w; start without it", slack, err)
	}
	return nil
}

func (a *app) serve(
	ctx context.Context, opt node.Options, at *edge.Options, clients tstorageFlags,
) error {
	if opt.MaxClockOffset < minClockOffset {
		return cli.Usagef("--max-clock-offset %v: less than %v; NTP keeps clocks within "+
			"milliseconds", opt.MaxClockOffset, minClockOffset)
	}
	if err := checkDataDir(opt.Dir); err != nil {
		return err
	}
	opt.Logger = a.Logger()
	opt.Fail = func(err error) {
		message, code := cli.Ending(err)
		opt.Logger.Error(message, "err", err)
		os.Exit(code)
	}
	gateway, err := clients.options(opt)
	if err != nil {
		return err
	}
	a.limitHeap(&opt)
	gateway.BufferBytes = memory.Total(opt.MemoryBytes).Part(tstorageParts, mostTStorage)
	n, err := open(ctx, opt, at)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "pentad %s   data %s\n", release.Read().Full(), opt.Dir)
	end, err := a.serveTStorage(n.Node, clients.listen, gateway)
	if err != nil {
		return errors.Join(err, a.CloseNode(n))
	}
	fmt.Fprintf(a.Stdout, "listening on http://%s\n", n.Addr())
	var ahead sync.WaitGroup
	if at == nil { // edges are small
		ahead.Go(func() { prefault.Keep(ctx, memory.Total(opt.MemoryBytes)) })
	}
	<-ctx.Done()
	a.Note("stopping")
	ahead.Wait()
	return errors.Join(end(), a.CloseNode(n))
}

// memoryFlag returns what --memory, or else the environment, says; 0: neither does.
func (a *app) memoryFlag(may cli.SizeFlag) (int64, error) {
	if text := a.Getenv("PENTAD_MEMORY"); text != "" && may == 0 {
		if err := may.Set(text); err != nil {
			return 0, cli.Usagef("PENTAD_MEMORY=%s: %v", text, err)
		}
	}
	return int64(may), nil
}

// limitHeap lets Go collect garbage before its heap takes more than three eighths of the memory
// that the node may have, unless GOMEMLIMIT says otherwise.
func (a *app) limitHeap(opt *node.Options) {
	if opt.MemoryBytes == 0 {
		opt.MemoryBytes = int64(memory.Limit())
	}
	if opt.MemoryBytes > 0 && a.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(opt.MemoryBytes / 8 * 3)
	}
}

// dataDir is where a node of this user keeps its data, after the XDG base directories.
func (a *app) dataDir(name string) string {
	base := a.Getenv("XDG_DATA_HOME")
	if home := a.Getenv("HOME"); base == "" && home != "" {
		base = filepath.Join(home, ".local", "share")
	}
	if base == "" {
		base = os.TempDir()
	}
	return filepath.Join(base, "pentad", name)
}
