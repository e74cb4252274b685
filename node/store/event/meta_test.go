package event

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/record"
)

// What the manifest holds of an event is the event again, with a box that is normalized.
func TestEventsAreReadAsWritten(t *testing.T) {
	f := func(e Event, want string) {
		t.Helper()
		meta := MetaOf(&e)
		text, err := json.Marshal(&meta)
		if err != nil || string(text) != want {
			t.Errorf("%+v is written as %s, %v; want %s", e, text, err, want)
		}
		var again Meta
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if got, err := again.Event(); err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%s is read as %+v, %v; want %+v", text, got, err, e)
		}
	}
	var box record.Box
	box[record.MID] = record.RangeSet{{From: 1, To: 3}, {From: 7, To: 8}}
	f(Event{AcqNs: 5, Kind: Erase, Box: box},
		`{"acq_ns":5,"kind":1,"box":[null,[[1,3],[7,8]],null,null,null]}`)
	f(Event{AcqNs: 6, Kind: Purge, Done: true, Removed: 9},
		`{"acq_ns":6,"kind":2,"box":[null,null,null,null,null],"done":true,"removed":9}`)
	f(Event{AcqNs: 7, Kind: Split, KeptSlots: slots.Range{From: 8, To: 16}},
		`{"acq_ns":7,"kind":4,"box":[null,null,null,null,null],"kept_slots":[8,16]}`)
}

// An event that this version does not know is refused: to leave it out would show what it hides.
func TestUnknownEventsAreRefused(t *testing.T) {
	f := func(m Meta) {
		t.Helper()
		if e, err := m.Event(); err == nil {
			t.Errorf("%+v is read as %+v", m, e)
		}
	}
	f(Meta{AcqNs: 1, Kind: Retention}) // a step of a policy is none of its own
	f(Meta{AcqNs: 1, Kind: 5})
	f(Meta{AcqNs: 1, Kind: Split})
	f(Meta{AcqNs: 1, Kind: Split, KeptSlots: &Slots{4, 4}})
	f(Meta{AcqNs: 1, Kind: Split, KeptSlots: &Slots{0, slots.Count + 1}})
	f(Meta{AcqNs: 1, Kind: Erase, KeptSlots: &Slots{0, 4}})
	f(Meta{AcqNs: 1, Kind: Erase, Box: Box{{{3, 3}}}})
}
