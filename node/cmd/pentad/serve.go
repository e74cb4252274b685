package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/edge"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/node/store"
)

// closeTimeout bounds the graceful end: a seal of the largest head takes seconds, not minutes.
const closeTimeout = time.Minute

// minClockOffset is what --max-clock-offset must be at least: below it, readings of clocks that
// agree differ.
const minClockOffset = 10 * time.Millisecond

const serveHelp = `Run a node until SIGINT or SIGTERM, and end gracefully: what was acknowledged is on disk.

A node takes no more memory than --memory says, or else than its control group, as that of a
container, or the machine allows: three eighths of it for requests and answers, a quarter, at most
2 GiB, for records that are not yet in segment files; the rest is for plugins and the system. It
keeps memory ready for the records of a burst: a 64th, at most 128 MiB. An edge does not.

On Linux its timers may be late by 1 ms (timer slack): it wakes less often, which saves up to a
sixth of what a node of a cluster costs on a virtual machine. For that it starts its own program
anew, in the same process, unless it has been given that slack, as by TimerSlackNSec=1ms of systemd.

With --cluster-init the directory of a stand-alone node becomes that of the first node of a cluster,
with all its records, plugins and cursors; others then --join.

The last line on stdout is the address. Logs go to stderr: text on a terminal, else JSON.

Requests must name the node by an IP address, as localhost, by the name in --listen or by one of
--host: else a web page could reach it through a name of its own that it has lead here. A proxy that
passes the names of its clients on needs these as --host, too.`

func (a *app) serveCommand() *cobra.Command {
	var opt node.Options
	var clients tstorageFlags
	var together clusterFlags
	var outer edgeFlags
	var search scrubFlags
	var may sizeFlag
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Long:  serveHelp,
		Args:  noCommand,
		Example: `  pentad serve
  pentad serve --dir /var/lib/pentad --listen 127.0.0.1:5150
  pentad serve --listen :5150 --insecure --host meters.example.org
  pentad serve --listen-tstorage 127.0.0.1:2025
  pentad serve --cluster-token token --cluster-init
  pentad serve --role edge --upstream core-1:5150,core-2:5150 --edge-quota 20GiB`,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if a.relaxTimers != nil {
				a.relaxTimers() // before a token is read from a pipe
			}
			if opt.Cluster, err = together.options(c); err != nil {
				return err
			}
			opt.Cluster.Program = version()
			if opt.MemoryBytes, err = a.memoryFlag(may); err != nil {
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
	flags.StringVar(&opt.Dir, "dir", orElse(a.getenv("PENTAD_DIR"), a.dataDir("node")),
		"directory of the data (PENTAD_DIR)")
	flags.StringVar(&opt.Listen, "listen", orElse(a.getenv("PENTAD_LISTEN"), defaultAddr),
		"address to listen on (PENTAD_LISTEN)")
	flags.BoolVar(&opt.Insecure, "insecure", false,
		"allow addresses that other machines reach: there are no tokens and no TLS")
	flags.StringArrayVar(&opt.Hosts, "host", nil, "a name that clients use for this node, as "+
		"pentad.example.org;\nmay be repeated (addresses and localhost are known)")
	flags.DurationVar(&opt.MaxClockOffset, "max-clock-offset", clock.DefaultMaxOffset,
		"how far the machine's clock may step, or be from those of\nother nodes, and still be "+
			"followed, e.g. 250ms")
	flags.Var(&may, "memory", "how much memory the node may have, as 2GiB (PENTAD_MEMORY;\n"+
		"default: what its control group or the machine allows)")
	clients.add(c)
	together.add(c)
	outer.add(c)
	search.add(c)
	return c
}

func (a *app) serve(
	ctx context.Context, opt node.Options, at *edge.Options, clients tstorageFlags,
) error {
	if opt.MaxClockOffset < minClockOffset {
		return usagef("--max-clock-offset %v: less than %v; NTP keeps clocks within some "+
			"milliseconds", opt.MaxClockOffset, minClockOffset)
	}
	opt.Logger = a.logger()
	opt.Fail = func(err error) {
		message, code := ending(err)
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
	fmt.Fprintf(a.stdout, "pentad %s   data %s\n", version(), opt.Dir)
	end, err := a.serveTStorage(n.Node, clients.listen, gateway)
	if err != nil {
		return errors.Join(err, a.closeNode(n))
	}
	fmt.Fprintf(a.stdout, "listening on http://%s\n", n.Addr())
	var ahead sync.WaitGroup
	if at == nil { // edges are small
		ahead.Go(func() { store.KeepMemoryPrefaulted(ctx, memory.Total(opt.MemoryBytes)) })
	}
	<-ctx.Done()
	a.note("stopping")
	ahead.Wait()
	return errors.Join(end(), a.closeNode(n))
}

// memoryFlag returns what --memory, or else the environment, says; 0: neither does.
func (a *app) memoryFlag(may sizeFlag) (int64, error) {
	if text := a.getenv("PENTAD_MEMORY"); text != "" && may == 0 {
		if err := may.Set(text); err != nil {
			return 0, usagef("PENTAD_MEMORY=%s: %v", text, err)
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
	if opt.MemoryBytes > 0 && a.getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(opt.MemoryBytes / 8 * 3)
	}
}

// closeNode ends a node although the command's context has ended before it.
func (a *app) closeNode(n interface{ Close(context.Context) error }) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeTimeout,
		fmt.Errorf("the node did not stop within %s", closeTimeout))
	defer cancel()
	return n.Close(ctx)
}

func (a *app) logger() *slog.Logger {
	level := slog.LevelInfo
	if a.quiet {
		level = slog.LevelWarn
	}
	return a.loggerAt(level)
}

func (a *app) loggerAt(level slog.Level) *slog.Logger {
	opt := &slog.HandlerOptions{Level: level}
	if a.stderrTerminal {
		return slog.New(slog.NewTextHandler(a.stderr, opt))
	}
	return slog.New(slog.NewJSONHandler(a.stderr, opt))
}

// dataDir is where a node of this user keeps its data, after the XDG base directories.
func (a *app) dataDir(name string) string {
	base := a.getenv("XDG_DATA_HOME")
	if home := a.getenv("HOME"); base == "" && home != "" {
		base = filepath.Join(home, ".local", "share")
	}
	if base == "" {
		base = os.TempDir()
	}
	return filepath.Join(base, "pentad", name)
}
