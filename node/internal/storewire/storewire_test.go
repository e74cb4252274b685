package storewire

import (
	"reflect"
	"testing"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestHistory: events and policies are the same after the way to the protocol and back.
func TestHistory(t *testing.T) {
	cid := int32(1)
	st := &store.State{Store: "0102030405060708090a0b0c0d0e0f10", HorizonNs: 100,
		Events: []event.Event{{AcqNs: 50, Kind: event.Purge,
			Box: record.Box{record.MID: {record.At(3)}}}, {AcqNs: 60, Kind: event.Erase}},
		Policies: []retention.Policy{{Scope: retention.Scope{CID: &cid}, MaxCapAgeNs: 5,
			DelayNs: 3, Cap: retention.Floors{Hidden: retention.Bound{FloorNs: -9, BelowNs: 70},
				StepAcqNs: 70, Gone: []retention.Removable{{Bound: retention.Bound{FloorNs: -10,
					BelowNs: 60}, AcqNs: 70}}}}}}
	out, err := State(st)
	if err != nil || out.Store[0] != 1 || out.Of != [16]byte{} || out.HorizonNs != 100 {
		t.Fatalf("%+v, %v", out, err)
	}
	back := Range(&wire.Range{Of: out.Store, History: out.History})
	if back.Of != st.Store || !reflect.DeepEqual(back.Events, st.Events) ||
		!reflect.DeepEqual(back.Policies, st.Policies) {
		t.Errorf("%+v", back)
	}
	if _, err := State(&store.State{Store: "x"}); err == nil {
		t.Error("an identity of one letter")
	}
}

func TestSum(t *testing.T) {
	sum := Sum(&digest.Slice{Sum: [2]uint64{1, 2}})
	if sum[0] != 1 || sum[8] != 2 {
		t.Errorf("%x", sum)
	}
}

func TestRemoval(t *testing.T) {
	if Removal(nil) != nil {
		t.Error("nil is not nil")
	}
	r := Removal(&event.RemovalForecast{Rows: 2, NextNs: 5})
	if r.Records != 2 || r.Next == nil || *r.Next != record.FormatNs(5) || r.Done != nil {
		t.Errorf("%+v", r)
	}
}
