package main

import (
	"testing"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

type groupSum struct {
	CID   int32
	CapNs int64
	sum   float64
}

// aggregate has the node run the stats plugin.
func aggregate(t *testing.T, db *client.Client, q *record.Query) []groupSum {
	t.Helper()
	groups, doc, err := queryflags.AskGroups(t.Context(), db, q, "stats", "type=f64")
	if err != nil {
		t.Fatal(err)
	}
	out := make([]groupSum, 0, len(groups))
	for _, g := range groups {
		values, err := doc.Render(g.Result)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if sum, ok := v.Value.(float64); ok && v.Name == "sum" {
				out = append(out, groupSum{g.CID, g.CapNs, sum})
			}
		}
	}
	return out
}
