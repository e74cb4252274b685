package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/edge"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/store"
)

// closeTimeout bounds the graceful end: a seal of the largest head takes seconds, not minutes.
const closeTimeout = time.Minute

func (a *app) serveCommand() *cobra.Command {
	var opt node.Options
	var clients tstorageFlags
	var together clusterFlags
	var outer edgeFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Long: `Run a node until SIGINT or SIGTERM, and end gracefully: what was acknowledged is on disk.

A node keeps memory ready for the records of a burst: a 64th of what it may have, at most 128 MiB.
An edge does not.

On Linux its timers may be late by 1 ms (timer slack): it wakes less often, which saves up to a
sixth of what a node of a cluster costs on a virtual machine. For that it starts its own program
anew, in the same process, unless it has been given that slack, as by TimerSlackNSec=1ms of systemd.

The last line on stdout is the address. Logs go to stderr: text on a terminal, else JSON.

Requests must name the node by an IP address, as localhost, by the name in --listen or by one of
--host: else a web page could reach it through a name of its own that it has lead here. A proxy that
passes the names of its clients on needs these as --host, too.`,
		Args: noCommand,
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
	clients.add(c)
	together.add(c)
	outer.add(c)
	return c
}

func (a *app) serve(
	ctx context.Context, opt node.Options, at *edge.Options, clients tstorageFlags,
) error {
	opt.Logger = a.logger()
	opt.Fail = func(err error) {
		if errors.Is(err, member.ErrRemoved) || errors.Is(err, member.ErrReplaced) ||
			errors.Is(err, member.ErrOtherRules) {
			opt.Logger.Error("the node ends", "err", err)
			os.Exit(exitForbidden)
		}
		opt.Logger.Error("the node ends; start it again", "err", err)
		os.Exit(exitDisk)
	}
	gateway, err := clients.options(opt)
	if err != nil {
		return err
	}
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
		ahead.Go(func() { store.KeepMemoryReady(ctx) })
	}
	<-ctx.Done()
	a.note("stopping")
	ahead.Wait()
	return errors.Join(end(), a.closeNode(n))
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
