//go:build cgo

// Package sqlite measures SQLite: one table clustered by key, and indexes for the questions that
// the key does not serve.
package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"

	_ "github.com/mattn/go-sqlite3" // the driver

	"github.com/pentad-db/pentad/bench/peers/sqltext"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// schema begins with the pages after which the log is brought into the file, 256 MB: with the usual
// 1000, each commit would do that, and pages that change all the time were written each time.
const schema = `
PRAGMA wal_autocheckpoint = 65536;
CREATE TABLE IF NOT EXISTS r (cid INTEGER, mid INTEGER, moid INTEGER, cap INTEGER, acq INTEGER,
	val REAL, %s PRIMARY KEY (cid, mid, moid, cap, acq)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_mid ON r (mid, moid, cap);
CREATE INDEX IF NOT EXISTS by_cap ON r (moid, cap);
CREATE INDEX IF NOT EXISTS by_time ON r (cap);
CREATE INDEX IF NOT EXISTS by_acq ON r (acq);
CREATE TABLE IF NOT EXISTS series (cid INTEGER, mid INTEGER, moid INTEGER,
	PRIMARY KEY (cid, mid, moid)) WITHOUT ROWID;`

// Kinds returns SQLite.
func Kinds() []system.Kind {
	return []system.Kind{{Name: "sqlite", Embedded: true, Module: "github.com/mattn/go-sqlite3",
		Durability: system.Durability{Class: system.Synced,
			About: "WAL, synchronous=FULL, a transaction per batch, checkpoints of 256 MB"},
		About: "WITHOUT ROWID by (cid, mid, moid, cap, acq), indexes (mid, moid, cap), " +
			"(moid, cap), (cap), (acq), table of series; ANALYZE after the load; INDEXED BY " +
			"where devices are few",
		Open: open}}
}

type db struct {
	*sql.DB
	shape system.Shape
}

// dialect returns SQLite's, which takes the other columns from the row of the maximum.
func dialect() sqltext.Dialect {
	return sqltext.Dialect{Divide: "/",
		Latest: func(columns, where string) string {
			return "SELECT " + strings.Replace(columns, "acq", "max(acq) acq", 1) + " FROM r" +
				where + " GROUP BY cid, mid, moid, cap"
		},
		// By the table of series and the end of the index for each.
		Last: func(columns, where string) string {
			return "SELECT " + strings.Replace(columns, "acq", "max(acq) acq", 1) +
				" FROM (SELECT cid c, mid m, moid o, (SELECT max(cap) FROM r WHERE r.cid = " +
				"series.cid AND r.mid = series.mid AND r.moid = series.moid) p FROM series" +
				where + ") CROSS JOIN r ON cid = c AND mid = m AND moid = o AND cap = p " +
				"GROUP BY cid, mid, moid"
		}}
}

func open(ctx context.Context, dir string, shape system.Shape) (system.System, error) {
	name := "file:" + filepath.Join(dir, "r.db") +
		"?_journal_mode=WAL&_synchronous=FULL&_cache_size=-1000000&_txlock=immediate"
	d, err := sql.Open("sqlite3", name)
	if err != nil {
		return nil, err
	}
	d.SetMaxOpenConns(1)
	status := ""
	if shape.Status() {
		status = "status INTEGER,"
	}
	if _, err := d.ExecContext(ctx, fmt.Sprintf(schema, status)); err != nil {
		_ = d.Close() // the schema's error is what counts
		return nil, err
	}
	return &db{d, shape}, nil
}

func (d *db) Put(ctx context.Context, b *record.Batch) error {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // a no-op after Commit
	insert, err := tx.PrepareContext(ctx, "INSERT INTO r VALUES (?"+
		strings.Repeat(", ?", len(sqltext.Columns(d.shape))-1)+")")
	if err != nil {
		return err
	}
	defer insert.Close()
	for i := range b.Len() {
		values := sqltext.Values(b, i, d.shape)
		if _, err := insert.ExecContext(ctx, values...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (d *db) Settle(ctx context.Context) error {
	_, err := d.ExecContext(ctx, `INSERT OR IGNORE INTO series SELECT DISTINCT cid, mid, moid FROM r;
		ANALYZE; PRAGMA wal_checkpoint(TRUNCATE);`)
	return err
}

func (d *db) Ask(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	return dialect().Ask(ctx, d.DB, q, d.shape, take, func(text string) string {
		if !d.fewDevices(q) {
			return text
		}
		return strings.Replace(text, " FROM r WHERE", " FROM r INDEXED BY by_mid WHERE", 1)
	})
}

// fewDevices reports whether a box has a narrow range of devices, without their tenant: SQLite's
// statistics do not say how narrow a range is, and it would take the time of capture.
func (d *db) fewDevices(q *system.Query) bool {
	set, extent := q.Box[record.MID], d.shape.Extent[record.MID]
	width := int64(0)
	for _, r := range set {
		width += r.To - r.From
	}
	return len(set) > 0 && len(q.Box[record.CID]) == 0 && width <= (extent.To-extent.From)/20
}
