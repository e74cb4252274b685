package queryflags

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// computed says by which standard plugin to compute what people name in its place.
var computed = map[string]string{
	"mean": "stats, whose results have a mean", "avg": "stats, whose results have a mean",
	"average": "stats, whose results have a mean", "sum": "stats, whose results have a sum",
	"total": "stats, whose results have a sum", "min": "stats, whose results have a min",
	"max": "stats, whose results have a max", "minmax": "stats, whose results have min and max",
	"var": "stats, whose results have a variance", "variance": "stats, whose results have one",
	"std":    "stats, whose results have a variance, the square of it",
	"stdev":  "stats, whose results have a variance, the square of it",
	"stddev": "stats, whose results have a variance, the square of it",
	"median": "quantiles with q=0.5", "p50": "quantiles with q=0.5",
	"p90": "quantiles with q=0.9", "p95": "quantiles with q=0.95",
	"p99": "quantiles with q=0.99", "percentile": "quantiles, e.g. with q=0.9",
	"percentiles": "quantiles, e.g. with q=0.9", "last": "first-last", "first": "first-last",
	"open": "first-last", "close": "first-last", "rate": "rate-of-change",
	"derivative": "rate-of-change", "diff": "delta", "difference": "delta", "increase": "delta",
	"consumption": "delta", "unique": "distinct", "nunique": "distinct", "top": "top-k",
	"topk": "top-k", "resample": "downsample", "hist": "histogram",
}

// FindAggregate is [FindPlugin] for an aggregate: the error of an unknown one names the standard
// plugin that computes what its name says.
func FindAggregate(ctx context.Context, db *client.Client, ref string) (client.PluginInfo,
	*plugin.Doc, record.PluginCall, error) {
	info, doc, call, err := FindPlugin(ctx, db, ref)
	if name, params, ok := strings.Cut(ref, " "); ok && errors.As(err, new(unknownPlugin)) {
		err = fmt.Errorf("no plugin is named %q; parameters follow a comma: %s,%s", ref, name,
			strings.TrimSpace(params))
	}
	if by := computed[strings.ToLower(ref)]; by != "" && errors.As(err, new(unknownPlugin)) {
		err = fmt.Errorf("no plugin is named %q; use %s", ref, by)
	}
	return info, doc, call, err
}
