// Package redis measures Redis in a process of its own: a sorted set per series, scored by the time
// of capture.
package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pentad-db/pentad/bench/peers/server"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	socketName     = "redis.sock"
	maxSocketBytes = 107 // of the path of a unix socket, sun_path less its zero
	pollPause      = 20 * time.Millisecond

	// seriesKey is the sorted set of all series, by mid, cid, moid.
	seriesKey = "series"
	msNs      = int64(time.Millisecond)
)

// Kinds returns Redis.
func Kinds() []system.Kind {
	return []system.Kind{{Name: "redis",
		About: "everything in memory: a sorted set per series, score cap in ms, member cap, acq " +
			"and payload; a sorted set of all series by mid; AOF, no snapshots, rewritten once " +
			"after the load; pipelines over a unix socket, versions and other filters in the " +
			"client; rows of at most 10,000 series",
		Durability: system.Durability{Class: system.Synced,
			About: "MULTI/EXEC per batch, appendfsync always"},
		Open: open}}
}

type db struct {
	server *server.Process
	client *redis.Client
	known  map[record.Key]struct{} // series that this process has put

	version string
}

// Version implements [system.Versioned].
func (d *db) Version() string { return d.version }

func open(ctx context.Context, dir string, _ system.Shape) (system.System, error) {
	path, err := server.Find("/usr/bin/redis-server", "Debian's redis-server has it")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, socketName)
	if len(socket) > maxSocketBytes {
		return nil, system.MissingError(fmt.Sprintf("%s is too long for a unix socket: %d bytes, "+
			"at most %d", socket, len(socket), maxSocketBytes))
	}
	cmd := exec.Command(path, "--dir", dir, "--unixsocket", socket, "--port", "0",
		"--appendonly", "yes", "--appendfsync", "always", "--save", "",
		"--auto-aof-rewrite-percentage", "0", "--daemonize", "no")
	cmd.Dir = dir
	if err := os.RemoveAll(socket); err != nil { // what a crash left answers no one
		return nil, err
	}
	d := &db{known: map[record.Key]struct{}{}}
	d.server, err = server.Start(ctx, cmd, syscall.SIGTERM, func(ctx context.Context) error {
		return d.connect(ctx, socket)
	})
	if err != nil {
		return nil, err
	}
	if err := d.loaded(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	info, err := d.client.InfoMap(ctx, "server").Result()
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.version = info["Server"]["redis_version"]
	return d, nil
}

// connect makes a client when there is a socket: one that has failed to dial waits for a second.
func (d *db) connect(ctx context.Context, socket string) error {
	if _, err := os.Stat(socket); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Protocol: 2,
		DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, PoolSize: 1, PipelinePoolSize: -1,
		ReadTimeout: -1, WriteTimeout: -1})
	if err := client.Ping(ctx).Err(); err != nil && !redis.IsLoadingError(err) {
		return errors.Join(err, client.Close())
	}
	d.client = client
	return nil
}

// loaded waits until the server has read its files.
func (d *db) loaded(ctx context.Context) error {
	for {
		err := d.client.Ping(ctx).Err()
		if !redis.IsLoadingError(err) {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(pollPause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Put puts a batch in one transaction: outside of one, Redis would sync after every 16 KB that it
// reads.
func (d *db) Put(ctx context.Context, b *record.Batch) error {
	rows := make([]int, b.Len())
	for i := range rows {
		rows[i] = i
	}
	slices.SortFunc(rows, func(i, j int) int { return b.Key(i).Compare(b.Key(j)) })
	var fresh []redis.Z
	_, err := d.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for len(rows) > 0 {
			series := seriesOf(b.Key(rows[0]))
			var members []redis.Z
			for len(rows) > 0 && seriesOf(b.Key(rows[0])) == series {
				k := b.Key(rows[0])
				members = append(members, redis.Z{Score: float64(floorMs(k.CapNs)),
					Member: appendMember(nil, k, b.Payload(rows[0]))})
				rows = rows[1:]
			}
			p.ZAdd(ctx, name(series), members...)
			if _, ok := d.known[series]; !ok {
				d.known[series] = struct{}{}
				fresh = append(fresh, redis.Z{Member: appendSeries(nil, series)})
			}
		}
		if len(fresh) > 0 {
			p.ZAdd(ctx, seriesKey, fresh...)
		}
		return nil
	})
	if err != nil {
		clear(d.known) // some may not be stored
	}
	return err
}

// Settle rewrites the AOF, as Redis would do from time to time.
func (d *db) Settle(ctx context.Context) error {
	if err := d.client.BgRewriteAOF(ctx).Err(); err != nil {
		return err
	}
	for {
		info, err := d.client.Info(ctx, "persistence").Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "aof_rewrite_in_progress:1") &&
			!strings.Contains(info, "aof_rewrite_scheduled:1") {
			if !strings.Contains(info, "aof_last_bgrewrite_status:ok") {
				return errors.New("redis: rewriting the AOF: " + info)
			}
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func (d *db) Close() error { return errors.Join(d.client.Close(), d.server.Close()) }

func seriesOf(k record.Key) record.Key {
	return record.Key{CID: k.CID, MID: k.MID, MOID: k.MOID}
}

// name is the key of the sorted set of a series.
func name(k record.Key) string { return fmt.Sprintf("s:%d:%d:%d", k.CID, k.MID, k.MOID) }

// floorMs rounds down, also before 1970; the result is exact as a score.
func floorMs(ns int64) int64 {
	ms := ns / msNs
	if ns%msNs < 0 {
		ms--
	}
	return ms
}

// appendMember appends a member, so that members of the same score sort by cap, then by acq.
func appendMember(dst []byte, k record.Key, payload []byte) []byte {
	dst = appendOrdered(dst, k.CapNs)
	dst = appendOrdered(dst, k.AcqNs)
	return append(dst, payload...)
}

// parseMember returns the times of a member and its payload.
func parseMember(src []byte) (capNs, acqNs int64, payload []byte, err error) {
	if len(src) < 16 {
		return 0, 0, nil, fmt.Errorf("redis: a member of %d bytes", len(src))
	}
	return parseOrdered(src), parseOrdered(src[8:]), src[16:], nil
}

func appendSeries(dst []byte, k record.Key) []byte {
	dst = appendOrdered(dst, k.MID)
	dst = binary.BigEndian.AppendUint32(dst, uint32(k.CID))
	return binary.BigEndian.AppendUint32(dst, uint32(k.MOID))
}

func parseSeries(src []byte) (record.Key, error) {
	if len(src) != 16 {
		return record.Key{}, fmt.Errorf("redis: a series of %d bytes", len(src))
	}
	return record.Key{MID: parseOrdered(src), CID: int32(binary.BigEndian.Uint32(src[8:])),
		MOID: int32(binary.BigEndian.Uint32(src[12:]))}, nil
}

// appendOrdered appends a number so that bytes sort as numbers do.
func appendOrdered(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^1<<63)
}

func parseOrdered(src []byte) int64 { return int64(binary.BigEndian.Uint64(src) ^ 1<<63) }
