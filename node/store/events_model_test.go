package store

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// eventBox draws a box that is not too large.
func (sh shape) eventBox(rng *rand.Rand, m *model) record.Box {
	for {
		q := sh.query(rng, m)
		constrained := 0
		for _, set := range q.Box {
			constrained += min(len(set), 1)
		}
		if constrained > 1 || rng.IntN(20) == 0 {
			return q.Box
		}
	}
}

func (sh shape) erase(t *testing.T, rng *rand.Rand, s *Store, m *model) {
	t.Helper()
	box := sh.eventBox(rng, m)
	acq, err := s.Erase(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	m.events = append(m.events, event.Event{AcqNs: acq, Kind: event.Erase, Box: box})
}

func (sh shape) purge(t *testing.T, rng *rand.Rand, s *Store, m *model) {
	t.Helper()
	box := sh.eventBox(rng, m)
	acq, err := s.Purge(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	m.events = append(m.events, event.Event{AcqNs: acq, Kind: event.Purge, Box: box})
}

// retain sets, removes, holds or advances a policy. The model takes over what the store says of its
// steps.
func (sh shape) retain(t *testing.T, rng *rand.Rand, s *Store, m *model) {
	t.Helper()
	cid := int32(rng.Int64N(sh.cids))
	r := retention.Rule{CID: &cid, DelayNs: 1 + rng.Int64N(int64(5*time.Millisecond))}
	switch rng.IntN(4) {
	case 0: // removed
	case 1:
		r.MaxAcqAgeNs = int64(time.Minute) + rng.Int64N(int64(time.Hour))
	default:
		r.MaxCapAgeNs = s.opt.Now() - rng.Int64N(sh.caps)*int64(time.Minute)/2
	}
	known := slices.ContainsFunc(s.Retention(), func(p retention.Rule) bool {
		return *p.CID == cid
	})
	var err error
	if !sh.neverShown || !known {
		err = s.SetRetention(t.Context(), r)
	}
	if rng.IntN(4) == 0 && !sh.neverShown {
		h := retention.Hold{Action: retention.Action(1 + rng.IntN(3)), All: rng.IntN(4) == 0}
		if !h.All {
			h.CID = &cid
		}
		err = s.HoldRetention(t.Context(), h)
	}
	for range 2 { // the second one may make removable what the first one marks
		if err == nil || errors.Is(err, retention.ErrNoPolicy) {
			err = s.advanceRetention(t.Context())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	m.events = slices.DeleteFunc(m.events, func(e event.Event) bool {
		return e.Kind == event.Retention
	})
	for _, e := range s.Events() {
		if e.Kind == event.Retention {
			m.events = append(m.events, e)
		}
	}
}

// checkPurged wants every purge to be done, and what it concerned to be in no file.
func checkPurged(t *testing.T, s *Store, m *model) {
	t.Helper()
	left := m.query(&record.Query{})
	total := uint64(0)
	for _, p := range s.Purges() {
		if !p.Done {
			t.Fatalf("purge %+v is not done", p)
		}
		total += p.Removed
	}
	stored := s.Stats().Rows
	for _, e := range s.Events() {
		if e.Kind == event.Retention {
			return // some of what has expired may be left
		}
	}
	if int(stored) != len(left) {
		t.Fatalf("%d rows are stored, %d are to be seen, %d were purged", stored, len(left), total)
	}
}
