//go:build cgo

// Package duckdb measures DuckDB: one table in the order of arrival, which its zone maps prune, or
// sorted by key after the load.
package duckdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	bind "github.com/duckdb/duckdb-go-bindings"

	"github.com/pentad-db/pentad/bench/peers/sqltext"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	createTable = `CREATE TABLE IF NOT EXISTS r (cid INTEGER, mid BIGINT, moid INTEGER, cap BIGINT,
	acq BIGINT, val DOUBLE`
	fileName   = "r.duckdb"
	sortedName = "sorted.duckdb"
)

// Kinds returns DuckDB in the order of arrival and sorted by key.
func Kinds() []system.Kind {
	kind := func(name, about string, sorted bool) system.Kind {
		return system.Kind{Name: name, About: about, Embedded: true,
			Module: "github.com/duckdb/duckdb-go-bindings",
			Durability: system.Durability{Class: system.Synced,
				About: "WAL synced per batch (appender closed)"},
			Open: func(ctx context.Context, dir string, shape system.Shape) (system.System, error) {
				return open(dir, sorted, shape)
			}}
	}
	return []system.Kind{
		kind("duckdb", "one table in the order of arrival; zone maps; prepared statements, "+
			"answers by the chunk", false),
		kind("duckdb-sorted", "as duckdb, rewritten in the order (cid, mid, moid, cap, acq)", true),
	}
}

// db is a database with one connection, asked through the C interface of DuckDB.
type db struct {
	path   string
	base   bind.Database
	conn   bind.Connection
	asks   map[string]*bind.PreparedStatement
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

func open(dir string, sorted bool, shape system.Shape) (system.System, error) {
	d := &db{path: filepath.Join(dir, fileName), sorted: sorted, shape: shape}
	if err := d.connect(); err != nil {
		return nil, err
	}
	columns := ")"
	if shape.Status() {
		columns = ", status BIGINT)"
	}
	if err := d.run(createTable + columns); err != nil {
		_ = d.Close() // the first error is what counts
		return nil, err
	}
	return d, nil
}

func (d *db) connect() error {
	var message string
	var config bind.Config
	if bind.CreateConfig(&config) != bind.StateSuccess {
		return errors.New("duckdb: no configuration")
	}
	defer bind.DestroyConfig(&config)
	if bind.OpenExt(d.path, &d.base, config, &message) != bind.StateSuccess {
		return errors.New("duckdb: open: " + message)
	}
	if bind.Connect(d.base, &d.conn) != bind.StateSuccess {
		bind.Close(&d.base)
		return errors.New("duckdb: connect")
	}
	d.asks = map[string]*bind.PreparedStatement{}
	return nil
}

// run runs statements that return nothing.
func (d *db) run(texts ...string) error {
	for _, text := range texts {
		var result bind.Result
		state := bind.Query(d.conn, text, &result)
		var err error
		if state != bind.StateSuccess {
			err = fmt.Errorf("duckdb: %s: %s", text, bind.ResultError(&result))
		}
		bind.DestroyResult(&result)
		if err != nil {
			return err
		}
	}
	return nil
}

// Settle checkpoints. Sorted rows are written to a file of their own, which takes the place of the
// first: the pages of a dropped table would stay in its file, and count as bytes of records.
func (d *db) Settle(context.Context) error {
	if !d.sorted {
		return d.run("CHECKPOINT")
	}
	sorted := filepath.Join(filepath.Dir(d.path), sortedName)
	err := d.run("ATTACH '"+sorted+"' AS sorted",
		"CREATE TABLE sorted.r AS SELECT * FROM r ORDER BY cid, mid, moid, cap, acq",
		"CHECKPOINT sorted", "DETACH sorted")
	if err != nil {
		return err
	}
	if err := d.Close(); err != nil {
		return err
	}
	if err := os.Rename(sorted, d.path); err != nil {
		return err
	}
	if err := os.RemoveAll(d.path + ".wal"); err != nil {
		return err
	}
	return d.connect()
}

func (d *db) Ask(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	text, args := dialect().Select(q, d.shape)
	statement, err := d.prepared(text)
	if err != nil {
		return 0, err
	}
	for i, arg := range args {
		state, at := bind.StateError, bind.IdxT(i+1)
		switch v := arg.(type) {
		case int64:
			state = bind.BindInt64(*statement, at, v)
		case float64:
			state = bind.BindDouble(*statement, at, v)
		}
		if state != bind.StateSuccess {
			return 0, fmt.Errorf("duckdb: bind %v (%T) in %s", arg, arg, text)
		}
	}
	var result bind.Result
	defer func() { bind.DestroyResult(&result) }()
	if bind.ExecutePrepared(*statement, &result) != bind.StateSuccess {
		return 0, fmt.Errorf("duckdb: %s: %s", text, bind.ResultError(&result))
	}
	if q.Want == system.WantCount {
		return countOf(result)
	}
	return batches(result, d.shape.Status() && q.Want != system.WantGroups, take)
}

// prepared returns the statement of a text, which stays prepared for the next question.
func (d *db) prepared(text string) (*bind.PreparedStatement, error) {
	if s := d.asks[text]; s != nil {
		return s, nil
	}
	s := new(bind.PreparedStatement)
	if bind.Prepare(d.conn, text, s) != bind.StateSuccess {
		err := fmt.Errorf("duckdb: %s: %s", text, bind.PrepareError(*s))
		bind.DestroyPrepare(s)
		return nil, err
	}
	d.asks[text] = s
	return s, nil
}

func (d *db) Close() error {
	for _, s := range d.asks {
		bind.DestroyPrepare(s)
	}
	d.asks = nil
	bind.Disconnect(&d.conn)
	bind.Close(&d.base)
	return nil
}
