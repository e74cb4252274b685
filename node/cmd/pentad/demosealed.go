package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/demodata"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/sealer"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
	"github.com/pentad-db/pentad/sdk/wire"
)

// demoTown is the tenant whose power is also stored encrypted, in a node of its own: so figures of
// the demo are of the same records each time.
const demoTown = 1

const demoSchema = `{"schema": 1, "max_records": 1000000000, "mac": {"scope": "tenant"}, "fields": [
  {"id": 1, "name": "power", "kind": "number", "digits": 3, "max": 1000000, "sum": true}]}
`

// sealedDemo is the encrypted part of the demo.
type sealedDemo struct {
	show    *demoShow
	db      *client.Client
	sealer  *sealer.Sealer
	payload []byte // reused
	store   string // folder of the records
}

// sealed shows an encrypted monthly sum.
func (s *demoShow) sealed(ctx context.Context) (err error) {
	dir := filepath.Join(s.home, demoSealedName)
	n, err := node.Open(ctx, node.Options{Dir: filepath.Join(dir, "node"), Listen: "127.0.0.1:0",
		Logger: s.app.LoggerAt(slog.LevelWarn)})
	if err != nil {
		return err
	}
	defer func() { err = cli.FirstError(err, s.app.CloseNode(n)) }()
	plain := s.app.Addr
	s.app.Addr = n.Addr().String()
	db, err := s.app.Connect(ctx)
	s.app.Addr = plain
	if err != nil {
		return err
	}
	defer db.Close()
	d := &sealedDemo{show: s, db: db, store: filepath.Join(dir, "node", "store")}
	if d.sealer, err = demoKeys(dir); err != nil {
		return err
	}
	s.title("A monthly sum of encrypted readings: the power of town %d, encrypted by this\n"+
		"program, is added up by a node that has no key (pentad seal)", demoTown)
	if err := d.load(ctx, n); err != nil {
		return err
	}
	return d.compare(ctx)
}

// demoSealedName is the folder of the encrypted part, in that of the demo.
const demoSealedName = "sealed"

// demoKeys opens keys and schema, and makes them for the first time.
func demoKeys(dir string) (*sealer.Sealer, error) {
	f := sealer.Files{Keys: filepath.Join(dir, "keys.json"),
		Schema: filepath.Join(dir, "power.json")}
	if _, err := os.Stat(f.Keys); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(f.Schema, []byte(demoSchema), 0o644); err != nil {
			return nil, err
		}
		keys, err := seal.OpenFileKeyring(f.Keys)
		if err != nil {
			return nil, err
		}
		if _, err := keys.Generate(demoTown); err != nil {
			return nil, err
		}
	}
	return f.Open()
}

// load stores the readings, unless they are there.
func (d *sealedDemo) load(ctx context.Context, n *node.Node) error {
	stored, _, err := d.db.Count(ctx, &record.Query{})
	if err != nil || stored > 0 {
		return err
	}
	w := d.db.NewWriter(client.WriterOptions{})
	var sealing time.Duration
	count := int64(0)
	for r := range d.show.plan.All() {
		if r.Key.CID != demoTown || r.Key.MOID != demodata.PowerKW {
			continue
		}
		units, err := d.sealer.Fields[0].Round(r.Value)
		if err != nil {
			return err
		}
		start := time.Now()
		reading := seal.Reading{CapNs: r.Key.CapNs, Values: []seal.Value{{Number: units}}}
		d.payload, err = d.sealer.Seal(ctx, d.payload[:0], r.Key, reading)
		if err != nil {
			return err
		}
		sealing += time.Since(start)
		count++
		if err := w.Add(ctx, r.Key, d.payload); err != nil {
			return err
		}
	}
	if err := w.Close(ctx); err != nil {
		return err
	}
	fmt.Fprintf(d.show.app.Stdout, "encrypted %s readings in %s, %s each\n",
		output.Thousands(count), output.Duration(sealing),
		output.Duration(sealing/time.Duration(max(count, 1))))
	return n.Seal(ctx)
}

// compare shows what is stored, the sum as the node has it, the sum that the key opens, and how
// long both take, next to a sum of the same readings that are not encrypted.
func (d *sealedDemo) compare(ctx context.Context) error {
	q := powerBox()
	q.Box[record.CID] = record.RangeSet{record.At(demoTown)}
	start := time.Now()
	groups, doc, err := queryflags.AskGroups(ctx, d.show.db, q, "stats", "")
	plainTook := time.Since(start)
	if err != nil {
		return err
	}
	fields, err := doc.Render(groups[0].Result)
	if err != nil {
		return err
	}
	start = time.Now()
	sealedSum, err := d.sum(ctx)
	sealedTook := time.Since(start)
	if err != nil {
		return err
	}
	p, err := seal.ParsePartial(d.sealer.Schema, sealedSum.Result)
	if err != nil {
		return err
	}
	t, err := d.sealer.Tenant(demoTown)
	if err != nil {
		return err
	}
	start = time.Now()
	sums, err := t.Decrypt(ctx, p, seal.Expect{RequireMAC: true})
	opened := time.Since(start)
	if err != nil {
		return err
	}
	power, err := sums.Sum("power")
	if err != nil {
		return err
	}
	hidden, err := p.Hidden("power")
	if err != nil {
		return err
	}
	if err := d.showStored(ctx, sums.Count()); err != nil {
		return err
	}
	w := d.show.table(cli.Left(""), cli.Right("plain"), cli.Right("encrypted"))
	for _, row := range [][3]output.Value{
		{output.Text("readings"), output.Count(groups[0].Records), output.Count(sums.Count())},
		{output.Text("sum in the node"), sumOf(fields), output.Text(hidden)},
		{output.Text("sum that is read"), sumOf(fields), output.Text(power)},
		{output.Text("the node took"), output.Span(plainTook), output.Span(sealedTook)},
		{output.Text("to decrypt"), output.Text("-"), output.Span(opened)},
	} {
		if err := w.Row(row[:]...); err != nil {
			return err
		}
	}
	return w.Close()
}

// sumOf is the sum of the plugin stats, with the digits of the readings.
func sumOf(fields []plugin.Value) output.Value {
	for _, f := range fields {
		if v, ok := f.Value.(float64); ok && f.Name == "sum" {
			return output.Text(fmt.Sprintf("%.3f", v))
		}
	}
	return output.Null()
}

// showStored shows a payload, and how much the records take on disk.
func (d *sealedDemo) showStored(ctx context.Context, readings uint64) error {
	_, err := d.db.Scan(ctx, &record.Query{Limit: 1}, func(b *record.Batch) error {
		fmt.Fprintf(d.show.app.Stdout, "a payload as it is stored: %x\n", b.Payload(0))
		return nil
	})
	if err != nil {
		return err
	}
	segments, _, err := diskBytes(d.store)
	fmt.Fprintf(d.show.app.Stdout, "segments: %s, %.1f bytes per reading (key 32, payload 48)\n",
		output.Size(segments), float64(segments)/float64(max(readings, 1)))
	return err
}

// sum has the node add up the encrypted readings.
func (d *sealedDemo) sum(ctx context.Context) (g wire.Group, err error) {
	_, doc, call, err := queryflags.FindPlugin(ctx, d.db, "sealed-stats")
	if err != nil {
		return g, err
	}
	call.Params, err = doc.EncodeParams(map[string]string{"layout": d.sealer.Schema.Layout()})
	if err != nil {
		return g, err
	}
	q := powerBox()
	q.Aggregate = call
	groups, end, err := d.db.Aggregate(ctx, q)
	if err == nil {
		err = queryflags.CheckEnd(end)
	}
	if err != nil {
		return g, err
	}
	return groups[0], nil
}
