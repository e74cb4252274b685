package soak

import (
	"context"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func smallPaths(cid int32, mid int64) []string {
	return []string{
		fmt.Sprintf("/v1/records?cid=%d&mid=%d&moid=1", cid, mid),
		fmt.Sprintf("/v1/records?cid=%d&mid=%d&cap=now-1m", cid, mid),
		fmt.Sprintf("/v1/records?cid=%d&moid=2&acq=now-5s", cid),
		fmt.Sprintf("/v1/records?cid=%d&mid=%d&order=acq", cid, mid),
		fmt.Sprintf("/v1/records?cid=%d&mid=%d&filter=threshold&filter_params=op=ge,value=50",
			cid, mid),
		fmt.Sprintf("/v1/latest?cid=%d&mid=%d", cid, mid),
		fmt.Sprintf("/v1/latest?cid=%d&mid=%d&last=1", cid, mid),
		fmt.Sprintf("/v1/asof?cid=%d&mid=%d&at=now-30s", cid, mid),
		fmt.Sprintf("/v1/versions?cid=%d&mid=%d&moid=1", cid, mid),
		fmt.Sprintf("/v1/count?cid=%d&mid=%d", cid, mid),
		fmt.Sprintf("/v1/explain?cid=%d&mid=%d", cid, mid),
		"/v1/horizon", "/v1/plugins", "/v1/failures", "/v1/quantities",
	}
}

func aggregatePaths(cid int32, mid int64) (paths []string) {
	for _, name := range []string{"count", "stats", "first-last", "quantiles", "outliers", "top-k",
		"distinct", "downsample", "rate-of-change", "delta"} {
		paths = append(paths, fmt.Sprintf("/v1/plugins/%s/run?cid=%d&mid=%d&group=moid&view=latest",
			name, cid, mid))
	}
	return append(paths,
		fmt.Sprintf("/v1/windows?cid=%d&mid=%d&every=1h&agg=stats&group=moid", cid, mid),
		fmt.Sprintf("/v1/windows?cid=%d&moid=1&every=1d&tz=Europe/Berlin&agg=quantiles", cid),
		fmt.Sprintf("/v1/plugins/stats/run?cid=%d&group=mid", cid),
		fmt.Sprintf("/v1/plugins/stats/run?cid=%d&fresh=1", cid))
}

func longPaths(cid int32, _ int64) []string {
	return []string{
		fmt.Sprintf("/v1/records?cid=%d&moid=1", cid),
		fmt.Sprintf("/v1/records?cid=%d&order=key&keys=1", cid),
		fmt.Sprintf("/v1/latest?cid=%d&moid=1", cid),
		fmt.Sprintf("/v1/windows?cid=%d&every=1d&agg=stats&group=mid", cid),
		fmt.Sprintf("/v1/changes?cid=%d&since=now-20s", cid),
		"/v1/plugins/stats/run?group=cid",
	}
}

// asks asks one of several questions over HTTP, about a device where it is about one.
func (s *Soak) asks(paths func(cid int32, mid int64) []string) begin {
	return func(w *worker) (step, end act) {
		return func(ctx context.Context) error {
			all := paths(s.anyTenant(w), w.random.Int64N(loadDevices))
			return s.get(ctx, all[w.random.IntN(len(all))])
		}, nil
	}
}

// frames asks what clients ask in frames.
func (s *Soak) frames(w *worker) (step, end act) {
	asks := []func(context.Context, record.Box) error{
		func(ctx context.Context, box record.Box) error {
			_, err := w.db.Explain(ctx, &record.Query{Box: box, View: record.ViewLatest})
			return err
		},
		func(ctx context.Context, box record.Box) error {
			now, err := w.db.Horizon(ctx, nil)
			if err != nil {
				return err
			}
			_, err = w.db.DiffBatches(ctx, &record.Diff{Box: box, FromNs: now - minute/4,
				ToNs: now}, func(*record.Differences) error { return nil })
			return err
		},
		func(ctx context.Context, box record.Box) error {
			_, err := w.db.VersionBatches(ctx, &wire.Box{Box: box},
				func([]record.Version) error { return nil })
			return err
		},
		func(ctx context.Context, box record.Box) error {
			_, err := w.db.Scan(ctx, &record.Query{Box: box, View: record.ViewLatest, Last: 1,
				Order: record.OrderKey}, func(*record.Batch) error { return nil })
			return err
		},
		func(ctx context.Context, box record.Box) error {
			_, err := w.db.Scan(ctx, &record.Query{Box: box}, func(*record.Batch) error {
				return errEnough
			})
			if errors.Is(err, errEnough) { // the rest of the answer is not read
				return nil
			}
			return err
		},
	}
	return func(ctx context.Context) error {
		box := boxOf(s.anyTenant(w))
		from := w.random.Int64N(loadDevices)
		box[record.MID] = record.RangeSet{{From: from, To: from + 1 + w.random.Int64N(10)}}
		return asks[w.random.IntN(len(asks))](ctx, box)
	}, nil
}

var errEnough = errors.New("enough")
