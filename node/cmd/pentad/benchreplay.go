package main

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

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
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
		Short: "Store the records of a file with the timing that they had",
		Long: fmt.Sprintf(`Store the records of a file, - is stdin, with the timing that they had: as far apart as their
caps are, --speed times as fast. What is due goes out in one batch.

This WRITES to the node, and the records stay until pentad purge removes them. They go to cid %d,
or the one that --cid names, so that they never become new versions of the real ones; --keep-cid
leaves each where the file says.

FILE is what get -o ndjson or -o csv wrote, plain or .gz, or any CSV with the --mapping of an
import. Give the --type that get had; of a get without one a CSV is base64, and ndjson needs none.
FILE is read into memory and sorted by cap (at most 16 million records). With --in-order, and with
--speed 0, it is sent as it comes, of any length: a record whose cap is before that of the one
before it has come late, and goes with it.

Latency counts from when the oldest record of a batch was due; lag is how far the replay is behind
the timing of the file. One connection keeps the order of the file; several may overtake
each other.`, replayCID),
		Args: arguments(1, 1, "the file to replay, or - for stdin"),
		Example: `  pentad bench replay readings.csv --type i64
  pentad get --cid 1 --type f64 -o ndjson | pentad bench replay - --speed 60
  pentad bench replay det_2024_01.csv.gz --mapping lanes.yaml --lookup-file ids.json --speed 0`,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("cid") && f.keepCID {
				return usagef("--cid and --keep-cid are two places; give one of them")
			}
			return a.benchReplay(c.Context(), &f, args[0])
		},
	}
	flags := c.Flags()
	flags.Float64Var(&f.speed, "speed", 1, "60: an hour in a minute; 0: as fast as answers come")
	flags.IntVar(&f.batch, "batch", defaultBenchBatch, "records of a batch at most")
	flags.Int64Var(&f.cid, "cid", replayCID, "tenant that holds the records")
	flags.BoolVar(&f.keepCID, "keep-cid", false, "leave records in the tenants of the file")
	flags.BoolVar(&f.inOrder, "in-order", false, "send as the file comes, without sorting it")
	flags.StringVar(&f.format, "format", "", "ndjson or csv (default: csv where the name or "+
		"--mapping says so, else ndjson)")
	flags.StringVar(&f.kind, "type", "f64", "values are "+output.PayloadTypes)
	flags.StringVar(&f.mapping, "mapping", "", "YAML file of import csv that says how rows "+
		"become records")
	flags.StringVar(&f.lookupFile, "lookup-file", "", "JSON file that keeps the ids given to names")
	f.add(c, "writers", 1, "connections, each with one batch under way at a time")
	complete(c, "format", "ndjson", "csv")
	complete(c, "type", "f64", "i64", "text", "hex", "base64")
	return c
}

func (a *app) benchReplay(ctx context.Context, f *benchReplayFlags, name string) (err error) {
	read, err := f.check(name)
	if err != nil {
		return err
	}
	if err := a.checkFiles([]string{name}); err != nil {
		return err
	}
	dbs, closeAll, err := a.connectMany(ctx, f.workers)
	if err != nil {
		return err
	}
	defer closeAll()
	in, shown, err := a.openInput(ctx, name)
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
			err = fmt.Errorf("%w; a file that is in order of cap can be sent with --in-order", err)
		}
		if err != nil {
			return err
		}
		a.note("%s records, for %s at this speed", output.Thousands(sorted.Len()),
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
	a.note("storing the records of %s in %s of %s; they stay until pentad purge removes them",
		shown, where, a.addr)
	err = a.runBench(ctx, run, &f.benchFlags, &benchSummary{paced: f.speed > 0, cid: file.cid,
		sizes: []bool{true}})
	return firstError(err, source.Close(), file.rejects.err(file.lines))
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
		return nil, usageError{err}
	}
	if f.format == "" {
		f.format = "ndjson"
		if strings.HasSuffix(strings.TrimSuffix(name, ".gz"), ".csv") || f.mapping != "" {
			f.format = "csv"
		}
	}
	switch {
	case math.IsNaN(f.speed) || math.IsInf(f.speed, 0) || f.speed < 0:
		return nil, usagef("--speed %v is no speed; give 1 for that of the file, 60 for an hour "+
			"in a minute, 0 for as fast as answers come", f.speed)
	case f.batch < 1 || f.batch > record.MaxBatchRecords:
		return nil, usagef("--batch %d: a node takes 1 to %d records at once", f.batch,
			record.MaxBatchRecords)
	case f.format != "ndjson" && f.format != "csv":
		return nil, usagef("--format %q is unknown; write ndjson or csv", f.format)
	case f.mapping != "" && f.format != "csv":
		return nil, usagef("--mapping is for csv, and --format says %s", f.format)
	case f.lookupFile != "" && f.mapping == "":
		return nil, usagef("--lookup-file keeps the ids that a --mapping gives; name both")
	case f.mapping != "":
		return f.readMapped()
	case f.format == "csv":
		return func(ctx context.Context, name string, in io.Reader, add addRecord,
			rejects *rejected) (int64, int64, error) {
			return recordsFromCSV(ctx, name, in, add, kind, rejects)
		}, nil
	}
	return func(ctx context.Context, name string, in io.Reader, add addRecord,
		rejects *rejected) (int64, int64, error) {
		return recordsFromLines(ctx, name, in, add, kind, rejects)
	}, nil
}

func (f *benchReplayFlags) readMapped() (recordReader, error) {
	m, err := csvimport.LoadMapping(f.mapping)
	if err == nil {
		err = m.Check()
	}
	if err != nil {
		return nil, usageError{err}
	}
	opt := csvimport.Options{LookupPath: f.lookupFile, Dir: filepath.Dir(f.mapping)}
	return func(ctx context.Context, name string, in io.Reader, add addRecord,
		rejects *rejected) (int64, int64, error) {
		return recordsFromMapping(ctx, name, in, add, m, opt, rejects)
	}, nil
}

// recordReader hands the records of one form of file to add.
type recordReader func(ctx context.Context, name string, in io.Reader, add addRecord,
	rejects *rejected) (written, lines int64, err error)

// replayFile is the file on its way to the node.
type replayFile struct {
	name string
	in   io.Reader
	read recordReader
	cid  *int32 // nil: that of the file

	rejects rejected
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
