package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/input"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// putFlags are the flags of one record, and the form of many on stdin.
type putFlags struct {
	cid, mid, moid, cap, value string
	format                     string
	create                     bool
	hint                       string // of the error of a device that is not there
	kind                       queryflags.TypeFlag
}

func (a *app) putCommand() *cobra.Command {
	p := putFlags{hint: createHint}
	c := &cobra.Command{
		Use:   "put",
		Short: "Store one record, or many from stdin",
		Long: `Store one record given by flags, or many from stdin.

A line of NDJSON is {"cid":1,"mid":7,"moid":1,"cap":"2026-11-21T09:45:00Z","value":21.5}; cap may
be an integer in ns, and "payload" (base64) may replace "value". "tenant", "device" and
"quantity" are names in place of cid, mid and moid; --create gives ids to devices that have none.
CSV has a header with cid, mid, moid, cap and value; payload or payload_hex may replace it, or a
column for each field of a struct, e.g. lat,lon. Its columns of the key have numbers or names, and
may be called tenant, device and quantity, too.

Values are of the type that their quantity is declared as (pentad quantity), else f64; --type names
another one. What does not fit the declaration is rejected, unless --type is given. That of a struct
is a JSON object of its fields, e.g. {"lat":65.01,"lon":25.47}: a float that is left out is NaN.

put reads the output of get: acq is ignored, because pentad assigns a new one, and "deleted":true,
or true in a column deleted, deletes the reading. Each run stores all of its input; pentad import
resumes an interrupted import of a file.`,
		Args: cli.NoCommand,
		Example: `  pentad put --cid 1 --mid 7 --moid 1 --value 21.5
  pentad get --cid 1 -o ndjson | pentad put --addr 127.0.0.1:5151
  pentad put --format csv < readings.csv`,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"cid", "mid", "moid", "cap", "value"} {
				if c.Flags().Changed(name) {
					return a.putOne(c.Context(), &p)
				}
			}
			return a.putMany(c.Context(), &p)
		},
	}
	flags := c.Flags()
	flags.StringVar(&p.cid, "cid", "", "tenant, an integer or a name")
	flags.StringVar(&p.mid, "mid", "", "device, an integer or a name")
	flags.StringVar(&p.moid, "moid", "", "quantity, an integer or a name")
	flags.StringVar(&p.cap, "cap", "now", "capture time, e.g. 2026-11-21T09:45:00Z")
	flags.StringVar(&p.value, "value", "", "payload, as its quantity is declared or as --type")
	p.kind.Add(c, "type of values", undeclaredValues)
	flags.BoolVar(&p.create, "create", false, "create devices by name that are not there")
	flags.StringVar(&p.format, "format", "ndjson", "format of stdin: ndjson or csv")
	cli.Complete(c, "format", "ndjson", "csv")
	return c
}

// createHint says how put gives an id to a device.
const createHint = "; --create creates it"

// undeclaredValues is the type of values of quantities that are not declared.
const undeclaredValues = "f64"

// putOne stores one record and shows the acquisition time that it got.
func (a *app) putOne(ctx context.Context, p *putFlags) error {
	if err := p.kind.Check(undeclaredValues); err != nil {
		return err
	}
	key, named, err := p.key(a)
	if err != nil {
		return cli.Usage(err)
	}
	if _, err := p.batch(key, p.kind.Named()); !named && err != nil && p.kind.Given() {
		return err // without asking the node
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := p.replaceNames(ctx, db, &key); err != nil {
		return err
	}
	types, err := p.kind.Types(ctx, db)
	if err != nil {
		return err
	}
	b, err := p.batch(key, types)
	if err != nil {
		return err
	}
	reply, err := db.Put(ctx, b, [16]byte{}, 0)
	if err != nil {
		return err
	}
	return a.One([]output.Column{cli.Right("written"), cli.Right("rejected"), cli.Left("acq")},
		output.Count(reply.Records), output.Count(0), output.Time(reply.FirstAcqNs))
}

// batch is the record.
func (p *putFlags) batch(key record.Key, types quantity.Types) (*record.Batch, error) {
	payload, err := quantity.Read(nil, types, key.MOID, p.value)
	if err != nil {
		return nil, cli.Usagef("--value: %w", err)
	}
	var b record.Batch
	b.Append(key, payload)
	return &b, b.Validate()
}

// key reads the flags of a key. One that is named has parts that are names, which are 0 yet.
func (p *putFlags) key(a *app) (key record.Key, named bool, err error) {
	whole := func(d record.Dim, text string) int64 {
		if err != nil {
			return 0
		}
		n, parseErr := strconv.ParseInt(text, 10, 64)
		switch {
		case text == "":
			err = fmt.Errorf("--%s: missing", d)
		case parseErr != nil && registry.ReadsAsIDs(text):
			err = fmt.Errorf("--%s %q is not an integer", d, text)
		case parseErr != nil:
			named = true
		case n < d.Min() || n >= d.Max():
			err = fmt.Errorf("--%s %d is outside %d to %d", d, n, d.Min(), d.Max()-1)
		}
		return n
	}
	key.CID = int32(whole(record.CID, p.cid))
	key.MID = whole(record.MID, p.mid)
	key.MOID = int32(whole(record.MOID, p.moid))
	if err != nil {
		return key, named, err
	}
	if key.CapNs, err = instant(a, p.cap); err != nil {
		return key, named, fmt.Errorf("--cap: %w", err)
	}
	return key, named, nil
}

// replaceNames puts numbers in place of names.
func (p *putFlags) replaceNames(
	ctx context.Context, db *client.Client, key *record.Key,
) error {
	r := queryflags.Resolver{DB: db, Create: p.create, Prefix: "--", Hint: p.hint}
	found, err := r.Key(ctx, p.cid, p.mid, p.moid)
	if err != nil {
		return err
	}
	found.CapNs = key.CapNs
	*key = found
	return nil
}

// instant reads a time that must not be a span: a date would be a guess of midnight.
func instant(a *app, text string) (int64, error) {
	span, err := timeparse.Parse(text, a.Now())
	if err == nil && span.ToNs != span.FromNs+1 {
		err = fmt.Errorf("%q is a time span; add the time of day", text)
	}
	if doubt := timeparse.CheckUnit(text); err == nil && doubt != nil {
		a.Note("%v", doubt)
	}
	return span.FromNs, err
}

// putMany stores what stdin holds.
func (a *app) putMany(ctx context.Context, p *putFlags) error {
	if err := p.kind.Check(undeclaredValues); err != nil {
		return err
	}
	if p.format != "ndjson" && p.format != "csv" {
		return cli.Usagef("--format %q is unknown; use ndjson or csv", p.format)
	}
	if a.StdinTerminal {
		return cli.Usagef("nothing to store: no record given; use --cid --mid --moid --value, " +
			"or pipe records to stdin")
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	types, err := p.kind.Types(ctx, db)
	if err != nil {
		return err
	}
	in := a.StdinUntil(ctx)
	defer in.Close()
	w := db.NewWriter(client.WriterOptions{})
	var written, lines int64
	var rejects input.Rejected
	read := input.FromLines
	if p.format == "csv" {
		read = input.FromCSV
	}
	written, lines, err = read(ctx, "stdin", in, w.AddRecord, types,
		&queryflags.Resolver{DB: db, Create: p.create, Hint: createHint}, &rejects)
	if closeErr := w.Close(ctx); err == nil {
		err = closeErr
	}
	if err != nil {
		left := "nothing was stored"
		if n := w.Stats().Records; n > 0 || lines > 0 {
			left = "at least " + output.Thousands(n) + " of the records read so far are stored; " +
				"another run stores all of its input"
		}
		if ctx.Err() != nil {
			return cli.Stopped(ctx, err, left)
		}
		a.Note("%s", left)
		return err
	}
	if err := a.One([]output.Column{cli.Right("written"), cli.Right("rejected")},
		output.Count(written), output.Count(rejects.Count)); err != nil {
		return err
	}
	return rejects.Err(lines)
}
