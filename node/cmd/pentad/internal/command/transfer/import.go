// Package transfer holds pentad export and pentad import: records to files and back.
//
// It owns the identity of a file, by which an interrupted import resumes, and the order of an
// export. Packages exchange, arrowfile, parquetfile and csvimport own the formats of files.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/input"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/sealer"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

const importHelp = `Import CSV files, plain or .gz; - is stdin.

A mapping defines the columns of the key and the cells with values, in a YAML file (--mapping) or by
flags, which override the file:

  separator: ";"              # "," by default; "tab"
  no_header: false            # true: columns have numbers only, from 1
  skip_lines: 0               # lines before the header
  expect_fields: 10           # default: as many as in the first line
  skip: ["-1", ""]            # cells without a value (default: empty cells)
  type: f64                   # f64, f32, i64, i32, u32 (little-endian) or text; default: as the
                              # quantity is declared, else f64
  decimal: "."                # "," reads 1,5 and rejects 1.5
  thousands: ""               # "." reads 1.234,5 with a decimal comma; or , ' and a space
  no_quotes: false            # true: quotes are text (default: RFC 4180)
  cid:                        # cid, mid, moid: a constant or a column
    column: detector
    join: {file: detectors.csv, key: det_id, value: site}   # replaced by text of another file
    lookup: site              # names get ids, kept in the node or in --lookup-file
  mid:                        # several columns make one name, e.g. 06/037/1103
    columns: [state, county, site]
    lookup: site
  cap:
    columns: [date, hour]     # joined by a space
    format: "%d.%m.%Y %H"     # or a Go layout, unix, unix_ms; default RFC 3339 or ns
    zone: Europe/Berlin       # or of each row: {column: tz}, {column: country, map: {DE:
                              # Europe/Berlin, FR: Europe/Paris}}, {columns: [state, site], join:
                              # {file: sites.csv, keys: [state, site], value: tz}}
    fold: first               # or second, both-as-versions
  values:                     # several values of a line are several quantities
    - {column: count, moid: 1, type: i64}
    - {columns: 2..=25, moid: 3}        # wide rows: one value per column
  deleted: gone               # a column of true and false: true deletes the reading
  # Columns may also be "@label" (the header of the value's column), "@header 1" (a cell of the
  # header line) and "@file" (the file's name).

A name of several columns has a slash between them. A slash in a column is written \/ and a
backslash \\, so that different columns never make one name; a line with an empty one is rejected.

Values of quantities that are declared as structs (pentad quantity) are their fields: those of a
line that share a quantity are one reading. A column has the field that its header names, and
{column: breite, moid: 9, field: lat} names another one. A float without a value is NaN; a line
without an integer is rejected.

--seal SCHEMA encrypts readings on this machine (pentad seal): the values of a line that share a
quantity are the fields of one reading, and a line without one of them is rejected. A column has the
values of the field that its header names; {column: kWh, moid: 9, field: energy} names another one.
Numbers may have no more digits than the field keeps. Types are those of the schema.

A zone is an IANA name, UTC or an offset, e.g. -08:00, -8 or +5:30. A row whose zone is missing or
unknown is rejected.

When clocks are set back, an hour occurs twice. first and second take the earlier or the later of
the two moments of each local time, and reject a second line with the same key. both-as-versions
takes the earlier moment and stores lines with the same key as versions of it, in file order. A
local time that does not exist because clocks were set forward is always rejected.

A type declares a quantity that is not declared yet, with the name of its column (pentad quantity);
one that contradicts a declaration is refused. A moid with a lookup may have a type for each name:
moid: {column: parameter, lookup: quantity, types: {remark: text, count: i64}}. With --create names
that have a type are declared; without types, they have those that their quantities are declared as.

A quoted field may span at most 100 lines. A quote that is never closed is found earlier, at three
lines without quotes that have as many fields as the others (at least three); its lines are
rejected.

A line is stored completely or rejected with its number and a reason (--rejects FILE keeps them);
the exit code is then 6. --strict stops at the first rejected line: all files are read once before
anything is stored, so nothing is stored if a line is rejected.

A lookup finds the ids of names. The node keeps those of devices for each tenant (pentad device ls),
and those of quantities as declarations: the same name is the same device in all imports. A line
with a name that the node does not have is rejected; --create gives ids to such names of devices and
quantities. Selectors take names, and answers show them: pentad get --cid 1 --mid NAME --names mid.
With --lookup-file, ids of all parts are kept in that file instead, which gives them to new names:
keep it with the data, and use it for all imports of these devices. Answers show its names with
--names mid=FILE.

Quotes are those of RFC 4180. A quote inside a field that does not begin with one, e.g. 5" pipe, is
rejected; write "5"" pipe", or use no_quotes.

A line with the key (cid, mid, moid, cap) of an earlier line of the same import is stored as a newer
version: the later one is the latest, --view all shows both. The summary counts these lines as
"repeated" and names the first. The count is exact up to about 3 million keys, and beyond as long as
the times of each series ascend or descend; otherwise a note says "at least".

from_acq and until_acq are the range of acquisition times of the records: --asof FROM shows the data
as before the import, --asof UNTIL as after it.

A file with a header and no lines, e.g. of a day without data, is reported; the exit code is 0, or 3
with --fail-empty if no file has a line. An empty file has not even a header, which is an error.

Files are UTF-8, with or without a byte order mark; UTF-16 is rejected.

Ctrl-C ends an import within a second and says how many lines are stored. To resume an interrupted
import, run it again within seven days with the same files, mapping and lookup file: it stores only
what is missing, and "known" counts the records that were stored already. A file is recognized by
its content, so a changed file is stored completely; --again stores everything again. Input from
stdin and pipes cannot be recognized: each run stores all of it, and --strict stores the records
before the rejected line.`

// runFlags are the flags of every import that say nothing of its files.
type runFlags struct{ again, failEmpty, create bool }

func (f *runFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.again, "again", false,
		"store everything again, including what an earlier import stored")
	c.Flags().BoolVar(&f.failEmpty, "fail-empty", false,
		"exit with code 3 if the files have nothing to import")
	c.Flags().BoolVar(&f.create, "create", false,
		"create devices and quantities by name that the node does not have")
}

// importFlags change or replace what a mapping file says.
type importFlags struct {
	mapping, lookupFile, rejects string
	strict                       bool
	seal                         sealer.Files // no schema: payloads are plain

	separator, kind, decimal, thousands, timeFormat, zone, fold string
	noHeader, noQuotes                                          bool
	skipLines, expectFields                                     int
	skip, values                                                []string
	cid, mid, moid, cap, deleted                                string
}

// ImportCommand returns pentad import.
func ImportCommand(shared *cli.App) *cobra.Command {
	a := &app{shared}
	var f importFlags
	var run runFlags
	c := &cobra.Command{
		Use:   "csv FILE...",
		Short: "Import CSV files",
		Long:  importHelp,
		Args:  cli.Arguments(1, 1<<20, "the file to import, or - for stdin"),
		Example: `  pentad import csv --mapping lanes.yaml --lookup-file ids.json det_2024_01.csv.gz
  pentad import csv --cid 1 --mid column=1,lookup=meter --cap column=2 --value column=3,moid=1 \
      --separator ';' --time-format '%d/%m/%Y %H:%M:%S' --zone Europe/Madrid \
      --fold both-as-versions --lookup-file ids.json water.csv.gz
  pentad import csv --seal meters.json --cid 1 --mid column=meter --cap column=time --moid 9 \
      --value column=energy --value column=state meters.csv
  zcat rows.csv.gz | pentad import csv --mapping rows.yaml --rejects bad.csv -`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.importMapped(c.Context(), c, &f, exchange.CSV, run, args)
		},
	}
	f.add(c)
	run.add(c)
	return a.importFileCommand(c)
}

func (f *importFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.mapping, "mapping", "", "YAML file that maps rows to records")
	flags.StringVar(&f.lookupFile, "lookup-file", "",
		"JSON file with the ids of names, created if missing (default: the node keeps them)")
	flags.StringVar(&f.rejects, "rejects", "",
		"file that receives rejected lines: file, line, reason, text")
	flags.BoolVar(&f.strict, "strict", false, "stop at the first rejected line")
	flags.StringVar(&f.cid, "cid", "", "tenant: a number, a name, column=NAME[,lookup=TABLE] or\n"+
		"columns=A+B,lookup=TABLE")
	flags.StringVar(&f.mid, "mid", "", "device: a number, a name, column=NAME[,lookup=TABLE] or\n"+
		"columns=A+B,lookup=TABLE")
	flags.StringVar(&f.moid, "moid", "",
		"quantity of values without one: a number, a name, column=NAME[,lookup=TABLE]\nor "+
			"columns=A+B,lookup=TABLE")
	flags.StringVar(&f.cap, "cap", "", "capture time: column=NAME; several columns are joined by +")
	flags.StringArrayVar(&f.values, "value", nil,
		"values: column=NAME or columns=A..=B [,moid=N][,type=T][,field=NAME], N a number\nor a "+
			"name; may be repeated")
	flags.StringVar(&f.deleted, "deleted", "", "column of true and false; true deletes the reading")
	flags.StringVar(&f.timeFormat, "time-format", "", "format of times, e.g. '%d.%m.%Y %H:%M'")
	flags.StringVar(&f.zone, "zone", "", "time zone of times, e.g. Europe/Berlin or +08:00")
	flags.StringVar(&f.fold, "fold", "",
		"rule for hours that occur twice: first, second or both-as-versions")
	flags.StringVar(&f.separator, "separator", "",
		"separator of fields: one character, or tab (default: ,)")
	flags.StringVar(&f.decimal, "decimal", "", "decimal separator: . or , (default: .)")
	flags.StringVar(&f.thousands, "thousands", "",
		"separator of thousands: . , ' or a space (default: none)")
	flags.StringVar(&f.kind, "type", "",
		"type of values: f64, f32, i64, i32, u32 or text\n"+
			"(default: as declared by pentad quantity, else f64)")
	flags.StringArrayVar(&f.skip, "skip", nil,
		"cell without a value, e.g. -1; may be repeated (default: empty cells)")
	flags.BoolVar(&f.noQuotes, "no-quotes", false, "read quotes as text")
	flags.BoolVar(&f.noHeader, "no-header", false, "read the first line as data")
	flags.IntVar(&f.skipLines, "skip-lines", 0, "number of lines before the header")
	flags.IntVar(&f.expectFields, "expect-fields", 0,
		"number of fields of every line (default: as many as in the first)")
	flags.StringVar(&f.seal.Schema, "seal", "",
		"encrypt the readings here: file with the schema of the payloads (JSON)")
	f.seal.AddKeys(c)
	cli.Complete(c, "fold", csvimport.FoldFirst+"\tthe earlier moment",
		csvimport.FoldSecond+"\tthe later moment",
		csvimport.FoldBoth+"\tthe earlier moment; a repeated key is a new version")
}

// importMapped imports files by a mapping. Their format is "" when their first bytes say it.
func (a *app) importMapped(
	ctx context.Context, c *cobra.Command, f *importFlags, format exchange.Format, flags runFlags,
	files []string,
) (err error) {
	if err := f.replaceNames(ctx, a); err != nil {
		return err
	}
	m, err := f.build(c, format != exchange.CSV)
	if err != nil {
		return cli.Usage(err)
	}
	if flags.create && f.lookupFile != "" {
		return cli.Usagef("--create: is for names that the node keeps; leave it out, as " +
			"--lookup-file gives ids to new names")
	}
	if err := input.Check(files); err != nil {
		return err
	}
	opt := csvimport.Options{LookupPath: f.lookupFile, Strict: f.strict}
	if f.mapping != "" {
		opt.Dir = filepath.Dir(f.mapping)
	}
	if err := f.checkRejects(files); err != nil {
		return err
	}
	sealed, err := f.openSeal(c)
	if err != nil {
		return err
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if f.rejects != "" { // not before: the file of an earlier import may still be needed
		rejects, createErr := createRejects(f.rejects, sealed != nil)
		if createErr != nil {
			return fmt.Errorf("create the rejects file: %w", createErr)
		}
		defer func() { err = cli.FirstError(err, rejects.Close()) }()
		opt.Rejects = rejects
	}
	run := &mappedImport{app: a, db: db, mapping: m, opt: opt, format: format,
		again: flags.again, sealed: sealed}
	if flags.create {
		run.opt.NameDevices = db.NameDevices
	} else {
		run.findNames(ctx)
	}
	if sealed != nil {
		run.opt.Readings, sealed.Node = sealed, db
	}
	start := a.Now()
	if err = run.files(ctx, files); err != nil && !isReject(err) {
		if ctx.Err() != nil {
			return cli.Stopped(ctx, err, run.left(files))
		}
		if !errors.As(err, new(cli.UsageError)) {
			a.Note("%s", run.left(files))
		}
		return err
	}
	run.noteUnnamed()
	err = a.importSummary(run.summary, &run.stored, a.Now().Sub(start), err)
	if err == nil && run.summary.Lines == 0 && flags.failEmpty {
		return cli.ErrEmpty
	}
	return err
}

// createRejects creates the file of rejected lines. A private one, which only its owner may read,
// has readings that are encrypted everywhere else.
func createRejects(path string, private bool) (*os.File, error) {
	if !private {
		return os.Create(path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(0o600); err != nil { // it was there
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checkRejects keeps the rejects file from replacing a file that the import reads.
func (f *importFlags) checkRejects(files []string) error {
	if f.rejects == "" {
		return nil
	}
	info, err := os.Stat(f.rejects)
	for _, name := range append([]string{f.mapping, f.lookupFile}, files...) {
		other, otherErr := os.Stat(name)
		same := err == nil && otherErr == nil && os.SameFile(info, other)
		if same || filepath.Clean(name) == filepath.Clean(f.rejects) && name != "" {
			return cli.Usagef("--rejects %s: would overwrite a file that this import reads; use "+
				"another name", f.rejects)
		}
	}
	return nil
}

// importSummary writes the counts to stdout and, for people, the reasons to stderr.
func (a *app) importSummary(
	s csvimport.Summary, done *stored, took time.Duration, strict error,
) error {
	columns := slices.Concat([]output.Column{cli.Right("files"), cli.Right("lines"),
		cli.Right("records"), cli.Right("known"), cli.Right("skipped"), cli.Right("rejected"),
		cli.Right("repeated"), cli.Right("new_ids")}, acqColumns(),
		[]output.Column{cli.Right("took")})
	values := slices.Concat([]output.Value{output.Count(s.Files), output.Count(s.Lines),
		output.Count(s.Records), output.Count(done.known), output.Count(s.Skipped),
		output.Count(s.Rejected), output.Count(s.Repeats.Lines), output.Count(s.NewIDs)},
		done.acqs(), []output.Value{output.Span(took.Round(time.Millisecond))})
	if err := a.One(columns, values...); err != nil {
		return err
	}
	fresh := done.records - done.known
	if seconds := took.Seconds(); seconds > 0 && fresh > 0 {
		a.Note("stored %s from %s in %s (%s records/s)", output.Counted(fresh, "records"),
			output.Counted(s.Lines, "lines"), output.Duration(took),
			output.Thousands(int64(float64(fresh)/seconds)))
	}
	a.noteAcqs(done)
	if text := repeatsText(&s.Repeats); text != "" {
		a.Note("%s", text)
	}
	if s.Folded > 0 {
		a.Note("%s: a local time that occurs twice, as clocks are set back, was taken for one of "+
			"them; --fold says which", output.Counted(s.Folded, "lines"))
	}
	if s.Epoch != "" {
		a.Note("%s", epochText(s.Epoch))
	}
	a.noteKnown(done, "these files")
	return rejectedLines(&s, done, strict)
}

// rejectedLines is the error of an import with rejected lines.
func rejectedLines(s *csvimport.Summary, done *stored, strict error) error {
	switch {
	case strict != nil && done.records == 0:
		return cli.Coded(cli.ExitPartial, fmt.Errorf("%w (--strict; nothing is stored)", strict))
	case strict != nil:
		return cli.Coded(cli.ExitPartial,
			fmt.Errorf("%w (--strict; the %s records before it are stored)",
				strict, output.Thousands(done.records)))
	case s.Rejected > 0:
		kinds := ""
		if len(s.Reasons) > 1 {
			kinds = " (" + cli.Reasons(s.Reasons) + ")"
		}
		return cli.Coded(cli.ExitPartial, fmt.Errorf("%s of %s lines rejected%s: %s",
			output.Thousands(s.Rejected), output.Thousands(s.Lines), kinds, &s.Rejects))
	}
	return nil
}

func isReject(err error) bool { return errors.As(err, new(*csvimport.RejectError)) }
