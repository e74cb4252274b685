//go:build cgo

package duckdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"

	duck "github.com/duckdb/duckdb-go/v2"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// Registries returns DuckDB. Its spatial extension is a download at run time, not built here; a
// rectangle is two ranges, which its zone maps and vectors do well.
func Registries() []system.RegistryKind {
	return []system.RegistryKind{{Name: "duckdb",
		About: "table of devices sorted by type, project and latitude, table of readings sorted " +
			"by (mid, cap), joined in one prepared statement; without the spatial extension, " +
			"latitude and longitude as numbers",
		Open: openRegistry}}
}

const registryQuestion = `
SELECT r.mid, r.cap, r.val FROM devices d JOIN r ON r.mid = d.mid
WHERE d.type = ? AND d.project = ? AND d.lon BETWEEN ? AND ? AND d.lat BETWEEN ? AND ?
	AND d.alt >= ? AND d.alt < ? AND r.cap >= ? AND r.cap < ? AND r.val > ?`

type registry struct {
	connector *duck.Connector
	sql       *sql.DB
	ask       *sql.Stmt
}

func openRegistry(ctx context.Context, dir string) (system.Registry, error) {
	connector, err := duck.NewConnector(filepath.Join(dir, fileName), nil)
	if err != nil {
		return nil, err
	}
	d := &registry{connector: connector, sql: sql.OpenDB(connector)}
	d.sql.SetMaxOpenConns(1)
	if err := d.run(ctx, `CREATE TABLE devices_in (mid BIGINT, name TEXT, type TEXT, project TEXT,
		alt DOUBLE, lat DOUBLE, lon DOUBLE)`,
		"CREATE TABLE r_in (mid BIGINT, cap BIGINT, val DOUBLE)"); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *registry) run(ctx context.Context, texts ...string) error {
	for _, text := range texts {
		if _, err := d.sql.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// add appends rows to a table.
func (d *registry) add(
	ctx context.Context, table string, n int, row func(i int) []driver.Value,
) (err error) {
	conn, err := d.connector.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	a, err := duck.NewAppenderFromConn(conn, "", table)
	if err != nil {
		return err
	}
	for i := range n {
		if err := a.AppendRow(row(i)...); err != nil {
			return errors.Join(err, a.Close())
		}
	}
	return a.Close()
}

func (d *registry) Register(ctx context.Context, devices []system.Device) error {
	return d.add(ctx, "devices_in", len(devices), func(i int) []driver.Value {
		x := &devices[i]
		return []driver.Value{x.MID, x.Name, x.Type, x.Project, x.Alt, x.Lat, x.Lon}
	})
}

func (d *registry) Put(ctx context.Context, b *record.Batch) error {
	return d.add(ctx, "r_in", b.Len(), func(i int) []driver.Value {
		return []driver.Value{b.MID[i], b.CapNs[i], system.Number(b.Payload(i))}
	})
}

func (d *registry) Settle(ctx context.Context) (err error) {
	if err := d.run(ctx,
		"CREATE TABLE devices AS SELECT * FROM devices_in ORDER BY type, project, lat",
		"CREATE TABLE r AS SELECT * FROM r_in ORDER BY mid, cap", "DROP TABLE devices_in",
		"DROP TABLE r_in", "CHECKPOINT"); err != nil {
		return err
	}
	d.ask, err = d.sql.PrepareContext(ctx, registryQuestion)
	return err
}

func (d *registry) Ask(
	ctx context.Context, w *system.Where,
) (count int, sum float64, err error) {
	rows, err := d.ask.QueryContext(ctx, w.Type, w.Project, w.West, w.East, w.South, w.North,
		w.AltFrom, w.AltTo, w.Cap.From, w.Cap.To, w.Above)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var mid, capNs int64
	var value float64
	for rows.Next() {
		if err := rows.Scan(&mid, &capNs, &value); err != nil {
			return 0, 0, err
		}
		count, sum = count+1, sum+value
	}
	return count, sum, rows.Err()
}

func (d *registry) Close() error {
	var err error
	if d.ask != nil {
		err = d.ask.Close()
	}
	return errors.Join(err, d.sql.Close())
}
