// Package postgres measures PostgreSQL in a cluster of its own: one heap table, btrees for devices,
// capture and arrival times.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pentad-db/pentad/bench/peers/server"
	"github.com/pentad-db/pentad/bench/peers/sqltext"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const schema = `
CREATE TABLE r (cid int, mid bigint, moid int, cap bigint, acq bigint, val float8 %s);
CREATE TABLE series (cid int, mid bigint, moid int, PRIMARY KEY (cid, mid, moid));
CREATE INDEX ON r (mid, moid, cap);
CREATE INDEX ON r (cap, moid);
CREATE INDEX ON r (acq);`

// settings are what an operator would choose for this machine; fsync and synchronous_commit stay
// on. WAL files that are done with are removed rather than kept to be written over, or they would
// weigh.
func settings() []string {
	return []string{"shared_buffers=4GB", "work_mem=256MB", "maintenance_work_mem=1GB",
		"max_wal_size=8GB", "wal_recycle=off", "checkpoint_timeout=30min",
		"effective_cache_size=12GB", "random_page_cost=1.1", "effective_io_concurrency=200",
		"listen_addresses=", "max_connections=10"}
}

// Kinds returns PostgreSQL.
func Kinds() []system.Kind {
	return []system.Kind{{Name: "postgres",
		Durability: system.Durability{Class: system.Synced,
			About: "COPY in a transaction per batch, fsync on"},
		About: "heap table, btrees (mid, moid, cap), (cap, moid), (acq), table of series; " +
			"4 GB shared_buffers; VACUUM ANALYZE after the load; binary rows through pgx over a " +
			"socket",
		Open: open}}
}

type db struct {
	server *server.Process
	conn   *pgx.Conn
	sql    *sql.DB
	shape  system.Shape
}

// dialect returns PostgreSQL's.
func dialect() sqltext.Dialect {
	return sqltext.Dialect{Divide: "/",
		Latest: func(columns, where string) string {
			return "SELECT DISTINCT ON (cid, mid, moid, cap) " + columns + " FROM r" + where +
				" ORDER BY cid, mid, moid, cap, acq DESC"
		},
		// By the table of series and the end of the index for each.
		Last: func(columns, where string) string {
			return "SELECT l.* FROM (SELECT * FROM series" + where + ") s, LATERAL (SELECT " +
				columns + " FROM r WHERE r.cid = s.cid AND r.mid = s.mid AND r.moid = s.moid " +
				"ORDER BY cap DESC, acq DESC LIMIT 1) l"
		}}
}

func open(ctx context.Context, dir string, shape system.Shape) (system.System, error) {
	process, config, err := start(ctx, dir)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, errors.Join(err, process.Close())
	}
	d := &db{server: process, conn: conn, sql: stdlib.OpenDB(*config), shape: shape}
	status := ""
	if shape.Status() {
		status = ", status bigint"
	}
	var has bool
	err = conn.QueryRow(ctx, "SELECT to_regclass('r') IS NOT NULL").Scan(&has)
	if err == nil && !has {
		_, err = conn.Exec(ctx, fmt.Sprintf(schema, status))
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// start starts a server in a folder, with a cluster of its own.
func start(ctx context.Context, dir string) (*server.Process, *pgx.ConnConfig, error) {
	postgres, err := server.Find("/usr/lib/postgresql/*/bin/postgres", "Debian's postgresql has it")
	if err != nil {
		return nil, nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, nil, err
	}
	as, err := server.As("postgres", dir)
	if err != nil {
		return nil, nil, err
	}
	data := filepath.Join(dir, "data")
	if _, err = os.Stat(data); errors.Is(err, os.ErrNotExist) {
		if err := initdb(ctx, filepath.Dir(postgres), dir, data, as); err != nil {
			return nil, nil, err
		}
	}
	args := []string{"-D", data, "-k", dir}
	for _, setting := range settings() {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command(postgres, args...)
	cmd.SysProcAttr, cmd.Dir = as, dir
	config, err := pgx.ParseConfig("user=postgres dbname=postgres host=" + dir)
	if err != nil {
		return nil, nil, err
	}
	p, err := server.Start(ctx, cmd, syscall.SIGINT, // fast shutdown
		func(ctx context.Context) error {
			conn, err := pgx.ConnectConfig(ctx, config)
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		})
	return p, config, err
}

func initdb(ctx context.Context, bin, dir, data string, as *syscall.SysProcAttr) error {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-A", "trust",
		"-U", "postgres", "--no-locale", "-E", "UTF8")
	cmd.SysProcAttr, cmd.Dir = as, dir
	text, err := cmd.CombinedOutput()
	if as != nil && errors.Is(err, os.ErrPermission) {
		return system.MissingError("the user postgres may not enter " + dir)
	}
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, text)
	}
	return nil
}

// Version implements [system.Versioned].
func (d *db) Version() string { return d.conn.PgConn().ParameterStatus("server_version") }

func (d *db) Put(ctx context.Context, b *record.Batch) error {
	_, err := d.conn.CopyFrom(ctx, pgx.Identifier{"r"}, sqltext.Columns(d.shape),
		pgx.CopyFromSlice(b.Len(), func(i int) ([]any, error) {
			return sqltext.Values(b, i, d.shape), nil
		}))
	return err
}

func (d *db) Settle(ctx context.Context) error {
	for _, text := range []string{
		"INSERT INTO series SELECT DISTINCT cid, mid, moid FROM r ON CONFLICT DO NOTHING",
		"VACUUM ANALYZE r", "ANALYZE series", "CHECKPOINT"} {
		if _, err := d.conn.Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (d *db) Ask(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	return dialect().Ask(ctx, d.sql, q, d.shape, take, numbered)
}

// numbered turns question marks into $1, $2 ...
func numbered(text string) string {
	var out strings.Builder
	n := 0
	for _, c := range text {
		if c != '?' {
			out.WriteRune(c)
			continue
		}
		n++
		fmt.Fprintf(&out, "$%d", n)
	}
	return out.String()
}

func (d *db) Close() error {
	var errs []error
	if d.sql != nil {
		errs = append(errs, d.sql.Close())
	}
	if d.conn != nil {
		errs = append(errs, d.conn.Close(context.Background()))
	}
	return errors.Join(append(errs, d.server.Close())...)
}
