package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/devicefile"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/input"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
)

const deviceImportHelp = `Import names and descriptions of devices from CSV, JSON lines or GeoJSON, plain or .gz; - is
stdin. What a file begins with says its form.

Without a mapping, columns of CSV and members of JSON mean what they are called: name, type, group,
lat, lon, alt (or latitude, longitude, altitude), metadata, retired and from; all others are
attributes. A feature of GeoJSON has its place as a point. device export writes such files.

A mapping declares what rows mean, by flags as those of device set or in a YAML file. {COLUMN} is
the text of a column, everything else is as it is written:

  name: "oulu/{site}/{id}"
  type: thermometer
  group: "oulu/{building}/floor-{floor}"
  place: "{lat},{lon},{height}"
  attributes: {floor: "{floor}", owner: acme, serial: '"{serial}"'}
  retired: "{gone}"             # true or false
  from: "{commissioned}"        # when it holds from; default: --from
  time_format: "%d.%m.%Y"       # default: RFC 3339, a date or ns
  zone: Europe/Berlin           # of times without an offset; default: UTC
  separator: ";"                # and no_header, skip_lines, expect_fields, skip, decimal,
                                # no_quotes, as for import csv

Attributes that spell a number or a boolean are one, unless they are in double quotes. What a number
would not keep is a text: 007, +358401234567, and digits beyond 2^53. In JSON they are what they are
there. A text is empty if one of its columns is.

Rows change descriptions as device set does: what a file does not name stays as it was, and what is
empty or null is removed. A row that says what is known already is not stored again: to import a
file twice changes nothing, and after an interruption the same command goes on. Rows with an earlier
time are an earlier description of their device.

A row is stored completely or rejected with its number and a reason (--rejects FILE keeps them); the
exit code is then 6. --dry-run checks all rows and counts what would be new.`

// deviceImport is what the flags of device import say.
type deviceImport struct {
	cid                    int32
	mapping, rejects, from string
	format                 string
	strict, dryRun         bool
	attributes             []string
	flags                  devicefile.Mapping
	given                  func(string) bool
}

func (a *app) deviceImportCommand() *cobra.Command {
	var d deviceImport
	c := &cobra.Command{
		Use:   "import FILE...",
		Short: "Import names and descriptions of devices",
		Long:  deviceImportHelp,
		Args:  cli.Arguments(1, 1<<20, "the file to import, or - for stdin"),
		Example: `  pentad device import --cid 1 devices.csv
  pentad device import --cid 1 --name 'lane/{id}' --type lane --place '{lat},{lon}' \
      --attr 'street={street}' detectors.csv --dry-run
  zcat stations.geojson.gz | pentad device import --cid 1 --name '{station}' -`,
		RunE: func(c *cobra.Command, files []string) error {
			d.given = c.Flags().Changed
			return a.deviceImport(c.Context(), &d, files)
		},
	}
	d.add(c)
	return c
}

func (d *deviceImport) add(c *cobra.Command) {
	flags, m := c.Flags(), &d.flags
	flags.SortFlags = false
	tenantFlag(c, &d.cid)
	flags.StringVar(&d.mapping, "mapping", "", "YAML file that maps rows to devices")
	flags.StringVar(&m.Name, "name", "", "name, e.g. '{id}' or 'oulu/{site}/{id}'")
	flags.StringVar(&m.Type, "type", "", "type, e.g. thermometer or '{kind}'")
	flags.StringVar(&m.Group, "group", "", "path of the group, e.g. 'oulu/{building}'")
	flags.StringVar(&m.Place, "place", "", "place, e.g. '{lat},{lon}' or '{lat},{lon},{height}'")
	flags.StringArrayVar(&d.attributes, "attr", nil,
		"attribute, e.g. 'floor={floor}' or owner=acme; may be repeated")
	flags.StringVar(&m.Metadata, "metadata", "", "text that selectors do not see, e.g. '{note}'")
	flags.StringVar(&m.Retired, "retired", "", "whether it is out of use: true, false or '{gone}'")
	flags.StringVar(&d.from, "from", "now",
		"time from which it holds, e.g. 2026-11-21 or '{commissioned}'")
	flags.StringVar(&m.TimeFormat, "time-format", "", "format of times, e.g. '%d.%m.%Y %H:%M'")
	flags.StringVar(&m.Zone, "zone", "", "time zone of times, e.g. Europe/Berlin (default: UTC)")
	flags.StringVar(&m.Separator, "separator", "",
		"separator of fields: one character, or tab (default: ,)")
	flags.StringVar(&m.Decimal, "decimal", "", "decimal separator: . or , (default: .)")
	flags.StringArrayVar(&m.Skip, "skip", nil,
		"cell without a value, e.g. -; may be repeated (default: empty cells)")
	flags.BoolVar(&m.NoQuotes, "no-quotes", false, "read quotes as text")
	flags.BoolVar(&m.NoHeader, "no-header", false, "read the first line as data")
	flags.IntVar(&m.SkipLines, "skip-lines", 0, "number of lines before the header")
	flags.IntVar(&m.ExpectFields, "expect-fields", 0,
		"number of fields of every line (default: as many as in the first)")
	flags.StringVar(&d.format, "format", "",
		"format of the files: csv or json (default: as they begin)")
	cli.Complete(c, "format", "csv", "json")
	flags.StringVar(&d.rejects, "rejects", "",
		"file that receives rejected lines: file, line, reason, text")
	flags.BoolVar(&d.strict, "strict", false, "stop at the first rejected line")
	flags.BoolVar(&d.dryRun, "dry-run", false, "check the rows, count what is new, store nothing")
}

// build reads the mapping file, if there is one, and lets the flags go before it.
func (d *deviceImport) build() (*devicefile.Mapping, error) {
	m := &devicefile.Mapping{}
	if d.mapping != "" {
		var err error
		if m, err = devicefile.LoadMapping(d.mapping); err != nil {
			return nil, err
		}
	}
	f := &d.flags
	set := func(flag string, to *string, text string) {
		if d.given(flag) {
			*to = text
		}
	}
	set("name", &m.Name, f.Name)
	set("type", &m.Type, f.Type)
	set("group", &m.Group, f.Group)
	set("place", &m.Place, f.Place)
	set("metadata", &m.Metadata, f.Metadata)
	set("retired", &m.Retired, f.Retired)
	set("time-format", &m.TimeFormat, f.TimeFormat)
	set("zone", &m.Zone, f.Zone)
	set("separator", &m.Separator, f.Separator)
	set("decimal", &m.Decimal, f.Decimal)
	m.NoQuotes, m.NoHeader = m.NoQuotes || f.NoQuotes, m.NoHeader || f.NoHeader
	if d.given("skip") {
		m.Skip = f.Skip
	}
	if d.given("skip-lines") {
		m.SkipLines = f.SkipLines
	}
	if d.given("expect-fields") {
		m.ExpectFields = f.ExpectFields
	}
	if strings.Contains(d.from, "{") {
		m.From, d.from = d.from, "now"
	}
	for _, text := range d.attributes {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("--attr %q: write KEY=VALUE, e.g. 'floor={floor}'", text)
		}
		if m.Attributes == nil {
			m.Attributes = map[string]string{}
		}
		m.Attributes[key] = value
	}
	return m, nil
}

func (a *app) deviceImport(ctx context.Context, d *deviceImport, files []string) (err error) {
	if err := checkTenant(d.cid); err != nil {
		return err
	}
	m, err := d.build()
	if err != nil {
		return cli.Usage(err)
	}
	if d.format != "" && d.format != "csv" && d.format != "json" {
		return cli.Usagef("--format %q is unknown; use csv or json", d.format)
	}
	fromNs, err := a.heldFrom("--from", d.from)
	if err != nil {
		return err
	}
	if err := input.Check(files); err != nil {
		return err
	}
	run := &devicesRun{cid: d.cid, dry: d.dryRun}
	opt := devicefile.Options{Store: run.store, Strict: d.strict, FromNs: fromNs, Now: a.Now()}
	if d.rejects != "" {
		rejects, err := os.Create(d.rejects)
		if err != nil {
			return fmt.Errorf("create the rejects file: %w", err)
		}
		defer func() { err = cli.FirstError(err, rejects.Close()) }()
		opt.Rejects = rejects
	}
	im, err := devicefile.New(m, opt)
	if err != nil {
		return cli.Usage(err)
	}
	if run.db, err = a.Connect(ctx); err != nil {
		return err
	}
	defer run.db.Close()
	start := a.Now()
	for _, name := range files {
		if err = a.deviceFile(ctx, im, d.format, name); err != nil {
			break
		}
	}
	reject := (*csvimport.RejectError)(nil)
	if err != nil && !errors.As(err, &reject) {
		if run.did.Described > 0 {
			a.Note("%s described; the same command goes on", output.Counted(run.did.Described,
				"devices"))
		}
		return err
	}
	if len(im.Left()) > 0 {
		a.Note("columns left out: %q cannot be keys of attributes; name them with --attr "+
			"KEY='{COLUMN}'", im.Left())
	}
	for _, member := range im.Unmet() {
		a.Note("no object has the member %q that the mapping names", member)
	}
	return a.deviceSummary(im.Summary(), run, a.Now().Sub(start), err)
}

// deviceFile imports one file.
func (a *app) deviceFile(
	ctx context.Context, im *devicefile.Importer, format, name string,
) error {
	in, shown, err := input.Open(ctx, a.App, name)
	if err != nil {
		return err
	}
	defer in.Close()
	plain, err := csvimport.Decompress(in)
	if err != nil {
		return fmt.Errorf("read %s: %w", shown, err)
	}
	buffered := bufio.NewReaderSize(plain, 1<<16)
	read := im.CSV
	if format == "json" || format == "" && devicefile.LooksJSON(buffered) {
		read = im.JSON
	}
	return read(ctx, shown, io.Reader(buffered))
}

// devicesRun stores the changes of one import.
type devicesRun struct {
	db  *client.Client
	cid int32
	dry bool
	did client.DeviceChanges
}

func (r *devicesRun) store(ctx context.Context, changes []client.DeviceChange) error {
	change := r.db.ChangeDevices
	if r.dry {
		change = r.db.PreviewChanges
	}
	did, err := change(ctx, r.cid, changes)
	r.did.Created += did.Created
	r.did.Described += did.Described
	r.did.Unchanged += did.Unchanged
	return err
}

// deviceSummary writes the counts to stdout and, for people, the reasons to stderr.
func (a *app) deviceSummary(
	s csvimport.Summary, run *devicesRun, took time.Duration, strict error,
) error {
	columns := []output.Column{cli.Right("files"), cli.Right("lines"), cli.Right("described"),
		cli.Right("unchanged"), cli.Right("new_ids"), cli.Right("rejected"), cli.Right("took")}
	err := a.One(columns, output.Count(s.Files), output.Count(s.Lines),
		output.Count(run.did.Described), output.Count(run.did.Unchanged),
		output.Count(run.did.Created), output.Count(s.Rejected),
		output.Span(took.Round(time.Millisecond)))
	switch {
	case err != nil:
		return err
	case run.dry:
		a.Note("nothing is stored (--dry-run)")
	case took > 0 && run.did.Described > 0:
		a.Note("described %s in %s (%s devices/s)", output.Counted(run.did.Described, "devices"),
			output.Duration(took),
			output.Thousands(int64(float64(run.did.Described)/took.Seconds())))
	}
	switch {
	case strict != nil:
		return cli.Coded(cli.ExitPartial,
			fmt.Errorf("%w (--strict; the lines before it are stored)", strict))
	case s.Rejected > 0:
		return cli.Coded(cli.ExitPartial, fmt.Errorf("%s of %s lines rejected (%s): %s",
			output.Thousands(s.Rejected), output.Thousands(s.Lines), cli.Reasons(s.Reasons),
			&s.Rejects))
	}
	return nil
}
