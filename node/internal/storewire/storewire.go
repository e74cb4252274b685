// Package storewire converts what the store keeps into what the protocol and JSON show, and back:
// digests, states of copies, ranges and removals.
//
// It knows nothing of how they are asked for. It has functions only, and starts no goroutines.
package storewire

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Sum returns the sum of a digest with its lowest byte first.
func Sum(d *digest.Slice) (sum [16]byte) {
	binary.LittleEndian.PutUint64(sum[:8], d.Sum[0])
	binary.LittleEndian.PutUint64(sum[8:], d.Sum[1])
	return sum
}

// identity reads the identity of a store, 32 hex digits; empty is zero.
func identity(text string) (id [16]byte, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(id) && len(raw) != 0 {
		return id, fmt.Errorf("identity %q of a store is not 32 hex digits", text)
	}
	copy(id[:], raw)
	return id, nil
}

// State returns the state of a copy in terms of the protocol.
//
// Errors: that the identity of a store is damaged.
func State(st *store.State) (*wire.State, error) {
	out := &wire.State{Box: st.Box, Empty: st.Empty, HorizonNs: st.HorizonNs,
		Lineage: st.Lineage, Held: st.Held, HeldNs: st.HeldNs}
	var err error
	if out.Store, err = identity(st.Store); err == nil {
		out.Of, err = identity(st.Of)
	}
	for _, e := range st.Events {
		out.History.Hiding = append(out.History.Hiding, wire.Hiding{AcqNs: e.AcqNs,
			Purge: e.Kind == event.Purge, Box: e.Box})
	}
	for _, p := range st.Policies {
		out.History.Policies = append(out.History.Policies, wire.Policy{CID: p.CID, MOID: p.MOID,
			MaxCapAgeNs: p.MaxCapAgeNs, MaxAcqAgeNs: p.MaxAcqAgeNs, DelayNs: p.DelayNs,
			Held: p.Held, Cap: floorsToWire(&p.Cap), Acq: floorsToWire(&p.Acq)})
	}
	return out, err
}

// Range returns what a range frame has in terms of the store.
func Range(in *wire.Range) *mirror.Range {
	r := &mirror.Range{Timeline: in.Timeline, Box: in.Box, FromNs: in.FromNs, ToNs: in.ToNs,
		Rows: in.Rows, Whole: in.Whole}
	if in.Of != ([16]byte{}) {
		r.Of = hex.EncodeToString(in.Of[:])
	}
	for _, e := range in.History.Hiding {
		kind := event.Erase
		if e.Purge {
			kind = event.Purge
		}
		r.Events = append(r.Events, event.Event{AcqNs: e.AcqNs, Kind: kind, Box: e.Box})
	}
	for _, p := range in.History.Policies {
		r.Policies = append(r.Policies, retention.Policy{
			Scope:       retention.Scope{CID: p.CID, MOID: p.MOID},
			MaxCapAgeNs: p.MaxCapAgeNs, MaxAcqAgeNs: p.MaxAcqAgeNs, DelayNs: p.DelayNs,
			Held: p.Held, Cap: floorsOfWire(&p.Cap), Acq: floorsOfWire(&p.Acq)})
	}
	return r
}

func floorsToWire(f *retention.Floors) wire.Floors {
	out := wire.Floors{Hidden: wire.Bound(f.Hidden), StepAcqNs: f.StepAcqNs,
		Unhidden: wire.Bound(f.Unhidden)}
	for _, g := range f.Gone {
		out.Gone = append(out.Gone, wire.Removable{Bound: wire.Bound(g.Bound), AcqNs: g.AcqNs,
			TimeNs: g.TimeNs})
	}
	return out
}

func floorsOfWire(f *wire.Floors) retention.Floors {
	out := retention.Floors{Hidden: retention.Bound(f.Hidden), StepAcqNs: f.StepAcqNs,
		Unhidden: retention.Bound(f.Unhidden)}
	for _, g := range f.Gone {
		out.Gone = append(out.Gone, retention.Removable{Bound: retention.Bound(g.Bound),
			AcqNs: g.AcqNs, TimeNs: g.TimeNs})
	}
	return out
}

// Removal returns the progress of a removal as JSON shows it; nil for nil.
func Removal(r *event.RemovalForecast) *api.Removal {
	if r == nil {
		return nil
	}
	text := func(ns int64) *string {
		if ns == 0 {
			return nil
		}
		s := record.FormatNs(ns)
		return &s
	}
	return &api.Removal{Records: r.Rows, Bytes: r.Bytes, Next: text(r.NextNs), NextNs: r.NextNs,
		Done: text(r.DoneNs), DoneNs: r.DoneNs}
}
