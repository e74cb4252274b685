package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/input"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/load"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/record"
)

// benchReplayFlags say what is read and when it is sent, besides the flags of every load.
type benchReplayFlags struct {
	benchFlags
	speed                             float64
	format, kind, mapping, lookupFile string
	inOrder, keepCID                  bool
	batch                             int
	cid                               int64
}

func (a *app) benchReplayCommand() *cobra.Command {
	var f benchReplayFlags
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay a file of records and report latency",
		Long: fmt.Sprintf(`Replay a file of records, - is stdin, with its original timing: the gaps between capture times,
divided by --speed. Records that are due together are sent in one batch.

This WRITES to the node, and the records stay until pentad purge removes them. They go to the tenant
--cid, by default %d, so that they never become new versions of the originals; --keep-cid keeps the
tenants of the file.

FILE is the output of get -o ndjson or -o csv, plain or .gz, or any CSV with the --mapping of an
import. --type must be that of get; without it get writes base64 in CSV, and ndjson needs none. FILE
is read into memory and sorted by cap (at most 16 million records). With --in-order or --speed 0 it
is sent as read, with any length: a record whose cap is before that of its predecessor is late, and
is sent with it.

Latency counts from the time the oldest record of a batch was due; lag is how far the replay is
behind its timing. One connection keeps the order of the file; several may reorder it.`, replayCID),
		Args: cli.Arguments(1, 1, "the file to replay, or - for stdin"),
		Example: `  pentad bench replay readings.csv --type i64
  pentad get --cid 1 --type f64 -o ndjson | pentad bench replay - --speed 60
  pentad bench replay det_2024_01.csv.gz --mapping lanes.yaml --lookup-file ids.json --speed 0`,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("cid") && f.keepCID {
				return cli.Usagef("--cid and --keep-cid: mutually exclusive; use one")
			}
			return a.benchReplay(c.Context(), &f, args[0])
		},
	}
	flags := c.Flags()
	flags.Float64Var(&f.speed, "speed", 1,
		"speed-up; 60 replays an hour in a minute (0: as fast as the node answers)")
	flags.IntVar(&f.batch, "batch", defaultBenchBatch, "maximum number of records per batch")
	flags.Int64Var(&f.cid, "cid", replayCID, "tenant that receives the records")
	flags.BoolVar(&f.keepCID, "keep-cid", false, "keep the tenants of the file")
	flags.BoolVar(&f.inOrder, "in-order", false, "send records in file order, without sorting them")
	flags.StringVar(&f.format, "format", "",
		"format of the file: ndjson or csv (default: csv if the name or --mapping\nsays so, "+
			"else ndjson)")
	flags.StringVar(&f.kind, "type", "f64", "type of values: "+output.PayloadTypes)
	flags.StringVar(&f.mapping, "mapping", "",
		"YAML file that maps rows to records, see pentad import csv")
	flags.StringVar(&f.lookupFile, "lookup-file", "",
		"JSON file with the ids of names; created if missing")
	f.add(c, "writers", 1, "number of connections, each with one batch at a time")
	cli.Complete(c, "format", "ndjson", "csv")
	cli.Complete(c, "type", "f64", "i64", "text", "hex", "base64")
	return c
}

func (a *app) benchReplay(ctx context.Context, f *benchReplayFlags, name string) (err error) {
	read, err := f.check(name)
	if err != nil {
		return err
	}
	if err := input.Check([]string{name}); err != nil {
		return err
	}
	dbs, closeAll, err := a.connectMany(ctx, f.workers)
	if err != nil {
		return err
	}
	defer closeAll()
	in, shown, err := input.Open(ctx, a.App, name)
	if err != nil {
		return err
	}
	defer in.Close()
	file := &replayFile{name: shown, in: in, read: read}
	if !f.keepCID {
		cid := int32(f.cid)
		file.cid = &cid
	}
	records := file.records(ctx)
	if !f.inOrder && f.speed > 0 {
		sorted, err := load.Sorted(records)
		if errors.Is(err, load.ErrTooMany) {
			err = fmt.Errorf("%w; use --in-order for a file in order of cap", err)
		}
		if err != nil {
			return err
		}
		a.Note("%s records, %s at this speed", output.Thousands(sorted.Len()),
			output.Duration(sorted.Takes(f.speed)))
		records = sorted.All()
	}
	source := load.NewReplay(records, load.ReplayOptions{Speed: f.speed, BatchRecords: f.batch,
		BatchBytes: record.MaxBatchBytes - record.MaxPayloadBytes})
	run := &load.Run{Kinds: []string{"replay"}, Source: source, Retry: true}
	for _, db := range dbs {
		run.Workers = append(run.Workers,
			newPutWorker(db, func(t load.Task) *record.Batch { return t.Batch }))
	}
	where := "the tenants that it names"
	if file.cid != nil {
		where = fmt.Sprintf("cid %d", *file.cid)
	}
	a.Note("storing the records of %s in %s of %s; they stay until pentad purge removes them",
		shown, where, a.Addr)
	err = a.runBench(ctx, run, &f.benchFlags, &benchSummary{paced: f.speed > 0, cid: file.cid,
		sizes: []bool{true}})
	return cli.FirstError(err, source.Close(), file.rejects.Err(file.lines))
}

// check finds what is wrong with the flags, and returns how the file is read.
func (f *benchReplayFlags) check(name string) (read recordReader, err error) {
	if err := f.benchFlags.check("writers"); err != nil {
		return nil, err
	}
	if _, err := checkCID(f.cid); err != nil {
		return nil, err
	}
	kind, err := output.ParsePayloadType(f.kind)
	if err != nil {
		return nil, cli.Usage(err)
	}
	if f.format == "" {
		f.format = "ndjson"
		if strings.HasSuffix(strings.TrimSuffix(name, ".gz"), ".csv") || f.mapping != "" {
			f.format = "csv"
		}
	}
	switch {
	case math.IsNaN(f.speed) || math.IsInf(f.speed, 0) || f.speed < 0:
		return nil,
			cli.Usagef("--speed %v: not a speed; use 1 for original timing, 60 for an hour in a "+
				"minute, 0 for no limit", f.speed)
	case f.batch < 1 || f.batch > record.MaxBatchRecords:
		return nil, cli.Usagef("--batch %d: out of range; use 1 to %d records", f.batch,
			record.MaxBatchRecords)
	case f.format != "ndjson" && f.format != "csv":
		return nil, cli.Usagef("--format %q is unknown; use ndjson or csv", f.format)
	case f.mapping != "" && f.format != "csv":
		return nil, cli.Usagef("--mapping: only for csv, but --format is %s", f.format)
	case f.lookupFile != "" && f.mapping == "":
		return nil, cli.Usagef("--lookup-file: needs a --mapping")
	case f.mapping != "":
		return f.readMapped()
	case f.format == "csv":
		return func(ctx context.Context, name string, in io.Reader, add input.AddRecord,
			rejects *input.Rejected) (int64, int64, error) {
			return input.FromCSV(ctx, name, in, add, kind, nil, rejects)
		}, nil
	}
	return func(ctx context.Context, name string, in io.Reader, add input.AddRecord,
		rejects *input.Rejected) (int64, int64, error) {
		return input.FromLines(ctx, name, in, add, kind, nil, rejects)
	}, nil
}

func (f *benchReplayFlags) readMapped() (recordReader, error) {
	m, err := csvimport.LoadMapping(f.mapping)
	if err == nil {
		err = m.Check()
	}
	if err != nil {
		return nil, cli.Usage(err)
	}
	opt := csvimport.Options{LookupPath: f.lookupFile, Dir: filepath.Dir(f.mapping)}
	return func(ctx context.Context, name string, in io.Reader, add input.AddRecord,
		rejects *input.Rejected) (int64, int64, error) {
		return input.FromMapping(ctx, name, in, add, m, opt, rejects)
	}, nil
}

// recordReader hands the records of one form of file to add.
type recordReader func(ctx context.Context, name string, in io.Reader, add input.AddRecord,
	rejects *input.Rejected) (written, lines int64, err error)

// replayFile is the file on its way to the node.
type replayFile struct {
	name string
	in   io.Reader
	read recordReader
	cid  *int32 // nil: that of the file

	rejects input.Rejected
	lines   int64
}

var errReplayEnded = errors.New("the replay has ended")

// records yields the records of the file in its order, and the error that ends it.
func (f *replayFile) records(ctx context.Context) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		plain, err := csvimport.Decompress(f.in)
		if err == nil {
			_, f.lines, err = f.read(ctx, f.name, bufio.NewReaderSize(plain, 1<<18),
				func(ctx context.Context, r record.Record) error {
					if ctx.Err() != nil {
						return context.Cause(ctx)
					}
					if f.cid != nil {
						r.CID = *f.cid
					}
					if !yield(r, nil) {
						return errReplayEnded
					}
					return nil
				}, &f.rejects)
		} else {
			err = fmt.Errorf("read %s: %w", f.name, err)
		}
		if err != nil && !errors.Is(err, errReplayEnded) {
			yield(record.Record{}, err)
		}
	}
}
