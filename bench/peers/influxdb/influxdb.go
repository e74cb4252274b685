// Package influxdb measures InfluxDB 1 in a server of its own: one measurement r with the tags cid,
// mid and moid and the fields val, status and acq; the time is cap.
//
// A point is its tags and its time: of the versions of a reading only the newest is kept.
package influxdb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/pentad-db/pentad/bench/peers/server"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// Kinds returns InfluxDB.
func Kinds() []system.Kind {
	return []system.Kind{{Name: "influxdb",
		About: "InfluxDB 1: measurement r, tags cid, mid, moid, fields val, status, acq, time " +
			"cap; index tsi1, 4 GB of cache, snapshots of 256 MB; compacted fully after the " +
			"load; ranges of tags by regular expressions, of acq by conditions on the field; " +
			"line protocol in, msgpack out, over HTTP. Keeps only the newest version of a reading",
		Durability: system.Durability{Class: system.Synced,
			About: "WAL synced per write, one write per batch"},
		Open: open}}
}

// Of shards, which are of equal time: a week as by default, or as long as it takes to have few.
const (
	shardTime = 7 * 24 * time.Hour
	fewShards = 16
)

type db struct {
	server  *server.Process
	http    *client
	shape   system.Shape
	dir     string
	version string
	lines   []byte // of the last Put, reused
}

func open(ctx context.Context, dir string, shape system.Shape) (system.System, error) {
	binary, err := server.Find("/usr/bin/influxd", "Debian's influxdb has it")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	_, err = os.Stat(filepath.Join(dir, dataFolder, database)) // of the first Put
	fresh := errors.Is(err, os.ErrNotExist)
	port, err := server.FreePort()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "influxdb.conf")
	if err := os.WriteFile(file, config(dir, port), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "-config", file)
	cmd.Dir = dir
	d := &db{http: newClient(port), shape: shape, dir: dir}
	d.server, err = server.Start(ctx, cmd, syscall.SIGTERM,
		func(ctx context.Context) (err error) {
			d.version, err = d.http.ping(ctx)
			return err
		})
	if err != nil {
		return nil, err
	}
	if !fresh {
		return d, nil
	}
	extent := shape.Extent[record.Cap]
	shard := max(shardTime, (time.Duration(extent.To-extent.From) / fewShards).Round(time.Hour))
	create := fmt.Sprintf("CREATE DATABASE %s WITH DURATION INF REPLICATION 1 SHARD DURATION %dh "+
		"NAME %s", database, int(shard.Hours()), database)
	if err := d.http.run(ctx, create); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Version returns the version of the server.
func (d *db) Version() string { return d.version }

func (d *db) Put(ctx context.Context, b *record.Batch) error {
	d.lines = appendLines(d.lines[:0], b, d.shape)
	return d.http.write(ctx, bytes.NewReader(d.lines))
}

// appendLines appends a batch, which is stamped, in line protocol.
func appendLines(dst []byte, b *record.Batch, shape system.Shape) []byte {
	for i := range b.Len() {
		p := b.Payload(i)
		dst = strconv.AppendInt(append(dst, "r,cid="...), int64(b.CID[i]), 10)
		dst = strconv.AppendInt(append(dst, ",mid="...), b.MID[i], 10)
		dst = strconv.AppendInt(append(dst, ",moid="...), int64(b.MOID[i]), 10)
		dst = strconv.AppendFloat(append(dst, " val="...), system.Number(p), 'g', -1, 64)
		if shape.Status() {
			word := binary.LittleEndian.Uint64(p[system.NumberBytes:])
			dst = strconv.AppendInt(append(dst, ",status="...), int64(word), 10)
			dst = append(dst, 'i')
		}
		dst = strconv.AppendInt(append(dst, ",acq="...), b.AcqNs[i], 10)
		dst = strconv.AppendInt(append(dst, "i "...), b.CapNs[i], 10)
		dst = append(dst, '\n')
	}
	return dst
}

func (d *db) Close() error {
	d.http.CloseIdleConnections()
	return d.server.Close()
}
