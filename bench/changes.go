package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/bench/workload/meters"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	barFeedRecent = 1.0 // M records/s
	barFeedCold   = 0.5
	barFeedP50    = 5.0 // ms from the acknowledgement to a follower
	barFeedP99    = 50.0
	barFollowers  = 100.0 // MiB of a thousand that wait
)

// following is one run of change feeds.
type following struct {
	out       io.Writer
	dir       string
	pentad    string
	rows      int
	recent    int
	rate      int
	latency   time.Duration
	idle      int
	rest      time.Duration
	filesOnly bool

	work    string
	splitNs int64 // recent rows come from here on
	figures figure.List
}

func feedCommand(out io.Writer) *cobra.Command {
	r := following{out: out}
	c := &cobra.Command{
		Use:   "feed",
		Short: "Measure change feeds: records a second, latency, memory of those that wait",
		Long: `Load the standard workload, then read it back in the order in which it came: the last records from the
head, and all from sealed segments with an empty page cache; in this process and over HTTP from a
node of its own. Then follow a node that is written to at a steady rate, and time each batch from
its acknowledgement to its arrival. Last, let followers wait and see what the node has grown by.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&r.rows, "rows", 10_000_000, "about how many records lie in sealed segments")
	f.IntVar(&r.recent, "recent", 1_000_000, "how many came after them; below 2^21, and not sealed")
	f.IntVar(&r.rate, "rate", 100_000, "records a second while latency is measured")
	f.DurationVar(&r.latency, "latency", 20*time.Second, "how long it is measured")
	f.IntVar(&r.idle, "idle", 1000, "followers that wait")
	f.DurationVar(&r.rest, "rest", restFor,
		"how long the node is left alone before they come: it then holds what it keeps ready")
	f.StringVar(&r.pentad, "pentad", "../bin/pentad", "the program to start as a node")
	f.BoolVar(&r.filesOnly, "files-only", false, filesOnlyAbout)
	f.StringVar(&r.dir, "out", "out", "folder of feed.json, and of the data while it runs")
	return c
}

func (r *following) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

func (r *following) run(ctx context.Context) (err error) {
	r.say("%s", machine())
	r.work = filepath.Join(r.dir, "work-feed")
	if err := os.RemoveAll(r.work); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	for _, step := range []func(context.Context) error{r.load, r.embedded, r.http, r.follow,
		r.wait} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	r.say("")
	if err := r.figures.Table(r.out); err != nil {
		return err
	}
	path := filepath.Join(r.dir, "feed.json")
	r.say("\nload average %s; %s written", loadAverage(), path)
	return r.figures.Save(path)
}

// load fills a node: what is sealed and merged, and after it what stays in the head.
func (r *following) load(ctx context.Context) (err error) {
	n, err := node.Open(ctx, node.Options{Dir: r.work})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(context.WithoutCancel(ctx))) }()
	stream := meters.Sized(r.rows + r.recent).NewStream()
	put := func(rows int) error {
		var b record.Batch
		for done := 0; done < rows && stream.Next(&b); done += b.Len() {
			b.AcqNs = nil
			if _, err := n.Put(ctx, &b, store.WriterSeq{}); err != nil {
				return fmt.Errorf("put: %w", err)
			}
			b.AcqNs = []int64{}
		}
		return stream.Err()
	}
	if err := put(r.rows); err != nil {
		return err
	}
	if err := n.Settle(ctx); err != nil {
		return err
	}
	if r.splitNs, err = n.Horizon(ctx); err != nil {
		return err
	}
	return put(r.recent)
}

// timed adds the rate at which read gives records, by the clock and by the processor, and holds it
// against a bar, if there is one.
func (r *following) timed(name string, bar float64, read func() (records int, err error)) error {
	spent, err := process.OwnTime()
	if err != nil {
		return err
	}
	began := time.Now()
	records, err := read()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	took := time.Since(began)
	after, err := process.OwnTime()
	if err != nil {
		return err
	}
	r.say("%s: %d records in %v, %.3g s of the processor", name, records,
		took.Round(time.Millisecond), (after - spent).Seconds())
	if bar > 0 {
		r.figures.AtLeast("feed, "+name, rate(int64(records), took), "M records/s", bar)
	} else {
		r.figures.Add("feed, "+name, rate(int64(records), took), "M records/s")
	}
	r.figures.Add("feed, "+name+", by the processor", rate(int64(records), after-spent),
		"M records/s")
	return nil
}

// embedded reads in this process.
func (r *following) embedded(ctx context.Context) (err error) {
	how, err := dropCache(r.work, r.filesOnly)
	if err != nil {
		return err
	}
	r.say("before the cold run, %s", how)
	n, err := node.Open(ctx, node.Options{Dir: r.work})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(context.WithoutCancel(ctx))) }()
	read := func(from, to int64) func() (int, error) {
		return func() (records int, err error) {
			enough := errors.New("enough")
			_, err = n.Changes(ctx, &record.Query{}, from, false, func(s *store.Slice) error {
				if records += s.Rows.Len(); s.ClosedNs >= to {
					return enough
				}
				return nil
			})
			if errors.Is(err, enough) {
				err = nil
			}
			return records, err
		}
	}
	err = r.timed("cold history, embedded", barFeedCold, read(0, r.splitNs))
	if err == nil {
		err = r.timed("warm history, embedded", 0, read(0, r.splitNs))
	}
	if err == nil {
		err = r.timed("recent, embedded", barFeedRecent, read(r.splitNs, math.MaxInt64))
	}
	return err
}

// http reads from a node in a process of its own. The processor's time is that of the client.
func (r *following) http(ctx context.Context) error {
	how, err := dropCache(r.work, r.filesOnly)
	if err != nil {
		return err
	}
	r.say("before the cold run, %s", how)
	return r.served(ctx, func(_ *served, db *client.Client) error {
		read := func(from, to int64) func() (int, error) {
			return func() (records int, err error) {
				for b, err := range db.PastChanges(ctx, &record.Query{}, from) {
					if err != nil {
						return records, err
					}
					if b.Rows != nil {
						records += b.Rows.Len()
					}
					if b.ClosedNs >= to {
						break
					}
				}
				return records, nil
			}
		}
		err := r.timed("cold history, HTTP", barFeedCold, read(0, r.splitNs))
		if err == nil {
			err = r.timed("recent, HTTP", barFeedRecent, read(r.splitNs, math.MaxInt64))
		}
		return err
	})
}

func (r *following) served(
	ctx context.Context, use func(n *served, db *client.Client) error,
) error {
	n, err := serve(ctx, r.pentad, r.work)
	if err != nil {
		return err
	}
	db, err := client.Dial(ctx, n.addr)
	if err == nil {
		err = errors.Join(use(n, db), db.Close())
	}
	return errors.Join(err, n.stop())
}

// follow measures the time from the acknowledgement of a batch to the arrival of its records.
func (r *following) follow(ctx context.Context) error {
	return r.served(ctx, func(_ *served, db *client.Client) error {
		l := lateness{follower: db, writers: []*client.Client{db}, putters: 1, rate: r.rate,
			lasts: r.latency}
		took, err := l.measure(ctx)
		if err != nil {
			return err
		}
		text, p50, p99 := l.tell(took)
		r.say("%s", text)
		r.figures.AtMost("feed, acknowledged to arrived, p50", p50, "ms", barFeedP50)
		r.figures.AtMost("feed, acknowledged to arrived, p99", p99, "ms", barFeedP99)
		return nil
	})
}

// wait lets followers of a device each wait and sees what the node has grown by.
func (r *following) wait(ctx context.Context) error {
	return r.served(ctx, func(n *served, _ *client.Client) error {
		if err := pause(ctx, r.rest); err != nil {
			return err
		}
		before, err := process.Memory(n.cmd.Process.Pid)
		if err != nil {
			return err
		}
		host := strings.TrimPrefix(n.addr, "http://")
		for i := range r.idle {
			c, err := net.Dial("tcp", host)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			fmt.Fprintf(c, "GET /v1/changes?follow=1&since=now&mid=%d HTTP/1.1\r\nHost: %s\r\n\r\n",
				i, host)
			for lines := bufio.NewScanner(c); ; {
				if !lines.Scan() {
					return fmt.Errorf("follower %d was told nothing: %w", i, lines.Err())
				}
				if strings.Contains(lines.Text(), "closed_ns") {
					break
				}
			}
		}
		after, err := process.Memory(n.cmd.Process.Pid)
		if err != nil {
			return err
		}
		grown := float64(after.Anon-before.Anon) / mib
		r.say("%d followers: the node's own memory grew from %.0f to %.0f MiB", r.idle,
			float64(before.Anon)/mib, float64(after.Anon)/mib)
		r.figures.AtMost(fmt.Sprintf("feed, memory of %d followers that wait", r.idle), grown,
			"MiB", barFollowers)
		return nil
	})
}
