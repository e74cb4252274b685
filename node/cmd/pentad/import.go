package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
)

const importHelp = `Store the rows of CSV files, plain or .gz; - is stdin.

A mapping says which columns make the key and which cells are values, in a YAML file (--mapping)
or by flags, which go before the file:

  separator: ";"              # "," by default; "tab"
  no_header: false            # true: columns have numbers only, from 1
  skip_lines: 0               # lines before the header
  expect_fields: 10           # default: as many as the first line has
  skip: ["-1", ""]            # cells that are no values (default: empty ones)
  type: f64                   # f64, i64 (8 bytes, little-endian) or text
  decimal: "."                # "," reads 1,5
  cid:                        # cid, mid, moid: a constant or a column
    column: detector
    join: {file: detectors.csv, key: det_id, value: site}   # replaced by another file's text
    lookup: site              # names get ids, kept in --lookup-file
  mid: {column: detector}
  cap:
    columns: [date, hour]     # joined by a space
    format: "%d.%m.%Y %H"     # or a Go layout, unix, unix_ms; default RFC 3339 or ns
    zone: Europe/Berlin
    fold: first               # or second, both-as-versions
  values:                     # several values of a line are several quantities
    - {column: count, moid: 1, type: i64}
    - {columns: 2..=25, moid: 3}        # wide rows: one value per column
  deleted: gone               # a column of true and false: true deletes what the line would store
  # Columns may also be "@label" (the header of the value's column), "@header 1" (a cell of the
  # header line) and "@file" (the file's name).

Clocks set back show an hour twice. first and second take the earlier or the later of the two
moments for each local time in it, and reject a second line with the same key. both-as-versions
takes the earlier moment and stores lines with one key as versions of it, in file order. A local
time that clocks set forward never showed is rejected by all three.

A line is stored whole or rejected with its number and a reason (--rejects FILE keeps them); the
exit code is then 6. --strict ends at the first: all files are read once before anything is stored,
so that nothing is stored when a line is rejected. A lookup file gives the same ids to the same
names for ever: keep it with the data, and use one for all imports into a node.

An import that was interrupted is run again with the same files, mapping and lookup file, within
seven days: it stores only what is missing, and "known" counts the records that it found stored.
This holds for each file by its content, so a file that was changed is stored whole; --again stores
everything again. Input from stdin and pipes cannot be recognised: each run stores all of it, and
--strict stores the records before the line that it ends at.`

const againHelp = "store also what an earlier import stored"

// importFlags change or replace what a mapping file says.
type importFlags struct {
	mapping, lookupFile, rejects string
	strict                       bool

	separator, kind, decimal, timeFormat, zone, fold string
	noHeader                                         bool
	skipLines, expectFields                          int
	skip, values                                     []string
	cid, mid, moid, cap, deleted                     string
}

func (a *app) importCommand() *cobra.Command {
	var f importFlags
	var again bool
	c := &cobra.Command{
		Use:   "csv FILE...",
		Short: "Store the rows of CSV files",
		Long:  importHelp,
		Args:  arguments(1, 1<<20, "the file to import, or - for stdin"),
		Example: `  pentad import csv --mapping lanes.yaml --lookup-file ids.json det_2024_01.csv.gz
  pentad import csv --cid 1 --mid column=1,lookup=meter --cap column=2 --value column=3,moid=1 \
      --separator ';' --time-format '%d/%m/%Y %H:%M:%S' --zone Europe/Madrid \
      --fold both-as-versions --lookup-file ids.json water.csv.gz
  zcat rows.csv.gz | pentad import csv --mapping rows.yaml --rejects bad.csv -`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.importMapped(c.Context(), c, &f, exchange.CSV, again, args)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&again, "again", false, againHelp)
	return a.importFileCommand(c)
}

func (f *importFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.mapping, "mapping", "", "YAML file that says how rows become records")
	flags.StringVar(&f.lookupFile, "lookup-file", "", "JSON file that keeps the ids given to names")
	flags.StringVar(&f.rejects, "rejects", "",
		"write rejected lines here: file, line, reason, text")
	flags.BoolVar(&f.strict, "strict", false, "end at the first rejected line")
	flags.StringVar(&f.cid, "cid", "", "tenant: N, or column=NAME[,lookup=TABLE]")
	flags.StringVar(&f.mid, "mid", "", "device, likewise")
	flags.StringVar(&f.moid, "moid", "", "quantity of values without their own, likewise")
	flags.StringVar(&f.cap, "cap", "", "capture time: column=NAME, several joined by +")
	flags.StringArrayVar(&f.values, "value", nil,
		"column=NAME or columns=A..=B [,moid=N][,type=T]; may be repeated")
	flags.StringVar(&f.deleted, "deleted", "", "column of true and false: true deletes")
	flags.StringVar(&f.timeFormat, "time-format", "", "form of the time, as '%d.%m.%Y %H:%M'")
	flags.StringVar(&f.zone, "zone", "", "zone of the time, as Europe/Berlin or +08:00")
	flags.StringVar(&f.fold, "fold", "", "hours that occur twice: first, second, both-as-versions")
	flags.StringVar(&f.separator, "separator", "", "one character, or tab")
	flags.StringVar(&f.decimal, "decimal", "", "decimal sign: . or ,")
	flags.StringVar(&f.kind, "type", "", "values are f64, i64 or text")
	flags.StringArrayVar(&f.skip, "skip", nil, "a cell that is no value; may be repeated")
	flags.BoolVar(&f.noHeader, "no-header", false, "the first line is data")
	flags.IntVar(&f.skipLines, "skip-lines", 0, "lines before the header")
	flags.IntVar(&f.expectFields, "expect-fields", 0, "fields of every line")
	complete(c, "fold", csvimport.FoldFirst+"\tthe earlier moment",
		csvimport.FoldSecond+"\tthe later moment",
		csvimport.FoldBoth+"\tthe earlier moment; a repeated key is a new version")
}

// importMapped imports files by a mapping. Their form is "" when their first bytes say it.
func (a *app) importMapped(
	ctx context.Context, c *cobra.Command, f *importFlags, form exchange.Form, again bool,
	files []string,
) (err error) {
	m, err := f.build(c, form != exchange.CSV)
	if err != nil {
		return usageError{err}
	}
	if err := a.checkFiles(files); err != nil {
		return err
	}
	opt := csvimport.Options{LookupPath: f.lookupFile, Strict: f.strict}
	if f.mapping != "" {
		opt.Dir = filepath.Dir(f.mapping)
	}
	if err := f.checkRejects(files); err != nil {
		return err
	}
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if f.rejects != "" { // not before: the file of an earlier import may still be needed
		rejects, createErr := os.Create(f.rejects)
		if createErr != nil {
			return fmt.Errorf("create the rejects file: %w", createErr)
		}
		defer func() { err = firstError(err, rejects.Close()) }()
		opt.Rejects = rejects
	}
	run := &mappedImport{app: a, db: db, mapping: m, opt: opt, form: form, again: again}
	start := a.now()
	if err = run.files(ctx, files); err != nil && !isReject(err) {
		if run.stored.records > 0 {
			a.note("stored at least %s records before the import ended; the same command goes on "+
				"from there, unless it reads stdin or has --again",
				output.Thousands(run.stored.records))
		}
		return err
	}
	return a.importSummary(run.summary, &run.stored, a.now().Sub(start), err)
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
			return usagef("--rejects %s would replace a file that this import needs; give it a "+
				"name of its own", f.rejects)
		}
	}
	return nil
}

// checkFiles finds missing files before the first row is stored.
func (a *app) checkFiles(files []string) error {
	for i, name := range files {
		if name == "-" {
			if slices.Contains(files[:i], "-") {
				return usagef("stdin can be read only once")
			}
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return usagef("%s is a directory; name its files, as %s", name,
				filepath.Join(name, "*.csv"))
		}
	}
	return nil
}

// openInput opens a file, or stdin for "-", and returns what errors call it.
func (a *app) openInput(ctx context.Context, name string) (io.ReadCloser, string, error) {
	if name == "-" {
		return a.stdinUntil(ctx), "stdin", nil
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return a.pipeUntil(ctx, func() (io.ReadCloser, error) { return os.Open(name) }), name, nil
	}
	f, err := os.Open(name)
	return f, name, err
}

// filesSize returns the bytes to read, or -1 when stdin is among them.
func filesSize(files []string) int64 {
	total := int64(0)
	for _, name := range files {
		info, err := os.Stat(name)
		if name == "-" || err != nil {
			return -1
		}
		total += info.Size()
	}
	return total
}

// importSummary writes the counts to stdout and, for people, the reasons to stderr.
func (a *app) importSummary(
	s csvimport.Summary, done *stored, took time.Duration, strict error,
) error {
	columns := []output.Column{right("files"), right("lines"), right("records"), right("known"),
		right("skipped"), right("rejected"), right("new_ids"), right("took")}
	err := a.one(columns, output.Count(s.Files), output.Count(s.Lines), output.Count(s.Records),
		output.Count(done.known), output.Count(s.Skipped), output.Count(s.Rejected),
		output.Count(s.NewIDs), output.Span(took.Round(time.Millisecond)))
	if err != nil {
		return err
	}
	fresh := done.records - done.known
	if seconds := took.Seconds(); seconds > 0 && fresh > 0 {
		a.note("stored %s records from %s lines in %s (%s records/s)", output.Thousands(fresh),
			output.Thousands(s.Lines), output.Duration(took),
			output.Thousands(int64(float64(fresh)/seconds)))
	}
	a.noteKnown(done, "these files")
	switch {
	case strict != nil && done.records == 0:
		return codeError{exitPartial, fmt.Errorf("%w (--strict; nothing is stored)", strict)}
	case strict != nil:
		return codeError{exitPartial,
			fmt.Errorf("%w (--strict; the %s records before it are stored)",
				strict, output.Thousands(done.records))}
	case s.Rejected > 0:
		return codeError{exitPartial, fmt.Errorf("%s of %s lines rejected (%s; first: %w)",
			output.Thousands(s.Rejected), output.Thousands(s.Lines), reasons(s.Reasons), s.First)}
	}
	return nil
}

// reasons lists the kinds of rejected lines, the most frequent first.
func reasons(counts map[string]int64) string {
	kinds := make([]string, 0, len(counts))
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int {
		if counts[a] != counts[b] {
			return int(counts[b] - counts[a])
		}
		return strings.Compare(a, b)
	})
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%s %s", output.Thousands(counts[kind]), kind)
	}
	return strings.Join(kinds, ", ")
}

func isReject(err error) bool { return errors.As(err, new(*csvimport.RejectError)) }

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
