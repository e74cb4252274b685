package queryflags

import (
	"context"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// NoteDoubts names keys of a selector of the devices of a tenant that are nearly others, and those
// that no device has, as known before an acq; 0: now. It asks the node once for each key of an
// attribute, and is silent where that fails.
func NoteDoubts(ctx context.Context, a *cli.App, cid int32, selector string, asOfNs int64) {
	s, err := registry.ParseSelector(selector)
	if err != nil || a.Quiet {
		return
	}
	keys := s.Attributes()
	for _, doubt := range s.Doubts() {
		a.Note("--select: a condition on the attribute %s", doubt)
		keys = slices.DeleteFunc(keys, func(key string) bool {
			return strings.HasPrefix(doubt, key+";")
		})
	}
	if len(keys) == 0 {
		return
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return
	}
	defer db.Close()
	for _, key := range keys {
		if has, err := anyHas(ctx, db, cid, key, asOfNs); err == nil && !has {
			a.Note("--select: no device of tenant %d has the attribute %s", cid, key)
		}
	}
}

// anyHas reports whether a device has an attribute.
func anyHas(
	ctx context.Context, db *client.Client, cid int32, key string, asOfNs int64,
) (bool, error) {
	q := describedBy(registry.AnyValue(key))
	q.Limit, q.Box[record.CID] = 1, record.RangeSet{record.At(int64(cid))}
	if asOfNs != 0 {
		q.View, q.AsOfAcqNs = record.ViewAsOf, asOfNs
	}
	has := false
	_, err := db.Scan(ctx, q, func(*record.Batch) error {
		has = true
		return nil
	})
	return has, err
}

// describedBy returns a query for the descriptions of devices that a selector chooses.
func describedBy(selector string) *record.Query {
	q := &record.Query{View: record.ViewLatest, Last: 1, Select: selector, KeysOnly: true}
	q.Box[record.MOID] = record.RangeSet{record.At(record.DescriptionMOID)}
	return q
}
