package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// besideOne is a cluster and a node by itself that is to hold the same.
type besideOne struct {
	*nodesTogether
	one     *Node
	through int // of the cluster: asked and written through
}

func openBeside(t *testing.T, groups int) *besideOne {
	return &besideOne{openTogether(t, 3, groups), openTest(t, Options{}), 1}
}

// both does the same on a node of the cluster and on the node by itself.
func (b *besideOne) both(what string, do func(ctx context.Context, n *Node) error) {
	b.Helper()
	b.until(what+" has an answer", func() bool {
		err := do(b.Context(), b.nodes[b.through])
		if err != nil {
			b.Log(what, err)
		}
		return err == nil
	})
	if err := do(b.Context(), b.one); err != nil {
		b.Fatal(what, err)
	}
}

// same compares counts of the cluster, through one of its nodes, with those of the node by itself.
func (b *besideOne) same(what string) {
	b.Helper()
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		for _, moid := range []int64{1, 2, 3} {
			q := &record.Query{View: view}
			q.Box[record.MOID] = record.RangeSet{record.At(moid)}
			got := b.count(b.nodes[b.through], q)
			want, _, err := b.one.Count(b.Context(), q)
			if err != nil || got != want {
				b.Errorf("%s: view %v, moid %d: %d records, want %d, %v", what, view, moid, got,
					want, err)
			}
		}
	}
}

// plainHiding is an event without its acq and the group that it is of, sorted and each once.
func plainHiding(all []event.Event) (out []string) {
	for _, e := range all {
		out = append(out, fmt.Sprint(e.Kind, e.Box))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// agedReadings are rows of many devices and three quantities; every second is two hours old.
func agedReadings(devices int64, now time.Time) *record.Batch {
	var b record.Batch
	for i := range devices {
		at := now.UnixNano() + i
		if i%2 == 0 {
			at -= int64(2 * time.Hour)
		}
		for moid := range int32(3) {
			b.Append(record.Key{CID: 1, MID: i * 256, MOID: moid + 1, CapNs: at}, f64(float64(i)))
		}
	}
	return &b
}

func TestAClusterErasesPurgesAndLetsExpire(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	b := openBeside(t, 4)
	now := time.Now()
	writer := store.WriterSeq{ID: [16]byte{1}, Seq: 1}
	b.both("put", func(ctx context.Context, n *Node) error {
		_, err := n.Put(ctx, agedReadings(400, now), writer)
		return err
	})
	b.both("delete", func(ctx context.Context, n *Node) error {
		var tombs record.Batch
		tombs.AppendTomb(record.Key{CID: 1, MID: 256, MOID: 2, CapNs: now.UnixNano() + 1})
		_, err := n.Put(ctx, &tombs, store.WriterSeq{ID: [16]byte{1}, Seq: 2})
		return err
	})
	b.same("deleted")
	some := record.Box{record.MID: {{From: 0, To: 100 * 256}}, record.MOID: {record.At(2)}}
	b.both("erase", func(ctx context.Context, n *Node) error {
		_, err := n.Erase(ctx, some)
		return err
	})
	some[record.MOID] = record.RangeSet{record.At(3)}
	b.both("purge", func(ctx context.Context, n *Node) error {
		_, err := n.Purge(ctx, some)
		return err
	})
	b.same("erased and purged")

	moid := int32(1)
	hour := retention.Rule{MOID: &moid, MaxCapAgeNs: int64(time.Hour)}
	for _, n := range []*Node{b.nodes[2], b.one} {
		if rows, err := n.Expired(t.Context(), hour); err != nil || rows != 200 {
			t.Errorf("%d records would expire, %v; want 200", rows, err)
		}
	}
	b.both("retention", func(ctx context.Context, n *Node) error {
		return n.SetRetention(ctx, hour)
	})
	b.until("the first step is taken", func() bool {
		q := &record.Query{}
		q.Box[record.MOID] = record.RangeSet{record.At(1)}
		want, _, err := b.one.Count(b.Context(), q)
		return err == nil && b.count(b.nodes[b.through], q) == want
	})
	b.same("expired")
	b.listsAlike()

	b.stop(0) // it led most
	b.through = 2
	b.same("without a node")
	b.listsAlike()
	all := retention.Rule{MaxAcqAgeNs: int64(24 * time.Hour)}
	b.both("another", func(ctx context.Context, n *Node) error { return n.SetRetention(ctx, all) })
	hour.MaxCapAgeNs = 0
	b.both("removal", func(ctx context.Context, n *Node) error {
		err := n.SetRetention(ctx, hour)
		if err != nil && n.Kind(err) == wire.KindNotFound {
			return nil // an earlier try took it away
		}
		return err
	})
	b.same("removed")
	b.listsAlike()
	hour.MaxCapAgeNs = 0
	if err := b.nodes[1].SetRetention(t.Context(), hour); b.one.Kind(err) != wire.KindNotFound {
		t.Errorf("removing what is not there: %v", err)
	}
}

// listsAlike wants every node to list the same events and policies, and the same as the node by
// itself but for where and when each group has its own.
func (b *besideOne) listsAlike() {
	b.Helper()
	want, err := b.one.Events(b.Context())
	if err != nil || len(want) == 0 {
		b.Fatalf("%d events, %v", len(want), err)
	}
	policies, err := b.one.Retention(b.Context())
	if err != nil || len(policies) == 0 {
		b.Fatalf("%d policies, %v", len(policies), err)
	}
	floorless := func(all []event.Event) []event.Event { // floors are of the moment
		return slices.DeleteFunc(slices.Clone(all), func(e event.Event) bool {
			return e.Kind == event.Retention || len(e.Box[record.Cap]) > 0 &&
				e.Box[record.Cap][0].From == record.Cap.Min()
		})
	}
	for i, n := range b.nodes {
		if n.closing.Load() {
			continue
		}
		b.until("the policies have come to a node", func() bool {
			again, err := n.Retention(b.Context())
			return err == nil &&
				fmt.Sprint(plainPolicies(again)) == fmt.Sprint(plainPolicies(policies))
		})
		var got []event.Event
		b.until("events are listed", func() bool {
			got, err = n.Events(b.Context())
			return err == nil
		})
		if !slices.Equal(plainHiding(floorless(got)), plainHiding(floorless(want))) {
			b.Errorf("node %d lists %v, want %v", i, got, want)
		}
		if !slices.IsSortedFunc(got, func(x, y event.Event) int {
			return cmp.Compare(x.AcqNs, y.AcqNs)
		}) || !slices.ContainsFunc(got, func(e event.Event) bool { return e.ToSlot > 0 }) {
			b.Errorf("node %d lists without order or place: %v", i, got)
		}
		people, err := dial(b.T, n).Events(b.Context())
		if err != nil || len(people) != len(got) || len(people[0].Slots) != 2 {
			b.Errorf("node %d answers %d events of %d, %v", i, len(people), len(got), err)
		}
	}
}

func plainPolicies(all []Policy) (out []string) {
	for _, p := range all {
		out = append(out, fmt.Sprint(p.CID != nil, p.MOID != nil, p.MaxCapAgeNs, p.MaxAcqAgeNs,
			p.Groups))
	}
	return out
}

// An erase that names groups, as PROTOCOL.md has it, leaves what others hold.
func TestAnEraseOfGroupsIsOfTheseAlone(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	c := openTogether(t, 1, 2)
	c.put(c.nodes[0], readings(0, 400), store.WriterSeq{})
	one, other := dial(t, c.nodes[0]).OfGroups([]int{1}), dial(t, c.nodes[0]).OfGroups([]int{2})
	before, _, err := other.Count(t.Context(), &record.Query{View: record.ViewLatest})
	if err != nil || before == 0 || before == 400 {
		t.Fatalf("group 2 has %d records, %v", before, err)
	}
	if _, err := one.Erase(t.Context(), &wire.Box{Everything: true}); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[*client.Client]uint64{one: 0, other: before} {
		got, _, err := at.Count(t.Context(), &record.Query{View: record.ViewLatest})
		if err != nil || got != want {
			t.Errorf("%d records are left, want %d, %v", got, want, err)
		}
	}
}
