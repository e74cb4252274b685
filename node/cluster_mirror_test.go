package node

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/puts"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/sdk/record"
)

// A cluster is made a copy of a node, range by range; one of its nodes dies on the way, and groups
// that are ahead of others take only what they lack.
func TestAClusterBecomesACopy(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	c := openTogether(t, 3, 4)
	one := openTest(t, Options{})
	now := time.Now()
	for i := range int64(4) {
		if _, err := one.Put(t.Context(), agedReadings(200, now.Add(time.Duration(i))),
			store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
		box := record.Box{record.MID: {{From: i * 1000, To: i*1000 + 640}}}
		hide := one.Erase
		if i == 2 {
			hide = one.Purge
		}
		if _, err := hide(t.Context(), box); err != nil {
			t.Fatal(err)
		}
	}
	st, _, err := one.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := rowsByAcq(t, one)
	put := func(n *Node, fromNs, toNs int64) {
		t.Helper()
		r := &mirror.Range{Of: st.Store, FromNs: fromNs, ToNs: toNs, Whole: toNs == st.HorizonNs,
			Policies: st.Policies}
		for _, e := range st.Events {
			if e.AcqNs >= fromNs && e.AcqNs < toNs {
				r.Events = append(r.Events, e)
			}
		}
		from, _ := slices.BinarySearch(rows.AcqNs, fromNs)
		to, _ := slices.BinarySearch(rows.AcqNs, toNs)
		if from < to {
			r.Rows = new(record.Batch)
			r.Rows.AppendRows(rows, from, to)
		}
		c.until("a range has an answer", func() bool {
			_, err := n.PutRange(t.Context(), r)
			if err != nil {
				t.Log(err)
			}
			return err == nil
		})
	}
	third, half := rows.AcqNs[rows.Len()/3], rows.AcqNs[rows.Len()/2]
	put(c.nodes[1], 0, third)
	c.stop(0) // it led most
	put(c.nodes[2], 0, third)
	// A run that was cut short: one group has more than the others.
	m := c.nodes[1].member.Load()
	data, err := commands.AppendRange(nil, &mirror.Range{Of: st.Store, FromNs: third, ToNs: half,
		Events: eventsBetween(st.Events, third, half),
		Rows:   puts.SplitByGroup(between(rows, third, half), evenOwners(4))[3]})
	if err == nil {
		_, err = m.Propose(t.Context(), 3, data, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.until("the copy ends where most groups do", func() bool {
		got, groups, err := c.nodes[1].State(t.Context())
		return err == nil && groups == 0 && got.Of == st.Store && got.HorizonNs == third
	})
	put(c.nodes[1], third, rows.AcqNs[2*rows.Len()/3])
	put(c.nodes[2], rows.AcqNs[2*rows.Len()/3], st.HorizonNs)
	c.isCopyOf(one, st)
}

func between(rows *record.Batch, fromNs, toNs int64) *record.Batch {
	from, _ := slices.BinarySearch(rows.AcqNs, fromNs)
	to, _ := slices.BinarySearch(rows.AcqNs, toNs)
	var out record.Batch
	out.AppendRows(rows, from, to)
	return &out
}

func eventsBetween(all []event.Event, fromNs, toNs int64) (out []event.Event) {
	for _, e := range all {
		if e.AcqNs >= fromNs && e.AcqNs < toNs {
			out = append(out, e)
		}
	}
	return out
}

// rowsByAcq reads all that a node has, by acq.
func rowsByAcq(t *testing.T, n *Node) *record.Batch {
	t.Helper()
	var all record.Batch
	_, err := n.Query(t.Context(), &record.Query{Order: record.OrderAcq},
		func(b *record.Batch) error {
			all.AppendRows(b, 0, b.Len())
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return &all
}

// isCopyOf compares digests, views of moments and events, through both nodes that are left.
func (c *nodesTogether) isCopyOf(one *Node, st store.State) {
	c.Helper()
	want, _, err := one.Digest(c.Context(), record.Box{}, []int64{0, st.HorizonNs}, 100)
	if err != nil || len(want) < 10 {
		c.Fatalf("%d slices, %v", len(want), err)
	}
	cuts := []int64{0}
	for _, d := range want {
		cuts = append(cuts, d.ToNs)
	}
	for i, n := range c.nodes[1:] {
		c.until("the node has all", func() bool {
			got, _, err := n.State(c.Context())
			return err == nil && got.HorizonNs == st.HorizonNs && len(got.Events) == len(st.Events)
		})
		got, _, err := n.Digest(c.Context(), record.Box{}, cuts, 0)
		if err != nil || !slices.Equal(got, want) {
			c.Errorf("node %d has digests %v, want %v, %v", i+1, got, want, err)
		}
		own, _, err := n.Digest(c.Context(), record.Box{}, []int64{0, st.HorizonNs}, 300)
		if err != nil || len(own) < 4 || own[len(own)-1].ToNs != st.HorizonNs {
			c.Errorf("node %d cuts %d slices, %v", i+1, len(own), err)
		}
		for _, d := range own {
			if d.Rows > 300 {
				c.Errorf("node %d cuts a slice of %d rows", i+1, d.Rows)
			}
		}
		for _, view := range []record.View{record.ViewAsOf, record.ViewAll} {
			q := &record.Query{View: view}
			if view == record.ViewAsOf {
				q.AsOfAcqNs = cuts[len(cuts)/2]
			}
			want, _, err := one.Count(c.Context(), q)
			if got := c.count(n, q); err != nil || got != want {
				c.Errorf("node %d, view %v: %d records, want %d, %v", i+1, view, got, want, err)
			}
		}
	}
}

// Cuts of groups are joined so that no slice of all has more rows than were asked for.
// A moment that lies after the end of a copy is answered with what the copy has: its horizon does
// not come there by waiting.
func TestACopyAnswersAfterItsEnd(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	c := openTogether(t, 1, 2)
	rows := &record.Batch{}
	for i := range int64(100) {
		rows.AppendStamped(record.Key{CID: 1, MID: i * 256, CapNs: i, AcqNs: 10 + i}, f64(1))
	}
	c.until("a range has an answer", func() bool {
		_, err := c.nodes[0].PutRange(t.Context(), &mirror.Range{Of: fmt.Sprintf("%032x", 7),
			ToNs: 1000, Rows: rows})
		return err == nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for at, want := range map[int64]uint64{60: 50, 5000: 100, time.Now().UnixNano(): 100} {
		q := &record.Query{View: record.ViewAsOf, AsOfAcqNs: at}
		if got, _, err := c.nodes[0].Count(ctx, q); err != nil || got != want {
			t.Errorf("as of %d: %d records, want %d, %v", at, got, want, err)
		}
	}
}

// evenOwners are as many groups as a cluster may begin with.
func evenOwners(groups int) *slots.Map {
	ranges := make([]slots.Range, groups)
	for i := range ranges {
		ranges[i] = slots.GroupSpan(slots.GroupID(i+1), groups)
	}
	m, _ := slots.NewMap(ranges)
	return m
}
