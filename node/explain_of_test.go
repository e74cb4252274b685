package node

import (
	"testing"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// explainOf compares explanations of versions and of diffs with their answers.
func (w *keyed) explainOf(c *client.Client) {
	w.Helper()
	c = c.Linearizable()
	for range 15 {
		q := &record.Query{Box: record.Box{record.CID: {record.At(townCID)}}}
		switch w.rng.IntN(3) {
		case 0:
			q.Box[record.MID] = record.RangeSet{{From: 0, To: 100 * 256}}
		case 1:
			q.Select = "type=meter or owner=2"
		}
		versions := uint64(0)
		end, err := c.VersionBatches(w.Context(), &wire.Box{Box: q.Box, Select: q.Select},
			func(some []record.Version) error {
				versions += uint64(len(some))
				return nil
			})
		x, explainErr := c.ExplainOf(w.Context(), q, client.ExplainOf{Of: api.ExplainVersions})
		if err != nil || explainErr != nil || !end.Complete || x.Found != versions ||
			(q.Select != "") != (x.Devices > 0) || x.Shards == 0 {
			w.Fatalf("%q: %d versions; %+v; %v, %v", q.Select, versions, x, err, explainErr)
		}
		of := client.ExplainOf{Of: api.ExplainDiff, ToNs: record.Acq.Max()}
		if i := w.rng.IntN(len(w.before)); i > 0 {
			of.FromNs = w.before[i-1].acqNs
			if w.rng.IntN(2) == 0 {
				of.ToNs = w.before[i].acqNs
			}
		}
		differences := uint64(0)
		_, err = c.DiffBatches(w.Context(), &record.Diff{Box: q.Box, Select: q.Select,
			FromNs: of.FromNs, ToNs: of.ToNs}, func(d *record.Differences) error {
			differences += uint64(d.Len())
			return nil
		})
		x, explainErr = c.ExplainOf(w.Context(), q, of)
		if err != nil || explainErr != nil || x.Found != differences || x.TookNs == 0 ||
			(q.Select != "") != (x.SelectNs > 0) {
			w.Fatalf("%q, %+v: %d differences; %+v; %v, %v", q.Select, of, differences, x, err,
				explainErr)
		}
	}
}

// explainChanges compares explanations of feeds with the slices that they read.
func (w *keyed) explainChanges(c *client.Client, s *store.Store) {
	w.Helper()
	for _, selector := range []string{"", "type=meter or owner=2"} {
		q := &record.Query{Select: selector, Box: record.Box{record.CID: {record.At(townCID)}}}
		if err := q.Normalize(); err != nil { // as of the client's, without reserved moids
			w.Fatal(err)
		}
		of := client.ExplainOf{Of: api.ExplainChanges, FromNs: record.Acq.Min()}
		for i := range w.before {
			f, err := s.FeedSelected(q.Box, selector, false, of.FromNs)
			if err != nil {
				w.Fatal(err)
			}
			x, err := c.ExplainOf(w.Context(), q, of)
			if err != nil {
				w.Fatal(err)
			}
			var slice store.Slice
			if _, err := f.Read(w.Context(), &slice); err != nil {
				w.Fatal(err)
			}
			f.Close()
			if x.Found != uint64(slice.Rows.Len()) || (selector != "") != (x.Devices > 0) ||
				x.Examined+x.HeadFound < x.Found {
				w.Fatalf("%q from %d: %d rows; %+v", selector, of.FromNs, slice.Rows.Len(), x)
			}
			of.FromNs = w.before[i].acqNs
		}
	}
}

// TestExplainOf explains versions, diffs and feeds as they are answered.
func TestExplainOf(t *testing.T) {
	n := openTest(t, Options{})
	w := newKeyed(t)
	for range 3 {
		w.change(dial(t, n), 300)
		w.explainOf(dial(t, n))
		if err := n.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.explainOf(dial(t, n))
	w.explainChanges(dial(t, n), n.store)
	answers(t, n, "/v1/explain?cid=9&of=diff", "", "name the time from which on")
	answers(t, n, "/v1/explain?cid=9&of=diff&from=0", "", `"rows_found":`)
	answers(t, n, "/v1/explain?cid=9&of=changes&select=type%3Dmeter", "", `"devices":`)
	answers(t, n, "/v1/explain?cid=9&of=changes&last=1", "", "is not a part of changes")
	answers(t, n, "/v1/explain?cid=9&since=1", "", "since for of=changes")
	answers(t, n, "/v1/explain?cid=9&of=all", "", "is not versions, diff or changes")
}

func TestExplainOfInACluster(t *testing.T) {
	c := openTogether(t, 3, 2)
	w := newKeyed(t)
	w.change(dial(t, c.nodes[0]), 300)
	w.change(dial(t, c.nodes[1]), 100)
	w.explainOf(dial(t, c.nodes[2]))
}
