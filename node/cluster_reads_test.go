package node

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestReadsAfterWrites: what was acknowledged by one node is seen by every other one that is asked
// to read so, also while a node is lost; and in all kinds of queries after the acq of a put. Names
// that are given to devices through all nodes rely on it.
func TestReadsAfterWrites(t *testing.T) {
	c := openTogether(t, 3, 4)
	c.until("all replicas are proved before anybody asks them", c.proved)
	live := c.nodes
	devices := nameAtOnce(t, live)
	ask := func(what string, at *client.Client, want uint64) {
		t.Helper()
		var got uint64
		c.until("a query is answered", func() bool {
			count, _, err := at.Count(t.Context(), &record.Query{})
			e := new(wire.Error) // or a client that was sent away has tried the node that is lost
			if err != nil && !errors.Is(err, syscall.ECONNREFUSED) &&
				(!errors.As(err, &e) || !e.Kind.Temporary()) {
				t.Error(err)
			}
			got = count
			return err == nil || t.Failed()
		})
		if got != want {
			t.Fatalf("%s: %d records, want %d", what, got, want)
		}
	}
	rows := uint64(0)
	for i := range fewer(60) {
		res := c.put(live[rand.IntN(len(live))], readings(int64(i)*50, 50), store.WriterSeq{})
		rows += 50
		at := dial(t, live[rand.IntN(len(live))])
		ask("linearizable", at.Linearizable(), rows)
		if i%10 == 0 {
			c.asksAll(dial(t, live[i/10%len(live)]).After(res.LastAcqNs), rows)
		}
		if i == fewer(60)/2 {
			c.stop(0)
			live = live[1:]
		}
	}
	checkDevices(t, dial(t, live[0]), devices)
}

// TestHorizonAfterWrites: a linearizable horizon is above what any node has acknowledged, also of
// groups that are written to less; so an export right after a put has it.
func TestHorizonAfterWrites(t *testing.T) {
	c := openTogether(t, 3, 4)
	c.until("all replicas are proved before anybody asks them", c.proved)
	for i := range fewer(30) {
		one := readings(int64(i)*50, 1) // in one group
		res := c.put(c.nodes[rand.IntN(3)], one, store.WriterSeq{})
		at := dial(t, c.nodes[rand.IntN(3)])
		horizon, err := at.Linearizable().Horizon(t.Context(), nil)
		if err != nil || horizon <= res.LastAcqNs {
			t.Fatalf("horizon %d after a put at %d: %v", horizon, res.LastAcqNs, err)
		}
		n, end, err := at.After(horizon-1).Count(t.Context(), &record.Query{
			View: record.ViewAsOf, AsOfAcqNs: horizon})
		if err != nil || n != uint64(i+1) || end.HorizonNs < horizon {
			t.Fatalf("%d records below %d, want %d: %+v, %v", n, horizon, i+1, end, err)
		}
	}
}

// proved reports whether each node has proved its replicas of all groups.
func (c *nodesTogether) proved() bool {
	for _, n := range c.nodes {
		if at := n.engine.Reach(); at.Proved < at.Groups {
			return false
		}
	}
	return true
}

// asksAll asks every kind of query for what there is.
func (c *nodesTogether) asksAll(at *client.Client, want uint64) {
	c.Helper()
	ctx := c.Context()
	for what, ask := range map[string]func() (uint64, error){
		"rows": func() (rows uint64, err error) {
			_, err = at.Scan(ctx, &record.Query{}, func(b *record.Batch) error {
				rows += uint64(b.Len())
				return nil
			})
			return rows, err
		},
		"groups": func() (rows uint64, err error) {
			groups, _, err := at.Aggregate(ctx, &record.Query{
				Aggregate: record.PluginCall{Name: "count"}})
			for _, g := range groups {
				rows += g.Records
			}
			return rows, err
		},
		"explain": func() (uint64, error) {
			x, err := at.Explain(ctx, &record.Query{})
			return uint64(x.Found), err
		},
		"versions": func() (rows uint64, err error) {
			_, err = at.VersionBatches(ctx, &wire.Box{Everything: true},
				func(some []record.Version) error {
					rows += uint64(len(some))
					return nil
				})
			return rows, err
		},
		"diff": func() (rows uint64, err error) {
			_, err = at.DiffBatches(ctx, &record.Diff{ToNs: record.Acq.Max()},
				func(d *record.Differences) error {
					rows += uint64(d.Len())
					return nil
				})
			return rows, err
		},
	} {
		var got uint64
		c.until(what+" has an answer", func() bool {
			var err error
			if got, err = ask(); err != nil {
				c.Log(what, err)
			}
			return err == nil
		})
		if got != want {
			c.Errorf("%s after a put: %d records, want %d", what, got, want)
		}
	}
}
