package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

func TestPoliciesOfGroups(t *testing.T) {
	one, hour, day := int32(1), int64(time.Hour), int64(24*time.Hour)
	has := func(r retention.Rule, groups ...cluster.GroupID) Policy { return Policy{r, groups} }
	got := joinPolicies([]Policy{
		has(retention.Rule{CID: &one, MaxCapAgeNs: hour}, 3, 4),
		has(retention.Rule{CID: &one, MaxCapAgeNs: day}, 1),
		has(retention.Rule{CID: &one, MaxCapAgeNs: hour}, 2),
		has(retention.Rule{MaxAcqAgeNs: day}, 3, 4),
		has(retention.Rule{MaxAcqAgeNs: day}, 1, 2),
	}, 4)
	want := []Policy{has(retention.Rule{MaxAcqAgeNs: day}),
		has(retention.Rule{CID: &one, MaxCapAgeNs: hour}, 2, 3, 4),
		has(retention.Rule{CID: &one, MaxCapAgeNs: day}, 1)}
	plain := func(all []Policy) (out string) {
		for _, p := range all {
			out += fmt.Sprintln(p.CID != nil, p.MOID != nil, p.MaxCapAgeNs, p.MaxAcqAgeNs, p.Groups)
		}
		return out
	}
	if plain(got) != plain(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What an event says is the same after it crossed the network.
func TestEventsCrossTheNetwork(t *testing.T) {
	box := record.Box{record.CID: {record.At(7)}, record.MOID: {{From: -5, To: 9}},
		record.Cap: {{From: 1700000000123456789, To: record.Cap.Max()}},
		record.Acq: {{From: record.Acq.Min(), To: 5}}}
	for _, e := range []event.Event{
		{AcqNs: 5, Kind: event.Erase, Box: box},
		{AcqNs: 6, Kind: event.Purge, Done: true, Removed: 9, FromSlot: 4, ToSlot: 8},
	} {
		in := api.Event{AcqNs: e.AcqNs, Kind: e.Kind.String(), Done: &e.Done,
			Removed: &e.Removed, Box: selector.FormatBox(&e.Box)}
		if e.ToSlot > 0 {
			in.Slots = []uint32{e.FromSlot, e.ToSlot}
		}
		got, err := eventOf(&in)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(e) {
			t.Errorf("%+v, %v; want %+v", got, err, e)
		}
	}
	if _, err := eventOf(&api.Event{Kind: "other"}); err == nil {
		t.Error("an event of no kind was taken")
	}
}
