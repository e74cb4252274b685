// Package postgres measures PostgreSQL in a cluster of its own: one heap table, btrees for devices,
// capture and arrival times.
package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pentad-db/pentad/bench/peers/sqltext"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const schema = `
CREATE TABLE r (cid int, mid bigint, moid int, cap bigint, acq bigint, val float8, status bigint);
CREATE INDEX ON r (mid, moid, cap);
CREATE INDEX ON r (cap, moid);
CREATE INDEX ON r (acq);`

// settings that an operator would choose for this machine; fsync and synchronous_commit stay on.
var settings = map[string]string{
	"shared_buffers": "4GB", "work_mem": "256MB", "maintenance_work_mem": "1GB",
	"max_wal_size": "8GB", "checkpoint_timeout": "30min", "effective_cache_size": "12GB",
	"random_page_cost": "1.1", "effective_io_concurrency": "200", "listen_addresses": "",
	"max_connections": "10",
}

// Kind returns PostgreSQL.
func Kind() system.Kind {
	return system.Kind{Name: "postgres", Durability: "COPY in a transaction per batch, fsync on",
		About: "heap table, btrees (mid, moid, cap), (cap, moid), (acq); 4 GB shared_buffers; " +
			"VACUUM ANALYZE after the load; binary rows through pgx over a socket",
		Open: open}
}

// binaries returns the folder of the newest installed server.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", system.MissingError("PostgreSQL is not installed; Debian's postgresql has it")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

type db struct {
	server *exec.Cmd
	conn   *pgx.Conn
	sql    *sql.DB
}

// attributes runs a command as the user postgres when this process is root, which the server
// refuses to be.
func attributes(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, system.MissingError("running as root, and there is no user postgres")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid),
			Gid: uint32(gid)}},
		nil
}

func open(ctx context.Context, dir string) (system.System, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	as, err := attributes(dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-A", "trust",
		"-U", "postgres", "--no-locale", "-E", "UTF8")
	initdb.SysProcAttr, initdb.Dir = as, dir
	text, err := initdb.CombinedOutput()
	if as != nil && errors.Is(err, os.ErrPermission) {
		return nil, system.MissingError("the user postgres may not enter " + dir)
	}
	if err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, text)
	}
	args := []string{"-D", data, "-k", dir}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	d := &db{server: exec.Command(filepath.Join(bin, "postgres"), args...)}
	d.server.SysProcAttr, d.server.Dir = as, dir
	var log bytes.Buffer
	d.server.Stderr = &log
	if err := d.server.Start(); err != nil {
		return nil, err
	}
	if err := d.connect(ctx, dir); err != nil {
		return nil, fmt.Errorf("%w; the server says %s", errors.Join(err, d.Close()), &log)
	}
	return d, nil
}

// connect waits until the server answers.
func (d *db) connect(ctx context.Context, dir string) error {
	config, err := pgx.ParseConfig("user=postgres dbname=postgres host=" + dir)
	if err != nil {
		return err
	}
	for range 100 {
		if d.conn, err = pgx.ConnectConfig(ctx, config); err == nil {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	d.sql = stdlib.OpenDB(*config)
	_, err = d.conn.Exec(ctx, schema)
	return err
}

func (d *db) Put(ctx context.Context, b *record.Batch) error {
	columns := []string{"cid", "mid", "moid", "cap", "acq", "val", "status"}
	_, err := d.conn.CopyFrom(ctx, pgx.Identifier{"r"}, columns, pgx.CopyFromSlice(b.Len(),
		func(i int) ([]any, error) {
			p := b.Payload(i)
			return []any{b.CID[i], b.MID[i], b.MOID[i], b.CapNs[i], b.AcqNs[i],
				math.Float64frombits(binary.LittleEndian.Uint64(p)),
				int64(binary.LittleEndian.Uint64(p[8:]))}, nil
		}))
	return err
}

func (d *db) Settle(ctx context.Context) error {
	for _, text := range []string{"VACUUM ANALYZE r", "CHECKPOINT"} {
		if _, err := d.conn.Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (d *db) Ask(
	ctx context.Context, q *record.Query, count bool, take func(b *record.Batch),
) (uint64, error) {
	where, args := sqltext.Where(q)
	where = numbered(where)
	if count {
		var rows uint64
		err := d.sql.QueryRowContext(ctx, "SELECT count(*) FROM r"+where, args...).Scan(&rows)
		return rows, err
	}
	text := "SELECT cid, mid, moid, cap, acq, val, status FROM r" + where
	if q.View == record.ViewLatest {
		text = "SELECT DISTINCT ON (cid, mid, moid, cap) cid, mid, moid, cap, acq, val, status " +
			"FROM r" + where + " ORDER BY cid, mid, moid, cap, acq DESC"
	}
	return sqltext.Rows(ctx, d.sql, text, args, take)
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
	errs = append(errs, d.server.Process.Signal(syscall.SIGINT)) // fast shutdown
	if err := d.server.Wait(); err != nil && !d.server.ProcessState.Exited() {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
