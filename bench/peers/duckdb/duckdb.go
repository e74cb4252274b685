//go:build cgo

// Package duckdb measures DuckDB: one table in the order of arrival, which its zone maps prune, or
// sorted by key after the load.
package duckdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"path/filepath"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/pentad-db/pentad/bench/peers/sqltext"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const schema = `CREATE TABLE IF NOT EXISTS r (cid INTEGER, mid BIGINT, moid INTEGER, cap BIGINT,
	acq BIGINT, val DOUBLE`

// Kinds returns DuckDB in the order of arrival and sorted by key.
func Kinds() []system.Kind {
	kind := func(name, about string, sorted bool) system.Kind {
		return system.Kind{Name: name, About: about, Embedded: true,
			Module: "github.com/duckdb/duckdb-go/v2",
			Durability: system.Durability{Class: system.Synced,
				About: "WAL synced per batch (appender flush and commit)"},
			Open: func(ctx context.Context, dir string, shape system.Shape) (system.System, error) {
				return open(ctx, dir, sorted, shape)
			}}
	}
	return []system.Kind{
		kind("duckdb", "one table in the order of arrival; zone maps; rows through database/sql",
			false),
		kind("duckdb-sorted", "as duckdb, rewritten in the order (cid, mid, moid, cap, acq)", true),
	}
}

type db struct {
	*sql.DB
	conn   *sql.Conn
	sorted bool
	shape  system.Shape
}

// dialect returns DuckDB's.
func dialect() sqltext.Dialect {
	return sqltext.Dialect{Divide: "//",
		Latest: func(columns, where string) string {
			return "SELECT cid, mid, moid, cap, max(acq) AS acq, arg_max(val, acq) AS val" +
				ifStatus(columns, ", arg_max(status, acq) AS status") + " FROM r" + where +
				" GROUP BY cid, mid, moid, cap"
		},
		Last: func(columns, where string) string {
			return "SELECT cid, mid, moid, l.cap AS cap, l.acq AS acq, l.val AS val" +
				ifStatus(columns, ", l.status AS status") +
				" FROM (SELECT cid, mid, moid, max({cap: cap, acq: acq, val: val" +
				ifStatus(columns, ", status: status") + "}) AS l FROM r" + where +
				" GROUP BY cid, mid, moid)"
		}}
}

func ifStatus(columns, text string) string {
	if strings.Contains(columns, "status") {
		return text
	}
	return ""
}

func open(
	ctx context.Context, dir string, sorted bool, shape system.Shape,
) (system.System, error) {
	d, err := sql.Open("duckdb", filepath.Join(dir, "r.duckdb"))
	if err != nil {
		return nil, err
	}
	out := &db{DB: d, sorted: sorted, shape: shape}
	columns := ")"
	if shape.Status() {
		columns = ", status BIGINT)"
	}
	if _, err = d.ExecContext(ctx, schema+columns); err == nil {
		out.conn, err = d.Conn(ctx)
	}
	if err != nil {
		_ = d.Close() // the first error is what counts
		return nil, err
	}
	return out, nil
}

func (d *db) Put(_ context.Context, b *record.Batch) error {
	return d.conn.Raw(func(c any) error {
		a, err := duckdb.NewAppenderFromConn(c.(driver.Conn), "", "r")
		if err != nil {
			return err
		}
		var row []driver.Value
		for i := range b.Len() {
			row = row[:0]
			for _, v := range sqltext.Values(b, i, d.shape) {
				row = append(row, v)
			}
			if err := a.AppendRow(row...); err != nil {
				_ = a.Close() // the row's error is what counts
				return err
			}
		}
		return a.Close()
	})
}

func (d *db) Settle(ctx context.Context) error {
	if d.sorted {
		for _, text := range []string{
			"CREATE TABLE s AS SELECT * FROM r ORDER BY cid, mid, moid, cap, acq",
			"DROP TABLE r", "ALTER TABLE s RENAME TO r"} {
			if _, err := d.ExecContext(ctx, text); err != nil {
				return err
			}
		}
	}
	_, err := d.ExecContext(ctx, "CHECKPOINT")
	return err
}

func (d *db) Ask(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	return dialect().Ask(ctx, d.DB, q, d.shape, take, sqltext.Same)
}

func (d *db) Close() error {
	if err := d.conn.Close(); err != nil {
		return err
	}
	return d.DB.Close()
}
