package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/meters"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
)

// quick is one run of the short benchmark.
type quick struct {
	out    io.Writer
	rows   int
	dir    string
	pentad string

	work    string // data of the run, removed at its end
	config  meters.Config
	figures figure.List
	clock   atomic.Int64 // of the embedded node, in ns
	acqs    []int64      // first stamp of each batch in the embedded node
	stored  int64        // records of the workload
}

func (q *quick) run(ctx context.Context) (err error) {
	if err := os.MkdirAll(q.dir, 0o755); err != nil {
		return err
	}
	if q.work, err = os.MkdirTemp(q.dir, "work-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(q.work)) }()
	began := time.Now()
	q.config = meters.Sized(q.rows)
	q.say("%s", machine())
	steps := []func(context.Context) error{q.raw, q.overHTTP, q.embedded, q.raw, q.ask}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	q.say("")
	if err := q.figures.Table(q.out); err != nil {
		return err
	}
	path := filepath.Join(q.dir, "quick.json")
	q.say("\n%s; %s written; took %.0f s", machine(), path, time.Since(began).Seconds())
	return q.figures.Save(path)
}

func (q *quick) say(format string, args ...any) { fmt.Fprintf(q.out, format+"\n", args...) }

// open opens the embedded node. Its clock is the workload's, so that acq relates to cap as it does
// for live meters.
func (q *quick) open(ctx context.Context, workers int) (*node.Node, error) {
	return node.Open(ctx, node.Options{Dir: filepath.Join(q.work, "embedded"),
		Listen: "127.0.0.1:0", Store: store.Options{Now: q.clock.Load, Workers: workers}})
}

// ask asks the queries and runs the plugin.
func (q *quick) ask(ctx context.Context) error {
	began := time.Now()
	n, err := q.open(ctx, 0)
	if err != nil {
		return err
	}
	q.figures.Add("open, everything sealed", time.Since(began).Seconds()*1e3, "ms")
	defer func() {
		if n != nil {
			_ = n.Close(context.WithoutCancel(ctx)) // the run has failed already
		}
	}()
	db, err := client.Dial(ctx, n.Addr().String())
	if err != nil {
		return err
	}
	defer db.Close()
	if err := q.queries(ctx, n, db); err != nil {
		return err
	}
	if err := q.plugin(ctx, n, "stats plugin, all workers"); err != nil {
		return err
	}
	if err = n.Close(ctx); err != nil {
		return err
	}
	// One worker: the plugin and the native loop then differ in nothing but the loop.
	if n, err = q.open(ctx, 1); err != nil {
		return err
	}
	if err := q.againstNative(ctx, n); err != nil {
		return err
	}
	err = n.Close(ctx)
	n = nil
	return err
}
