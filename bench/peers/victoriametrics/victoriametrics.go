// Package victoriametrics measures VictoriaMetrics in a server of its own: one metric r with the
// labels cid, mid and moid.
//
// VictoriaMetrics keeps a number per series and millisecond, with twelve digits; what does not fit
// into that is refused rather than bent. Rows come without an acq.
package victoriametrics

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/pentad-db/pentad/bench/peers/server"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	metric = "r"
	msNs   = int64(time.Millisecond)
	// maxDigits is how many of a number are kept: it becomes a decimal on the way in.
	maxDigits = 12
)

// Kinds returns VictoriaMetrics.
func Kinds() []system.Kind {
	return []system.Kind{{Name: "victoriametrics", NoAcq: true,
		About: "single node: metric r, labels cid, mid, moid, a number per series and " +
			"millisecond; no acq. Influx line protocol in, a line per record; MetricsQL and " +
			"/api/v1/export out, JSON, over HTTP; no cache of results; flushed and merged fully " +
			"after the load. Ranges of labels by regular expressions; a last reading is two " +
			"rollups, its time and its number; readings above a number are sieved by the client",
		Durability: system.Durability{Class: system.Buffered,
			About: "in memory; written and synced within 5 s, without a log"},
		Open: open}}
}

type db struct {
	server  *server.Process
	http    *client
	shape   system.Shape
	version string
	lines   []byte // of the last Put, reused
}

func open(ctx context.Context, dir string, shape system.Shape) (system.System, error) {
	if shape.Status() {
		return nil, system.UnsupportedError("a sample is a number, without a status word")
	}
	if shape.Versions {
		return nil, system.UnsupportedError("one sample per series and moment: no corrections")
	}
	binary, err := server.Find("/usr/local/bin/victoria-metrics", "make bench-peers installs it")
	if err != nil {
		return nil, err
	}
	built, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("version of %s: %w", binary, err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	port, err := server.FreePort()
	if err != nil {
		return nil, err
	}
	// No limits to questions, readings of any age, no cache of results, and no looking at itself.
	cmd := exec.Command(binary, "-storageDataPath="+filepath.Join(dir, "data"),
		fmt.Sprintf("-httpListenAddr=127.0.0.1:%d", port), "-loggerLevel=ERROR",
		"-retentionPeriod=100y", "-search.disableCache", "-search.maxQueryDuration=1h",
		"-search.maxQueryLen=64MB", "-search.maxPointsPerTimeseries=100000000",
		"-search.maxUniqueTimeseries=100000000", "-search.maxSamplesPerQuery=100000000000",
		"-search.maxSamplesPerSeries=1000000000", "-influxSkipSingleField")
	cmd.Dir = dir
	d := &db{http: newClient(port), shape: shape, version: built.Main.Version}
	d.server, err = server.Start(ctx, cmd, syscall.SIGINT, func(ctx context.Context) error {
		_, err := d.http.get(ctx, "/health", nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Version returns the version of the server.
func (d *db) Version() string { return d.version }

func (d *db) Put(ctx context.Context, b *record.Batch) (err error) {
	if d.lines, err = appendLines(d.lines[:0], b); err != nil {
		return err
	}
	return d.http.post(ctx, "/write", bytes.NewReader(d.lines))
}

// appendLines appends a batch in line protocol.
func appendLines(dst []byte, b *record.Batch) ([]byte, error) {
	for i, capNs := range b.CapNs {
		if capNs%msNs != 0 {
			return nil, system.UnsupportedError("times of capture that are not whole milliseconds")
		}
		dst = strconv.AppendInt(append(dst, metric+",cid="...), int64(b.CID[i]), 10)
		dst = strconv.AppendInt(append(dst, ",mid="...), b.MID[i], 10)
		dst = strconv.AppendInt(append(dst, ",moid="...), int64(b.MOID[i]), 10)
		dst = append(dst, " v="...)
		at := len(dst)
		dst = strconv.AppendFloat(dst, system.Number(b.Payload(i)), 'f', -1, 64)
		if tooLong(dst[at:]) {
			return nil, system.UnsupportedError(fmt.Sprintf("numbers of more than %d digits",
				maxDigits))
		}
		dst = strconv.AppendInt(append(dst, ' '), capNs, 10)
		dst = append(dst, '\n')
	}
	return dst, nil
}

// tooLong reports whether a number would be rounded.
func tooLong(number []byte) bool {
	if len(number) <= maxDigits {
		return false
	}
	count := 0
	for _, c := range bytes.Trim(number, "-0.") {
		if c != '.' {
			count++
		}
	}
	return count > maxDigits
}

func (d *db) Close() error {
	d.http.CloseIdleConnections()
	return d.server.Close()
}
