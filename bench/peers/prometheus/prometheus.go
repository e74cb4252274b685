// Package prometheus measures the storage of Prometheus, its package tsdb, as a library.
//
// Prometheus keeps a number per series and millisecond, nothing else; what does not fit into that
// is refused rather than bent.
package prometheus

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/compression"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	nameLabel = "__name__"
	metric    = "r"
	msNs      = int64(time.Millisecond)

	dayMs = int64(24 * time.Hour / time.Millisecond)
	// lateMs is how late a sample may come: anything a workload may hold.
	lateMs = 10 * 365 * dayMs
	// maxBlockMs is that of a Prometheus with a retention of 310 days or more.
	maxBlockMs = 31 * dayMs
)

// Kinds returns Prometheus.
func Kinds() []system.Kind {
	return []system.Kind{{Name: "prometheus", Embedded: true,
		Module: "github.com/prometheus/prometheus",
		About: "labels cid, mid, moid; a float64 per series and millisecond; no acq and so no " +
			"rows: counts and groups only. Blocks of 2 hours to 31 days, out-of-order samples " +
			"taken, no retention; compacted after the load, not beside it, which loses samples; " +
			"the newest 2 to 3 hours stay in the head. Samples through a Querier, counted and " +
			"grouped by the client, without PromQL",
		Durability: system.Durability{Class: system.Written,
			About: "WAL written per batch, snappy, synced per segment only"},
		Open: open}}
}

type db struct {
	*tsdb.DB
	series map[record.Key]series // what was put by this process, as scrapers remember it
}

// series is how a series is called in appends.
type series struct {
	ref    storage.SeriesRef
	labels labels.Labels
}

func open(_ context.Context, dir string, shape system.Shape) (system.System, error) {
	if shape.Status() {
		return nil, system.UnsupportedError("a sample is a number, without a status word")
	}
	if shape.Versions {
		return nil, system.UnsupportedError("one sample per series and moment: no corrections")
	}
	opt := tsdb.DefaultOptions()
	opt.RetentionDuration = 0 // none: else blocks that are 15 days older than the newest go
	opt.MaxBlockDuration = maxBlockMs
	opt.WALCompression = compression.Snappy
	opt.OutOfOrderTimeWindow = lateMs
	d, err := tsdb.Open(dir, nil, nil, opt, nil)
	if err != nil {
		return nil, err
	}
	// v0.315.0 loses chunks of 32 out-of-order samples that are full while it compacts: of a burst
	// of days of meters 3 %. Settle compacts, when nothing is appended.
	d.DisableCompactions()
	return &db{DB: d, series: map[record.Key]series{}}, nil
}

func (d *db) Put(ctx context.Context, b *record.Batch) error {
	for _, capNs := range b.CapNs {
		if capNs%msNs != 0 {
			return system.UnsupportedError("times of capture that are not whole milliseconds")
		}
	}
	app := d.AppenderV2(ctx)
	for i := range b.Len() {
		k := b.Key(i)
		id := record.Key{CID: k.CID, MID: k.MID, MOID: k.MOID}
		s, ok := d.series[id]
		if !ok {
			s.labels = labelsOf(k)
		}
		ref, err := app.Append(s.ref, s.labels, 0, k.CapNs/msNs, system.Number(b.Payload(i)), nil,
			nil, storage.AppendV2Options{})
		if err != nil {
			return errors.Join(err, app.Rollback())
		}
		if ref != s.ref {
			s.ref = ref
			d.series[id] = s
		}
	}
	return app.Commit()
}

// labelsOf are in the order of their names.
func labelsOf(k record.Key) labels.Labels {
	return labels.FromStrings(nameLabel, metric,
		record.CID.String(), strconv.FormatInt(int64(k.CID), 10),
		record.MID.String(), strconv.FormatInt(k.MID, 10),
		record.MOID.String(), strconv.FormatInt(int64(k.MOID), 10))
}

// Settle makes blocks of all but the head, and merges them.
func (d *db) Settle(ctx context.Context) error {
	if err := d.CompactOOOHead(ctx); err != nil {
		return err
	}
	return d.Compact(ctx)
}
