package store

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// belowAcq draws an acq: of a row or an event and beside them, a small one, or one before 1970.
func (m *model) belowAcq(rng *rand.Rand, horizonNs int64) int64 {
	acq := rng.Int64N(5)
	switch n := rng.IntN(10); {
	case n < 2:
	case n < 3:
		acq = -rng.Int64N(1 << 62)
	case n < 5 && len(m.events) > 0:
		acq = m.events[rng.IntN(len(m.events))].AcqNs + rng.Int64N(3) - 1
	case n < 9 && len(m.rows) > 0:
		acq = m.rows[rng.IntN(len(m.rows))].key.AcqNs + rng.Int64N(5) - 2
	case n < 10:
		acq = rng.Int64N(horizonNs)
	}
	return min(acq, horizonNs-1)
}

// putBelow puts rows below the horizon, some of which are there already.
func (sh shape) putBelow(t *testing.T, rng *rand.Rand, s *Store, m *model) {
	t.Helper()
	horizon, err := s.ExtendHorizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := m.seen(record.ViewAll, 0)
	there := map[record.Key]modelRow{}
	for _, r := range seen {
		there[r.key] = r
	}
	drawn := sh.batch(rng, 1+rng.IntN(1+rng.IntN(300)), horizon)
	b, fresh, conflict := &record.Batch{}, []modelRow(nil), false
	add := func(r modelRow) {
		known, ok := there[r.key]
		if ok && known != r && rng.IntN(200) > 0 {
			return
		}
		conflict = conflict || ok && known != r
		if there[r.key] = r; !ok {
			fresh = append(fresh, r)
		}
		b.AppendRecord(record.Record{Key: r.key, Payload: []byte(r.payload), Tomb: r.tomb})
		b.AcqNs = append(b.AcqNs, r.key.AcqNs)
	}
	acq := m.belowAcq(rng, horizon)
	for i := range drawn.Len() {
		r := modelRowOf(drawn, i)
		if rng.IntN(4) == 0 {
			acq = m.belowAcq(rng, horizon)
		}
		r.key.AcqNs = acq
		if len(m.rows) > 0 && rng.IntN(3) == 0 { // another version of a reading that is there
			acq := r.key.AcqNs
			r.key = m.rows[rng.IntN(len(m.rows))].key
			r.key.AcqNs = acq
		}
		if len(seen) > 0 && rng.IntN(8) == 0 {
			r = seen[rng.IntN(len(seen))]
		}
		add(r)
	}
	if b.Len() == 0 {
		return
	}
	if conflict {
		if _, err := s.PutBackdated(t.Context(), b); !errors.Is(err, ErrOtherPayload) {
			t.Fatalf("other payloads for what is there: %v", err)
		}
		return
	}
	res, err := s.PutBackdated(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if res.Repeated != b.Len()-len(fresh) || res.Stored+res.Purged != len(fresh) {
		t.Fatalf("%+v of %d, of which %d are new", res, b.Len(), len(fresh))
	}
	// What is purged, or hidden by a retention now, is left out, also if that hides less later.
	stored := (&model{rows: fresh, events: m.events}).seen(record.ViewAll, 0)
	if len(stored) != res.Stored {
		t.Fatalf("%+v, want %d stored", res, len(stored))
	}
	m.rows = append(m.rows, stored...)
	again, err := s.PutBackdated(t.Context(), b)
	if err != nil || again.Stored != 0 || again.Purged != res.Purged {
		t.Fatalf("the same again: %+v after %+v, %v", again, res, err)
	}
}
