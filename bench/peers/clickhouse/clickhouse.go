// Package clickhouse measures ClickHouse in a server of its own: one MergeTree, in the order of the
// key or of time, spoken to over HTTP in columns: format Native, as batches are, hands all rows of
// a table out in half of the time of RowBinary.
//
// It is written for the 18.16 that Debian has: no codecs of single columns, no fsync of inserts.
package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pentad-db/pentad/bench/peers/server"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// granularity is how many rows a mark of the index stands for. An answer reads whole granules of
// each range of the key: with 1024 instead of the usual 8192 short ranges (100 devices, a day) come
// in 0.7 of the time and long ones in the same; the marks of 20 M rows still are 2 MB.
const granularity = 1024

const schema = `CREATE TABLE IF NOT EXISTS r (cid Int32, mid Int64, moid Int32, cap Int64,
	acq Int64, val Float64%s) ENGINE = MergeTree ORDER BY (%s) SETTINGS index_granularity = %d`

// Kinds returns ClickHouse in the order of the key and in that of time.
func Kinds() []system.Kind {
	kind := func(name, order string) system.Kind {
		return system.Kind{Name: name,
			About: fmt.Sprintf("ClickHouse of Debian, 18.16 of 2018: one MergeTree ORDER BY "+
				"(%s), no partitions, LZ4, index_granularity %d, mark cache 1 GB; OPTIMIZE FINAL "+
				"after the load; columns (format Native) over HTTP", order, granularity),
			Durability: system.Durability{Class: system.Written,
				About: "a part per batch, not synced: this server cannot"},
			Open: func(ctx context.Context, dir string, shape system.Shape) (system.System, error) {
				return open(ctx, dir, order, shape)
			}}
	}
	return []system.Kind{
		kind("clickhouse", "cid, mid, moid, cap, acq"),
		kind("clickhouse-time", "moid, cap, cid, mid, acq"),
	}
}

type db struct {
	server  *server.Process
	http    *client
	shape   system.Shape
	version string
	block   []byte // of the last Put, reused
}

func open(
	ctx context.Context, dir, order string, shape system.Shape,
) (system.System, error) {
	binary, err := server.Find("/usr/sbin/clickhouse-server", "Debian's clickhouse-server has it")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	port, err := server.FreePort()
	if err != nil {
		return nil, err
	}
	text, err := config(dir, port)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "config.xml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "--config-file="+file)
	cmd.Dir = dir
	d := &db{http: newClient(port), shape: shape}
	d.server, err = server.Start(ctx, cmd, syscall.SIGTERM,
		func(ctx context.Context) (err error) {
			d.version, err = d.http.text(ctx, "SELECT version()", nil)
			return err
		})
	if err != nil {
		return nil, err
	}
	status := ""
	if shape.Status() {
		status = ", status Int64"
	}
	create := fmt.Sprintf(schema, status, order, granularity)
	if _, err := d.http.text(ctx, create, nil); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Version returns the version of the server and its year, which the first number is since 2018:
// Debian's is years old.
func (d *db) Version() string {
	year, _, _ := strings.Cut(d.version, ".")
	return d.version + ", of 20" + year
}

func (d *db) Put(ctx context.Context, b *record.Batch) error {
	d.block = appendBlock(d.block[:0], b, d.shape)
	_, err := d.http.text(ctx, "INSERT INTO r FORMAT Native", bytes.NewReader(d.block))
	return err
}

// settlePause lies between looks at the parts.
const settlePause = 200 * time.Millisecond

// Settle merges all parts into one. OPTIMIZE does nothing while parts of the table are being
// merged, hence the loop. A table that is attached removes the parts that were merged, so that they
// do not weigh; the server would do so ten seconds later.
func (d *db) Settle(ctx context.Context) error {
	for {
		says, err := d.http.text(ctx, "SELECT countIf(active), count() FROM system.parts "+
			"WHERE database = 'default' AND table = 'r'", nil)
		if err != nil {
			return err
		}
		var active, parts int
		if _, err := fmt.Sscan(says, &active, &parts); err != nil {
			return fmt.Errorf("count parts in %q: %w", says, err)
		}
		var texts []string
		switch {
		case active > 1:
			texts = []string{"OPTIMIZE TABLE r FINAL"}
		case parts > active:
			texts = []string{"DETACH TABLE r", "ATTACH TABLE r"}
		default:
			return nil
		}
		for _, text := range texts {
			if _, err := d.http.text(ctx, text, nil); err != nil {
				return err
			}
		}
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *db) Close() error {
	d.http.CloseIdleConnections() // the server waits for them
	return d.server.Close()
}
