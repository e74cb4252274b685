package queryflags

import (
	"context"
	"math"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/sdk/record"
)

// NoteDoubts names keys of a selector of the devices of a tenant that are nearly others, and those
// that no device has, as known before an acq; 0: now. It asks the node to explain a query that
// finds nothing, and is silent where that fails.
func NoteDoubts(ctx context.Context, a *cli.App, cid int32, selector string, asOfNs int64) {
	if a.Quiet {
		return
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return
	}
	defer db.Close()
	q := &record.Query{View: record.ViewLatest, Select: selector}
	if asOfNs != 0 {
		q.View, q.AsOfAcqNs = record.ViewAsOf, asOfNs
	}
	q.Box[record.CID] = record.RangeSet{record.At(int64(cid))}
	q.Box[record.MOID] = record.RangeSet{record.At(record.DescriptionMOID)}
	q.Box[record.Cap] = record.RangeSet{record.At(math.MinInt64)}
	x, err := db.Explain(ctx, q)
	if err != nil {
		return
	}
	for _, note := range x.Notes {
		a.Note("--select: %s", note)
	}
}
