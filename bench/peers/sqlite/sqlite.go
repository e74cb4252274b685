//go:build cgo

// Package sqlite measures SQLite: one table clustered by key, and indexes for the questions that
// the key does not serve.
package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"math"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3" // the driver

	"github.com/pentad-db/pentad/bench/peers/sqltext"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const schema = `
CREATE TABLE r (cid INTEGER, mid INTEGER, moid INTEGER, cap INTEGER, acq INTEGER, val REAL,
	status INTEGER, PRIMARY KEY (cid, mid, moid, cap, acq)) WITHOUT ROWID;
CREATE INDEX by_mid ON r (mid, moid, cap);
CREATE INDEX by_cap ON r (moid, cap);
CREATE INDEX by_time ON r (cap);
CREATE INDEX by_acq ON r (acq);`

// Kind returns SQLite.
func Kind() system.Kind {
	return system.Kind{Name: "sqlite", Durability: "WAL, synchronous=FULL, a transaction per batch",
		About: "WITHOUT ROWID by (cid, mid, moid, cap, acq), indexes (mid, moid, cap), " +
			"(moid, cap), (cap), (acq); ANALYZE after the load",
		Open: open}
}

type db struct{ *sql.DB }

func open(ctx context.Context, dir string) (system.System, error) {
	name := "file:" + filepath.Join(dir, "r.db") +
		"?_journal_mode=WAL&_synchronous=FULL&_cache_size=-1000000&_txlock=immediate"
	d, err := sql.Open("sqlite3", name)
	if err != nil {
		return nil, err
	}
	d.SetMaxOpenConns(1)
	if _, err := d.ExecContext(ctx, schema); err != nil {
		_ = d.Close() // the schema's error is what counts
		return nil, err
	}
	return &db{d}, nil
}

func (d *db) Put(ctx context.Context, b *record.Batch) error {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // a no-op after Commit
	insert, err := tx.PrepareContext(ctx, "INSERT INTO r VALUES (?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer insert.Close()
	for i := range b.Len() {
		p := b.Payload(i)
		if _, err := insert.ExecContext(ctx, b.CID[i], b.MID[i], b.MOID[i], b.CapNs[i], b.AcqNs[i],
			math.Float64frombits(binary.LittleEndian.Uint64(p)),
			int64(binary.LittleEndian.Uint64(p[8:]))); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (d *db) Settle(ctx context.Context) error {
	_, err := d.ExecContext(ctx, "ANALYZE; PRAGMA wal_checkpoint(TRUNCATE);")
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
	if q.View == record.ViewLatest { // SQLite takes the other columns from the row of the maximum
		text = "SELECT cid, mid, moid, cap, max(acq), val, status FROM r" + where +
			" GROUP BY cid, mid, moid, cap"
	}
	return sqltext.Rows(ctx, d.DB, text, args, take)
}
