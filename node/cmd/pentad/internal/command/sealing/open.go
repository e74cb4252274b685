package sealing

import (
	"context"
	"encoding/base64"
	"errors"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/sealer"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

func (a *app) openCommand() *cobra.Command {
	var f keyFiles
	var q queryflags.Flags
	c := &cobra.Command{
		Use:   "open",
		Short: "Show encrypted readings, decrypted",
		Long: `Show the latest version of each encrypted reading that matches all selectors, decrypted here. With an
envelope, values and keys of records are authenticated, and a reading that was changed is an error;
the column authentic says so. Versions that delete a reading are not shown; pentad get shows them.`,
		Args: cli.NoCommand,
		Example: `  pentad seal open --schema meters.json --cid 1 --mid 7 --moid 9
  pentad seal open --schema meters.json --moid 9 --last 1 -o ndjson`,
		RunE: func(c *cobra.Command, _ []string) error { return a.open(c.Context(), &f, &q) },
	}
	f.add(c)
	q.AddBox(c)
	c.Flags().Uint64Var(&q.Limit, "limit", 0, "maximum number of readings, e.g. 100 (0: no limit)")
	return c
}

func (a *app) open(ctx context.Context, f *keyFiles, q *queryflags.Flags) error {
	s, err := f.Open()
	if err != nil {
		return err
	}
	format, err := a.Format()
	if err != nil {
		return err
	}
	q.Order = "none"
	if format == output.Table {
		q.Order = "key"
	}
	query, err := q.Query(ctx, a.App)
	if err != nil {
		return err
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	columns := []output.Column{cli.Right("cid"), cli.Right("mid"), cli.Right("moid"),
		cli.Left("cap"), cli.Left("acq")}
	for _, field := range s.Fields {
		columns = append(columns, output.Column{Name: field.Name, Right: field.Kind == seal.Number})
	}
	if s.Schema.Definition().Envelope {
		columns = append(columns, cli.Left("opaque"))
	}
	w, err := a.Writer(false, append(columns, cli.Left("authentic"))...)
	if err != nil {
		return err
	}
	end, err := db.Scan(ctx, query, func(b *record.Batch) error {
		for i := range b.Len() {
			if b.Tomb(i) {
				continue
			}
			row, err := openRow(ctx, s, b.Key(i), b.Payload(i))
			if err != nil {
				return err
			}
			if err := w.Row(row...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, w.Flush())
	}
	if err := w.Close(); err != nil {
		return err
	}
	if w.Rows() == 0 && q.FailEmpty {
		return cli.ErrEmpty
	}
	return queryflags.CheckEnd(end)
}

// openRow is a row of a reading.
func openRow(
	ctx context.Context, s *sealer.Sealer, k record.Key, payload []byte,
) ([]output.Value, error) {
	o, err := s.Open(ctx, k, payload)
	if err != nil {
		return nil, err
	}
	row := []output.Value{output.Int(k.CID), output.Int(k.MID), output.Int(k.MOID),
		output.Time(k.CapNs), output.Time(k.AcqNs)}
	for i, v := range o.Values {
		if f := &s.Fields[i]; f.Kind == seal.Text {
			row = append(row, output.Text(v.Text))
		} else {
			row = append(row, output.Raw([]byte(f.Format(v.Number))))
		}
	}
	if s.Schema.Definition().Envelope {
		row = append(row, output.Text(base64.StdEncoding.EncodeToString(o.Opaque)))
	}
	return append(row, output.Bool(o.Authentic)), nil
}
