package transfer

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/arrowfile"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/parquetfile"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
	"github.com/pentad-db/pentad/sdk/wire"
)

const exportHelp = `Export matching records to a file that pentad import restores exactly.

Columns are cid, mid, moid, cap, acq, payload and deleted; times are ns UTC, and a tombstone has no
payload. If all declared quantities of the selection have one type (pentad quantity), a column value
has the decoded number, null where the payload is not one; fields of a struct are value_NAME.
--value selects another type, also for --where; --value none omits the column.

Ids are numbers. CSV has the columns tenant, device and quantity in place of cid, mid and moid for
what --names names and the node keeps; import stores such a file under the numbers that the names
have in another node. What has no name stays a number. In other formats, and with the names of a
file, --names only selects.

--open decrypts payloads (pentad seal): each field is a column value_NAME, a number with digits
after the point as a float, or as text if a float cannot hold it exactly. The column payload stays
encrypted, so that an import restores the records as they are. Only its owner may read the file.

The export contains the records below the horizon at its start, i.e. all that were acknowledged
before. Each node of a cluster that is asked waits until it has all of them. By default each reading
is there once, in its latest version, in no order. --view all exports every version and tombstone in
ascending acq, so that an import keeps the order of versions; their number is compared with a count.
--select then chooses devices by what is known of them at the start. Records hidden by an erase are
omitted: a file has no erases, and an import would bring them back. pentad versions shows them, and
pentad sync copies erases. An export without selectors and filters also has the descriptions of
devices; with some it has them only if --moid selects them.

ndjson, arrow and parquet store the selection, the view and the horizon in the file, and mark its
end: reading a truncated file is an error. CSV cannot. -f gives the file its name when it is
complete. --checksum writes FILE.sha256, which pentad import and sha256sum --check verify; an
existing one is always updated.`

// exportFlags are the flags of an export.
type exportFlags struct {
	query        queryflags.Flags
	format, file string
	value        string
	checksum     bool
	opening      openFlags
}

// ExportCommand returns pentad export.
func ExportCommand(shared *cli.App) *cobra.Command {
	a := &app{shared}
	var e exportFlags
	c := &cobra.Command{
		Use:   "export",
		Short: "Export records to a file",
		Long:  exportHelp,
		Args:  cli.NoCommand,
		Example: `  pentad export --cid 1 --cap 2026-11 -o csv > november.csv
  pentad export --cid 1 --names mid --names moid -f named.csv
  pentad export --cid 1 --view all -f history.ndjson
  pentad export --mid 7 --asof now-1h -o arrow > known.arrow
  pentad export --moid 1 --value f64 -f energy.parquet --checksum
  pentad export --moid 9 --open --schema meters.json -f opened.csv`,
		RunE: func(c *cobra.Command, _ []string) error { return a.export(c.Context(), &e) },
	}
	e.query.AddBox(c)
	e.query.AddFilter(c)
	flags := c.Flags()
	flags.StringVarP(&e.format, "output", "o", "",
		"format of the file: "+exchange.Formats+"\n(default: by the name of -f, else ndjson)")
	flags.VarP((*cli.FilledFlag)(&e.file), "file", "f", "output file (default: stdout)")
	flags.StringVar(&e.value, "value", "auto",
		"type of decoded payloads: f64, f32, i64, i32, u32, text or none;\nauto: as declared by "+
			"pentad quantity")
	flags.BoolVar(&e.checksum, "checksum", false, "write the SHA-256 of the file to FILE.sha256")
	e.opening.add(c)
	cli.Elsewhere(c, "type", "use --value")
	cli.Complete(c, "output", "ndjson", "csv", "arrow", "parquet")
	cli.Complete(c, "value", "auto", "none", "f64", "f32", "i64", "i32", "u32", "text")
	return c
}

// export asks for the records and writes the file.
func (a *app) export(ctx context.Context, e *exportFlags) error {
	format, err := e.chooseFormat(a)
	if err != nil {
		return err
	}
	if e.checksum && e.file == "" {
		return cli.Usagef("--checksum: needs an output file; add -f FILE")
	}
	opened, err := e.opening.openPayloads(e.value)
	if err != nil {
		return err
	}
	e.query.Type = queryflags.NamedType(e.value)
	query, err := e.query.Query(ctx, a.App)
	if err != nil {
		return err
	}
	if query.Moving != "" && query.View == record.ViewAll {
		return cli.Usagef("--moving: devices may move while an export of all versions runs; " +
			"leave out --view all and --acq, or use --asof")
	}
	db, err := queryflags.Connect(ctx, a.App, &e.query, query)
	if err != nil {
		return err
	}
	defer db.Close()
	values, decoded, err := a.valueColumns(ctx, db, opened, e.value, query.Box[record.MOID])
	if err != nil {
		return err
	}
	query.Verify = true
	if isWhole(query) {
		query.Box = record.Everything()
	}
	x := &exporter{db: db, query: query, opened: opened}
	if err := x.fix(ctx, a.App); err != nil {
		return err
	}
	header := x.header(&e.query, decoded)
	start := a.Now()
	x.progress = a.NewProgress("export", int64(x.count), true)
	defer x.progress.Close()
	replace := durable.ReplaceShared
	if opened != nil {
		replace = durable.ReplacePrivate // what was encrypted is plain there
	}
	size, err := a.toFile(e.file, replace, e.checksum || hasSum(e.file), func(out io.Writer) error {
		x.out = newExportWriter(out, format, header, values, e.query.KeptNames(a.App))
		return x.run(ctx)
	})
	if err != nil {
		return cli.Stopped(ctx, err, x.left(e.file))
	}
	a.Note("exported %s in %s (%s)%s", output.Counted(x.records, "records"),
		output.Duration(a.Now().Sub(start)), output.Size(size), x.note(e.file))
	if opened != nil {
		a.Note("decrypted %s; authenticated: %s", output.Counted(opened.count, "payloads"),
			output.Thousands(opened.authentic))
	}
	if x.erased != nil && x.erased.count > 0 {
		a.Note("omitted %s hidden by erases", output.Counted(x.erased.count, "records"))
	}
	if x.records == 0 && e.query.FailEmpty {
		return cli.ErrEmpty
	}
	return nil
}

// chooseFormat returns the format that -o or the name of the file says.
func (e *exportFlags) chooseFormat(a *app) (exchange.Format, error) {
	name := e.format
	if name == "" {
		name = strings.TrimPrefix(filepath.Ext(e.file), ".")
		if e.file == "" {
			name = string(exchange.NDJSON)
		}
	}
	format, err := exchange.ParseFormat(name)
	switch {
	case err != nil && e.format == "":
		return "", cli.Usagef("-f %s: unknown extension; use -o %s", e.file,
			exchange.Formats)
	case err != nil:
		return "", cli.Usage(err)
	case e.file == "" && a.StdoutTerminal &&
		(format == exchange.Arrow || format == exchange.Parquet):
		return "", cli.Usagef("-o %s: not for a terminal; use -f FILE, or redirect stdout",
			format)
	}
	return format, nil
}

// newExportWriter begins a file of a format.
func newExportWriter(
	out io.Writer, format exchange.Format, h *exchange.Header, values []exchange.Value,
	names map[record.Dim]map[int64]string,
) exchange.Writer {
	switch format {
	case exchange.CSV:
		return exchange.NewCSVWriter(out, values, names)
	case exchange.Arrow:
		return arrowfile.NewWriter(out, h, values)
	case exchange.Parquet:
		return parquetfile.NewWriter(out, h, values)
	}
	return exchange.NewNDJSONWriter(out, h, values)
}

// exporter is one export.
type exporter struct {
	db     *client.Client
	source recordSource // of all versions
	query  *record.Query
	out    exchange.Writer

	selected string // the selector of an export of all versions, whose devices are in source

	erased    *erased // nil: the view leaves out what erases hide
	opened    *opened // nil: payloads are not decrypted
	progress  *cli.Progress
	horizonNs int64
	// count is of the records in the box, of all versions and devices: at least as many as there
	// will be.
	count   uint64
	records int64 // written
}

// fix chooses the records: all below the horizon, which no write changes any more.
func (x *exporter) fix(ctx context.Context, a *cli.App) error {
	first, err := x.db.Linearizable().Horizon(ctx, nil)
	if remote := (*wire.Error)(nil); errors.As(err, &remote) &&
		remote.Kind == wire.KindUnavailable {
		a.Note("not every group has a majority of its nodes: what was stored in the last moments "+
			"may be missing (%s)", remote.Message)
		first, err = 0, nil
	}
	if err != nil {
		return err
	}
	n, end, err := past(x.db, first).Count(ctx, &record.Query{Box: x.query.Box})
	if err != nil {
		return err
	}
	if err := queryflags.CheckEnd(end); err != nil {
		return err
	}
	x.count, x.horizonNs = n, end.HorizonNs
	now := x.db
	x.db = past(x.db, x.horizonNs) // any replica may answer what follows
	switch x.query.View {
	case record.ViewLatest:
		x.query.View, x.query.AsOfAcqNs = record.ViewAsOf, x.horizonNs
	case record.ViewAsOf:
		x.query.AsOfAcqNs = min(x.query.AsOfAcqNs, x.horizonNs)
	default:
		x.source = x.db
		if x.erased, err = newErased(ctx, x.db, &x.query.Box, x.horizonNs); err != nil {
			return err
		}
		if x.query.Select != "" {
			err = x.selectOnce(ctx, now)
		}
	}
	x.query.Order, x.query.Limit = record.OrderNone, 0
	return err
}

// isWhole reports whether a query chooses all records: its file is a copy of the store.
func isWhole(q *record.Query) bool {
	for d := range record.Dim(record.NumDims) {
		if q.Box.Restricts(d) {
			return false
		}
	}
	return len(q.Filters) == 0 && q.Where == ""
}

// header says what was fixed.
func (x *exporter) header(q *queryflags.Flags, decoded string) *exchange.Header {
	h := &exchange.Header{Version: exchange.Version, Box: map[string]string{}, View: "all",
		Select: cmp.Or(x.query.Select, x.selected), Last: x.query.Last,
		Horizon: timeparse.Format(x.horizonNs), Value: decoded}
	box := x.query.Box
	if isWhole(x.query) {
		box = record.Box{}
	}
	for d := range record.Dim(record.NumDims) {
		h.Box[d.String()] = selector.Format(d, box.Asked(d))
	}
	h.Where = where.Text(x.query.Where)
	for _, f := range x.query.Filters {
		h.Filters = append(h.Filters, f.Name)
	}
	if x.query.View == record.ViewAsOf {
		h.View, h.AsOf = "latest", timeparse.Format(x.query.AsOfAcqNs)
		if q.AsOf != "" {
			h.View = "as-of"
		}
	}
	return h
}

func (x *exporter) run(ctx context.Context) error {
	write := func(b *record.Batch) error { return x.write(ctx, b) }
	if x.query.View != record.ViewAll {
		end, err := x.db.Scan(ctx, x.query, write)
		if err == nil && end.HorizonNs < x.query.AsOfAcqNs {
			err = behind(end.HorizonNs, x.query.AsOfAcqNs)
		}
		if err == nil {
			err = queryflags.CheckEnd(end)
		}
		return cli.FirstError(err, x.closed(err))
	}
	s := &acqSlices{db: x.source, query: x.query, maxRecords: recordsOfSlice(),
		maxBytes: sliceBytes, emit: write}
	err := s.export(ctx, x.horizonNs)
	return cli.FirstError(err, x.closed(err))
}

// past returns a client whose queries are answered by replicas that have all below a horizon.
func past(db *client.Client, horizonNs int64) *client.Client {
	if horizonNs <= 0 {
		return db
	}
	return db.After(horizonNs - 1)
}

// closed ends the file, unless the records before the end are not all there.
func (x *exporter) closed(err error) error {
	if err != nil {
		return nil
	}
	return x.out.Close()
}

func (x *exporter) write(ctx context.Context, b *record.Batch) error {
	if x.erased != nil {
		if b = x.erased.visible(b); b.Len() == 0 {
			return nil
		}
	}
	if x.opened != nil {
		if err := x.opened.open(ctx, b); err != nil {
			return err
		}
	}
	if err := x.out.Write(b); err != nil {
		return err
	}
	x.records += int64(b.Len())
	x.progress.Add(int64(b.Len()), x.records)
	return nil
}

// left says what there is of an export that was stopped.
func (x *exporter) left(file string) string {
	text := output.Thousands(x.records)
	if x.query.View == record.ViewAll { // else there are fewer than versions
		text += " of " + output.Thousands(int64(x.count))
	}
	text += " records read; "
	if file == "" {
		return text + "stdout is incomplete"
	}
	return text + file + " was not written"
}

func (x *exporter) note(file string) string {
	if file == "" {
		return ""
	}
	return " to " + file
}

// toFile has a file written that replace gives its name when it is complete and synced, and with
// sum its checksum beside it; "" is stdout.
func (a *app) toFile(
	name string, replace func(string, func(durable.File) error) error, sum bool,
	write func(io.Writer) error,
) (size int64, err error) {
	counted := &countingWriter{out: a.Stdout}
	if name == "" {
		out := bufio.NewWriterSize(counted, 1<<18)
		err := write(out)
		return counted.n, errors.Join(err, out.Flush())
	}
	digest := sha256.New()
	var failed error
	err = replace(name, func(f durable.File) error {
		counted.out = io.NewOffsetWriter(f, 0)
		if sum {
			counted.out = io.MultiWriter(counted.out, digest)
		}
		out := bufio.NewWriterSize(counted, 1<<18)
		if failed = write(out); failed == nil {
			failed = out.Flush()
		}
		if failed == nil && sum {
			if failed = f.Sync(); failed == nil {
				failed = removeSum(name) // a crash must not leave one of another file
			}
		}
		return failed
	})
	if failed != nil {
		return counted.n, failed // which is of what is exported, not of the file
	}
	if err == nil && sum {
		err = writeSum(name, digest.Sum(nil))
	}
	return counted.n, err
}

// countingWriter counts what is written.
type countingWriter struct {
	out io.Writer
	n   int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.out.Write(p)
	w.n += int64(n)
	return n, err
}

// valueColumns returns the columns that payloads are decoded into, and what it is called.
func (a *app) valueColumns(
	ctx context.Context, db *client.Client, opened *opened, kind string, moids record.RangeSet,
) ([]exchange.Value, string, error) {
	if opened != nil {
		return opened.columns(), "fields", nil
	}
	if kind == "none" {
		return nil, "", nil
	}
	if kind != "auto" {
		v, err := exchange.NewValue(kind)
		if err != nil {
			return nil, "", cli.Usagef("--value: %w", err)
		}
		return []exchange.Value{v}, kind, nil
	}
	all, err := db.Quantities(ctx)
	if err != nil {
		return nil, "", err
	}
	all = slices.DeleteFunc(all, func(q client.Quantity) bool {
		return !moids.Contains(int64(q.MOID))
	})
	for _, q := range all {
		if q.Type != all[0].Type || !slices.Equal(q.Fields, all[0].Fields) {
			a.Note("no value column: moid %d is %s and moid %d is %s; select a type with --value",
				all[0].MOID, all[0].Type, q.MOID, q.Type)
			return nil, "", nil
		}
	}
	if len(all) == 0 || all[0].Type == "bytes" {
		return nil, "", nil
	}
	return declaredColumns(&all[0])
}

// declaredColumns are the columns of a quantity that is not bytes.
func declaredColumns(q *client.Quantity) ([]exchange.Value, string, error) {
	if q.Type != "struct" {
		v, err := exchange.NewValue(q.Type)
		return []exchange.Value{v}, q.Type, err
	}
	var columns []exchange.Value
	for _, f := range q.Fields {
		v, err := exchange.NewField("value_"+f.Name, f.Type, int(f.Offset))
		if err != nil {
			return nil, "", fmt.Errorf("field %s of moid %d: %w", f.Name, q.MOID, err)
		}
		columns = append(columns, v)
	}
	return columns, q.Type, nil
}
