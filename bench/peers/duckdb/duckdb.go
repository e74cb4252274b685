//go:build cgo

// Package duckdb measures DuckDB: one table in the order of arrival, which its zone maps prune, or
// sorted by key after the load.
package duckdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"math"
	"path/filepath"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/pentad-db/pentad/bench/peers/sqltext"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const schema = `CREATE TABLE r (cid INTEGER, mid BIGINT, moid INTEGER, cap BIGINT, acq BIGINT,
	val DOUBLE, status BIGINT)`

// Kinds returns DuckDB in the order of arrival and sorted by key.
func Kinds() []system.Kind {
	kind := func(name, about string, sorted bool) system.Kind {
		return system.Kind{Name: name, About: about,
			Durability: "WAL synced per batch (appender flush and commit)",
			Open: func(ctx context.Context, dir string) (system.System, error) {
				return open(ctx, dir, sorted)
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
}

func open(ctx context.Context, dir string, sorted bool) (system.System, error) {
	d, err := sql.Open("duckdb", filepath.Join(dir, "r.duckdb"))
	if err != nil {
		return nil, err
	}
	out := &db{DB: d, sorted: sorted}
	if _, err = d.ExecContext(ctx, schema); err == nil {
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
		for i := range b.Len() {
			p := b.Payload(i)
			if err := a.AppendRow(b.CID[i], b.MID[i], b.MOID[i], b.CapNs[i], b.AcqNs[i],
				math.Float64frombits(binary.LittleEndian.Uint64(p)),
				int64(binary.LittleEndian.Uint64(p[8:]))); err != nil {
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
	ctx context.Context, q *record.Query, count bool, take func(b *record.Batch),
) (uint64, error) {
	where, args := sqltext.Where(q)
	if count {
		var rows uint64
		err := d.QueryRowContext(ctx, "SELECT count(*) FROM r"+where, args...).Scan(&rows)
		return rows, err
	}
	text := "SELECT cid, mid, moid, cap, acq, val, status FROM r" + where
	if q.View == record.ViewLatest {
		text += " QUALIFY row_number() OVER " +
			"(PARTITION BY cid, mid, moid, cap ORDER BY acq DESC) = 1"
	}
	return sqltext.Rows(ctx, d.DB, text, args, take)
}

func (d *db) Close() error {
	if err := d.conn.Close(); err != nil {
		return err
	}
	return d.DB.Close()
}
