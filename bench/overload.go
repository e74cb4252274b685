package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	barGoodput      = 0.8
	barAcceptedMs   = 1000
	sustainClients  = 16 // or fewer
	overloadTimes   = 2
	overloadRecords = 1000 // of a put
	overloadLimit   = 30 * time.Second
)

// overload is one run of twice as many requests as a node can serve.
type overload struct {
	out     io.Writer
	dir     string
	pentad  string
	memory  int64
	clients int
	piece   time.Duration
	figures figure.List
}

func overloadCommand(out io.Writer) *cobra.Command {
	o := overload{out: out}
	c := &cobra.Command{
		Use:   "overload",
		Short: "Measure a node under twice the load that it sustains",
		Long: `Start a node as a process of its own, in a control group with a hard limit of memory where there may
be one, and find what it sustains for 16 clients that ask one request after another. Then send twice
as many requests a second, whether earlier ones are answered or not, and measure how many are
answered still, how long these take, and what the rest is told. First puts of 1,000 records, then
questions: a device's day, stats of 50 devices and of all, in turn. All processes share one machine.
A bar that does not hold is printed, and the exit code is 0.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	f := c.Flags()
	f.Int64Var(&o.memory, "memory", 2<<30, "bytes that the node may have")
	f.IntVar(&o.clients, "clients", 500, "requests that are under way at most")
	f.DurationVar(&o.piece, "piece", 10*time.Second, "how long each measurement takes")
	f.StringVar(&o.pentad, "pentad", "../bin/pentad", "the program to start as a node")
	f.StringVar(&o.dir, "out", "out", "folder of overload.json, and of the data while it runs")
	return c
}

func (o *overload) run(ctx context.Context) (err error) {
	if o.piece <= 0 || o.clients < 1 || o.memory < 1 {
		return errors.New("--memory, --clients and --piece must be above 0")
	}
	dir := filepath.Join(o.dir, "work-overload")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := o.fill(ctx, dir); err != nil {
		return err
	}
	fmt.Fprintln(o.out, machine())
	program, group, err := limitMemory(o.pentad, o.memory, filepath.Join(o.dir, "limited.sh"))
	if err != nil {
		return err
	}
	defer group.remove()
	s, err := serve(ctx, program, dir, "--memory", fmt.Sprint(o.memory))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	most := watchMemory(s.cmd.Process.Pid)
	idle := make(chan *client.Client, o.clients) // each has its connections
	for range o.clients {
		db, err := client.Dial(ctx, s.addr)
		if err != nil {
			return err
		}
		defer db.Close()
		idle <- db
	}
	if err := o.measure(ctx, "puts", idle, putTo); err != nil {
		return err
	}
	if err := o.measure(ctx, "questions", idle, questionTo); err != nil {
		return err
	}
	what := "memory of the node"
	if !group.hard() {
		what += ", without a hard limit"
	}
	o.figures.AtMost(what, float64(most())/(1<<20), "MiB", float64(o.memory)/(1<<20))
	if err := o.figures.Table(o.out); err != nil {
		return err
	}
	return o.figures.Save(filepath.Join(o.dir, "overload.json"))
}

func (o *overload) fill(ctx context.Context, dir string) (err error) {
	db, err := node.Open(ctx, node.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	for device := range tenantDevices {
		if _, err := db.Put(ctx, tenantBatch(goodTenant, device), store.WriterSeq{}); err != nil {
			return err
		}
	}
	return db.Settle(ctx)
}

// request sends the request of a number.
type request func(ctx context.Context, db *client.Client, number int64) error

func putTo(ctx context.Context, db *client.Client, number int64) error {
	b := &record.Batch{}
	for k := range int64(overloadRecords) {
		b.Append(record.Key{CID: 3, MID: k, MOID: 1, CapNs: number * minute}, []byte("12345678"))
	}
	_, err := db.Put(ctx, b, [16]byte{}, 0)
	return err
}

func questionTo(ctx context.Context, db *client.Client, number int64) error {
	switch number % 3 {
	case 0:
		return askRows(ctx, db)
	case 1:
		return askStats(ctx, db)
	}
	_, _, err := db.Fresh().Aggregate(ctx, &record.Query{
		Box:       tenantBox(goodTenant, 0, tenantDevices, tenantReadings),
		Aggregate: record.PluginCall{Name: "stats"}})
	return err
}

// answered is what became of requests.
type answered struct {
	mu       sync.Mutex
	took     []float64 // ms, of those that were answered
	refused  int
	noAdvice int // refused without a word when to come again
	skipped  int // not sent, as too many were in progress
	failed   []error
}

func (a *answered) add(took time.Duration, err error) {
	var remote *wire.Error
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.took = append(a.took, ms(took))
	case errors.As(err, &remote) && remote.Kind.Temporary():
		a.refused++
		if remote.RetryAfterMs == 0 {
			a.noAdvice++
		}
	default:
		a.failed = append(a.failed, err)
	}
}

// measure finds what is sustained, and what is left of it under twice the load.
func (o *overload) measure(
	ctx context.Context, what string, idle chan *client.Client, ask request,
) error {
	var number atomic.Int64
	once := func(db *client.Client, into *answered) {
		limited, cancel := context.WithTimeout(ctx, overloadLimit)
		defer cancel()
		began := time.Now()
		err := ask(limited, db, number.Add(1))
		into.add(time.Since(began), err)
	}
	var usual, most answered
	began := time.Now()
	var all sync.WaitGroup
	for range min(sustainClients, o.clients) {
		all.Go(func() {
			db := <-idle
			defer func() { idle <- db }()
			for time.Since(began) < o.piece {
				once(db, &usual)
			}
		})
	}
	all.Wait()
	rate := float64(len(usual.took)) / time.Since(began).Seconds()
	if len(usual.failed) > 0 || rate == 0 {
		return fmt.Errorf("%s without overload: %w", what, errors.Join(usual.failed...))
	}
	began = time.Now()
	for sent := 0.0; time.Since(began) < o.piece; {
		for due := time.Since(began).Seconds() * rate * overloadTimes; sent < due; sent++ {
			select {
			case db := <-idle:
				all.Go(func() {
					once(db, &most)
					idle <- db
				})
			default:
				most.skipped++
			}
		}
		time.Sleep(time.Millisecond)
	}
	took := time.Since(began).Seconds()
	most.mu.Lock()
	good, late := float64(len(most.took))/took, slices.Clone(most.took)
	most.mu.Unlock()
	all.Wait()
	if len(most.failed) > 0 {
		return fmt.Errorf("%s: %d failed, as %w", what, len(most.failed), most.failed[0])
	}
	o.figures.Add(what+" that are sustained", rate, "1/s")
	o.figures.Add(what+" that are sustained, p99", percentile(usual.took, 0.99), "ms")
	o.figures.AtLeast(what+" answered under twice as many / sustained", good/rate, figure.Ratio,
		barGoodput)
	o.figures.AtMost(what+" accepted under twice as many, p99", percentile(late, 0.99), "ms",
		barAcceptedMs)
	o.figures.Add(what+" refused", float64(most.refused), "")
	o.figures.AtMost(what+" refused without advice", float64(most.noAdvice), "", 0)
	o.figures.Add(what+" not sent, with as many under way as may be", float64(most.skipped), "")
	return nil
}

// percentile returns the value below which a part of values lies.
func percentile(values []float64, part float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}
