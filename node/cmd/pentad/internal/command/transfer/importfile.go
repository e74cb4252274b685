package transfer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/arrowfile"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/input"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/parquetfile"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

const importFileHelp = `Import files written by pentad export; - is stdin. CSV, Arrow and Parquet files of other systems
need a mapping, given by a file or by flags: see pentad import csv --help.

Keys, payloads, tombstones and the order of versions are restored exactly. The node assigns new
acqs. CSV with columns tenant, device and quantity (export --names) is stored under the numbers that
their names have in the node; a device that it does not have ends the import, or is created with
--create.

A second import of the same content within seven days, e.g. after an interruption, stores only what
is missing; "known" counts the rest. --again stores everything again, e.g. after an erase. Input
from stdin and pipes is always stored completely.

from_acq and until_acq are the range of acquisition times of the records: --asof FROM shows the data
as before the import, --asof UNTIL as after it.

The format is detected from the first bytes, also of gzip; --format overrides it. A truncated or
malformed file is an error with exit code 7; records before the damage are stored. CSV, NDJSON and
Arrow have no checksums: a corrupt byte of a value is detected only if the file is gzipped or has a
FILE.sha256, as written by pentad export --checksum or sha256sum. A file that does not match it is
an error with exit code 7, and nothing of it is stored.`

// importFileFlags say how files of exports are read.
type importFileFlags struct {
	runFlags
	format string
}

// importFileCommand is import, with the command that imports by a mapping below it.
func (a *app) importFileCommand(csv *cobra.Command) *cobra.Command {
	var f importFileFlags
	var m importFlags
	c := cli.Group("import", "Import records from files",
		`  pentad import history.ndjson
  pentad import energy.parquet --again
  pentad import energy.parquet --cid column=cid --mid 9 --cap column=cap --value column=value,moid=4
  pentad import csv --mapping lanes.yaml --lookup-file ids.json lanes.csv.gz`, csv)
	c.Use, c.Long = "import FILE...", importFileHelp
	c.Args = cli.Arguments(1, 1<<20, "the file to import, or - for stdin")
	c.RunE = func(c *cobra.Command, args []string) error {
		if !slices.ContainsFunc(mappingFlags(), c.Flags().Changed) {
			return a.importExports(c.Context(), &f, args)
		}
		return a.importMapped(c.Context(), c, &m, exchange.Format(f.format), f.runFlags, args)
	}
	c.Flags().StringVar(&f.format, "format", "",
		"format of the files: "+exchange.Formats+" (default: by their first bytes)")
	f.runFlags.add(c)
	cli.Complete(c, "format", "ndjson", "csv", "arrow", "parquet")
	m.add(c)
	return c
}

// stored counts what an import did.
type stored struct {
	files          int
	records, known int64
	began          bool  // a file was opened and found intact
	acqFrom, acqTo int64 // of the records, [from, to); 0: not known
}

// addAcqs takes the acqs of a file.
func (s *stored) addAcqs(of *client.WriterStats) {
	if of.LastAcqNs == 0 {
		return
	}
	if s.acqTo == 0 {
		s.acqFrom = of.FirstAcqNs
	}
	s.acqFrom, s.acqTo = min(s.acqFrom, of.FirstAcqNs), max(s.acqTo, of.LastAcqNs+1)
}

// acqColumns are the names of what acqs returns.
func acqColumns() []output.Column {
	return []output.Column{cli.Left("from_acq"), cli.Left("until_acq")}
}

// acqs are the least acq of the records and the one after the greatest.
func (s *stored) acqs() []output.Value {
	if s.acqTo == 0 {
		return []output.Value{output.Null(), output.Null()}
	}
	return []output.Value{output.Time(s.acqFrom), output.Time(s.acqTo)}
}

// noteAcqs says how to ask for what was there before the import and after it.
func (a *app) noteAcqs(s *stored) {
	if s.acqTo != 0 {
		a.Note("to see the data as before this import: --asof %s; as after it: --asof %s",
			timeparse.Format(s.acqFrom), timeparse.Format(s.acqTo))
	}
}

// left says how far an import of exports came that ended early at a file, and how to go on.
func (s *stored) left(err error, again bool, name string, files []string) string {
	text := ""
	damaged := errors.As(err, new(*exchange.DamageError))
	switch {
	case !s.began, damaged && s.records == 0:
		return "nothing was stored"
	case s.records == 0:
		text = "no record is known to be stored"
	default:
		text = output.Thousands(s.records) + " records stored"
		if len(files) > 1 {
			text = fmt.Sprintf("file %d of %d, %s: %s of all files", s.files+1, len(files), name,
				text)
		}
	}
	if damaged {
		return text
	}
	return text + goOn(again, files, true)
}

func (a *app) importExports(ctx context.Context, f *importFileFlags, files []string) error {
	if f.format != "" {
		if _, err := exchange.ParseFormat(f.format); err != nil {
			return cli.Usagef("--format: %w", err)
		}
	}
	if err := input.Check(files); err != nil {
		return err
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	start := a.Now()
	p := a.NewProgress("import", input.Size(files), false)
	defer p.Close()
	var total stored
	for _, name := range files {
		if err := a.importExport(ctx, db, f, name, p, &total); err != nil {
			left := total.left(err, f.again, name, files)
			if ctx.Err() != nil {
				return cli.Stopped(ctx, err, left)
			}
			a.Note("%s", left)
			return err
		}
		total.files++
	}
	err = a.storedSummary(&total, a.Now().Sub(start))
	if err == nil && total.records == 0 && f.failEmpty {
		return cli.ErrEmpty
	}
	return err
}

// importExport stores the records of one file.
func (a *app) importExport(
	ctx context.Context, db *client.Client, f *importFileFlags, name string, p *cli.Progress,
	total *stored,
) (err error) {
	if err := checkSum(ctx, name); err != nil {
		return err
	}
	opt := client.WriterOptions{BatchRecords: importBatchRecords, BatchBytes: importBatchBytes}
	if !f.again {
		if opt.ID, err = contentID(ctx, name); err != nil {
			return err
		}
	}
	in, shown, err := input.Open(ctx, a.App, name)
	if err != nil {
		return err
	}
	defer func() { err = cli.FirstError(err, in.Close()) }()
	w := db.NewWriter(opt)
	before := *total
	records := func() int64 { return before.records + w.Stats().Records }
	names := &queryflags.Resolver{DB: db, Create: f.create, Hint: createNamesHint, Steady: true}
	reader, err := openExport(countedInput(in, p, records), exchange.Format(f.format), func(
		d record.Dim, cid int32, text string) (int64, error) {
		return names.Find(ctx, d, cid, text)
	})
	if err == nil {
		total.began = true
		err = storeAll(ctx, w, reader)
	}
	if err == nil || errors.As(err, new(*exchange.DamageError)) {
		err = cli.FirstError(w.Close(ctx), err) // what came before damage is true
	} else {
		// A batch that is shorter than the same one of the next run must not be remembered.
		w.Abort()
	}
	stats := w.Stats()
	total.records, total.known = before.records+stats.Records, before.known+stats.Known
	total.addAcqs(&stats)
	if err != nil {
		return fmt.Errorf("%s: %w", shown, err)
	}
	if stats.Records == 0 {
		a.Note("nothing to import: %s has no records", shown)
	}
	return nil
}

// Bounds of a batch. They are part of the identity of an import, as batches are what a node
// remembers.
const (
	importBatchRecords = 10_000
	importBatchBytes   = 8 << 20
)

// contentID is the identity of an import of a file, or none when the file cannot be read twice.
func contentID(ctx context.Context, name string) (id [16]byte, err error) {
	info, err := os.Stat(name)
	if name == "-" || err != nil || !info.Mode().IsRegular() {
		return id, nil // opening it says what is wrong with it
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "pentad import %d %d\n", importBatchRecords, importBatchBytes)
	if err := hashFile(ctx, sum, name); err != nil {
		return id, err
	}
	copy(id[:], sum.Sum(nil))
	return id, nil
}

// randomAccess is a file that can be read anywhere.
type randomAccess interface {
	io.ReaderAt
	Size() int64
}

// countedInput tells of every read. It is a randomAccess if the input is a file.
func countedInput(in io.Reader, p *cli.Progress, records func() int64) io.Reader {
	counted := cli.ProgressReader{In: in, Progress: p, Records: records}
	f, ok := in.(*os.File)
	if !ok {
		return &counted
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return &counted
	}
	return &progressFile{counted, f, info.Size()}
}

// progressFile tells of every read of a file.
type progressFile struct {
	cli.ProgressReader
	file *os.File
	size int64
}

func (f *progressFile) ReadAt(buf []byte, at int64) (int, error) {
	n, err := f.file.ReadAt(buf, at)
	f.Progress.Add(int64(n), f.Records())
	return n, err
}

func (f *progressFile) Size() int64 { return f.size }

// openExport chooses the reader of a file.
func openExport(
	in io.Reader, format exchange.Format, find exchange.FindNumber,
) (exchange.Reader, error) {
	r, err := openFormat(in, format, find)
	if notExport := (*exchange.FormatError)(nil); errors.As(err, &notExport) {
		return nil, cli.Usage(err)
	}
	return r, err
}

func openFormat(
	in io.Reader, format exchange.Format, find exchange.FindNumber,
) (exchange.Reader, error) {
	plain, err := exchange.Plain(in)
	if err != nil {
		return nil, err
	}
	if format == "" {
		if format, err = exchange.Recognise(plain); err != nil {
			return nil, err
		}
	}
	switch format {
	case exchange.NDJSON:
		r, _, err := exchange.NewNDJSONReader(plain)
		return r, err
	case exchange.CSV:
		if err := csvimport.CheckText(plain, ""); err != nil {
			return nil, cli.Usage(err)
		}
		return exchange.NewCSVReader(plain, find)
	}
	table, err := openTable(in, plain, format)
	if err != nil {
		return nil, err
	}
	return exchange.NewTableReader(table)
}

// openTable opens a file of columns, of which plain holds the beginning.
func openTable(in io.Reader, plain *bufio.Reader, format exchange.Format) (exchange.Table, error) {
	if format == exchange.Arrow {
		return arrowfile.NewTable(plain)
	}
	file, ok := in.(randomAccess)
	if !ok {
		return nil, cli.Usagef("Parquet: cannot be read from a pipe; give a file")
	}
	return parquetfile.NewTable(file, file.Size())
}

// storeAll hands all records of a file to a writer.
func storeAll(ctx context.Context, w *client.Writer, r exchange.Reader) error {
	var b record.Batch
	for {
		err := r.Next(&b)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := input.SendTo(w.AddRecord)(ctx, &b); err != nil {
			return err
		}
	}
}

func (a *app) storedSummary(s *stored, took time.Duration) error {
	columns := slices.Concat([]output.Column{cli.Right("files"), cli.Right("records"),
		cli.Right("known")}, acqColumns(), []output.Column{cli.Right("took")})
	values := slices.Concat([]output.Value{output.Count(s.files), output.Count(s.records),
		output.Count(s.known)}, s.acqs(), []output.Value{output.Span(took.Round(time.Millisecond))})
	if err := a.One(columns, values...); err != nil {
		return err
	}
	fresh := s.records - s.known
	if seconds := took.Seconds(); seconds > 0 && fresh > 0 {
		a.Note("stored %s in %s (%s records/s)", output.Counted(fresh, "records"),
			output.Duration(took), output.Thousands(int64(float64(fresh)/seconds)))
	}
	a.noteAcqs(s)
	a.noteKnown(s, "this file")
	return nil
}

// noteKnown says what an import found stored.
func (a *app) noteKnown(s *stored, what string) {
	switch {
	case s.known > 0 && s.known == s.records:
		a.Note("nothing was stored: all %s records are known from an earlier import of %s; use "+
			"--again to store them again", output.Thousands(s.known), what)
	case s.known > 0:
		a.Note("%s of the records were stored by an earlier import of %s; use --again to store "+
			"them again", output.Thousands(s.known), what)
	}
}
