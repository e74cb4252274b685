package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/load"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// benchWriteFlags say what is written, besides the flags of every load.
type benchWriteFlags struct {
	benchFlags
	benchSeries
	records      int64
	batch        int
	payloadBytes int
	cid          int64
	force        bool
}

// defaultBenchBatch is what a client's writer gathers, where no rate makes it wait too long.
const defaultBenchBatch = 10_000

func (a *app) benchWriteCommand() *cobra.Command {
	var f benchWriteFlags
	c := &cobra.Command{
		Use:   "write",
		Short: "Run a write load and report latency",
		Long: fmt.Sprintf(`Run a write load with generated records, and report how long the node takes to make batches durable.

This WRITES to the node, and the records stay until pentad purge removes them. They go to the tenant
--cid, by default %d; a tenant with other records is refused. --devices devices send --quantities
readings every second, counted from 2024-01-01, at the speed of --rate. Payloads are an f64 followed
by random bytes. --seed determines all of it: a second run with the same seed stores new versions of
the same readings.

A failed batch is sent again and stored once. --rate counts records; a request is a batch.`,
			benchCID),
		Args: cli.NoCommand,
		Example: `  pentad bench write --records 100000
  pentad bench write --for 1s --rate 50000 --writers 8
  pentad bench write --records 20000 --batch 100 --payload-bytes 200 --seed 7 -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.benchWrite(c.Context(), c.Flags().Changed, &f)
		},
	}
	flags := c.Flags()
	flags.Int64Var(&f.records, "records", 0, "number of records, instead of --for")
	f.addRate(c, "records")
	f.benchSeries.add(c)
	flags.IntVar(&f.payloadBytes, "payload-bytes", 16, "size of each payload in bytes")
	flags.IntVar(&f.batch, "batch", 0,
		fmt.Sprintf("records per batch (default %d; with --rate at most those of 10 ms)",
			defaultBenchBatch))
	flags.Int64Var(&f.cid, "cid", benchCID, "tenant that receives the records")
	flags.BoolVar(&f.force, "force", false, "write even if the tenant holds other records")
	f.benchFlags.add(c, "writers", 4, "number of connections, each with one batch at a time")
	return c
}

func (a *app) benchWrite(ctx context.Context, given func(string) bool, f *benchWriteFlags) error {
	gen, err := f.check(given)
	if err != nil {
		return err
	}
	dbs, closeAll, err := a.connectMany(ctx, f.workers)
	if err != nil {
		return err
	}
	defer closeAll()
	if err := a.checkTenant(ctx, dbs[0], gen.CID, f.force); err != nil {
		return err
	}
	a.Note("storing generated records in cid %d of %s; remove them with pentad purge --cid %d "+
		"--yes", gen.CID, a.Addr, gen.CID)
	schedule := load.Schedule{PerSecond: f.rate / float64(f.batch), For: time.Duration(f.length),
		Requests: (f.records + int64(f.batch) - 1) / int64(f.batch)}
	pacer := load.NewPacer(schedule)
	run := &load.Run{Kinds: []string{"write"}, Source: pacer, Retry: true, For: schedule.For}
	for _, db := range dbs {
		batch := new(record.Batch)
		run.Workers = append(run.Workers, newPutWorker(db, func(t load.Task) *record.Batch {
			batch.Reset()
			n := int64(f.batch)
			if f.records > 0 {
				n = min(n, f.records-t.Index*n)
			}
			gen.Append(batch, t.Index*int64(f.batch), n)
			return batch
		}))
	}
	return a.runBench(ctx, run, &f.benchFlags, &benchSummary{rate: f.rate, paced: f.rate > 0,
		cid: &gen.CID, sizes: []bool{true}, unsent: pacer.Unsent})
}

// check finds what is wrong with the flags, and fills in what was not given.
func (f *benchWriteFlags) check(given func(string) bool) (gen load.Generator, err error) {
	if err := f.benchFlags.check("writers"); err != nil {
		return gen, err
	}
	cid, err := checkCID(f.cid)
	if err != nil {
		return gen, err
	}
	if gen, err = f.generator(cid); err != nil {
		return gen, err
	}
	gen.PayloadBytes = f.payloadBytes
	if err := checkUntil(given, "records", f.records, &f.benchFlags); err != nil {
		return gen, err
	}
	if f.payloadBytes < 0 || f.payloadBytes > record.MaxPayloadBytes {
		return gen, cli.Usagef("--payload-bytes %d: give 0 to %d", f.payloadBytes,
			record.MaxPayloadBytes)
	}
	fits := record.MaxBatchRecords
	if f.payloadBytes > 0 {
		fits = min(fits, record.MaxBatchBytes/f.payloadBytes)
	}
	switch {
	case !given("batch"):
		f.batch = min(defaultBenchBatch, fits)
		if f.rate > 0 {
			f.batch = int(max(1, min(float64(f.batch), math.Round(f.rate/100))))
		}
	case f.batch < 1 || f.batch > record.MaxBatchRecords:
		return gen, cli.Usagef("--batch %d: out of range; use 1 to %d records", f.batch,
			record.MaxBatchRecords)
	case f.batch > fits:
		return gen,
			cli.Usagef("--batch %d of --payload-bytes %d: larger than the limit of %s per "+
				"batch; use --batch %d or less", f.batch, f.payloadBytes,
				output.Size(record.MaxBatchBytes), fits)
	}
	return gen, nil
}

// checkUntil wants one end of a run: a number or a time.
func checkUntil(given func(string) bool, name string, n int64, f *benchFlags) error {
	switch {
	case given(name) && given("for"):
		return cli.Usagef("--%s and --for: mutually exclusive; use one", name)
	case given(name) && n < 1:
		return cli.Usagef("--%s %d: give at least 1", name, n)
	case !given(name) && !given("for"):
		f.length = cli.DurationFlag(defaultBenchFor)
	}
	return nil
}

// checkTenant refuses a tenant that holds records which bench write did not make up: they could
// not be told from the new ones afterwards, nor these be taken away again.
func (a *app) checkTenant(ctx context.Context, db *client.Client, cid int32, force bool) error {
	if force {
		return nil
	}
	q := &record.Query{Box: record.Box{record.CID: {record.At(int64(cid))},
		record.MID: {{From: record.MID.Min(), To: load.FirstMID},
			{From: load.EndMID, To: record.MID.Max()}}}}
	others, err := queryflags.Count(ctx, db, q)
	switch {
	case err != nil:
		return err
	case others > 0:
		return cli.Usagef("--cid %d: holds %s records that bench did not generate; use another "+
			"--cid, or --force", cid, output.Thousands(others))
	}
	return nil
}

// putWorker stores batches over one connection. A batch keeps its sequence when it is sent again.
type putWorker struct {
	db    *client.Client
	fill  func(load.Task) *record.Batch // valid until the next task
	id    [16]byte
	seq   uint64
	batch *record.Batch
}

func newPutWorker(db *client.Client, fill func(load.Task) *record.Batch) *putWorker {
	w := &putWorker{db: db, fill: fill}
	if _, err := rand.Read(w.id[:]); err != nil {
		panic("BUG: no randomness: " + err.Error())
	}
	return w
}

// Prepare implements load.Worker.
func (w *putWorker) Prepare(t load.Task) int {
	w.batch = w.fill(t)
	w.seq++
	return 0
}

// Send implements load.Worker.
func (w *putWorker) Send(ctx context.Context) (load.Answer, error) {
	_, err := w.db.Put(ctx, w.batch, w.id, w.seq)
	return load.Answer{Records: int64(w.batch.Len()), PayloadBytes: int64(len(w.batch.Data))}, err
}
