package store

import (
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/manifest"
)

// A copy remembers the timeline of its source, and has a lineage of its own, also when it is
// promoted. A replica that begins with what a store has does not take over its lineage.
func TestLineageOfCopies(t *testing.T) {
	h := &branch{t: t, opt: Options{Dir: t.TempDir(), Now: leapingClock()}, to: t.TempDir()}
	h.open()
	held := func(timeline uint64, untilNs int64) {
		t.Helper()
		st, err := h.s.State(t.Context())
		if err != nil || st.Held != timeline || st.HeldNs != untilNs || len(st.Lineage) == 0 {
			t.Fatalf("%+v, %v; want timeline %d up to %d", st, err, timeline, untilNs)
		}
	}
	add := func(timeline uint64, fromNs, toNs int64) {
		t.Helper()
		r := rangeOf("a", fromNs, toNs, toNs-1)
		r.Timeline = timeline
		if _, err := h.s.PutRange(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	add(7, 0, 10)
	held(7, 10)
	h.close().open()
	held(7, 10)
	h.mustBackup()
	add(8, 10, 20)
	held(8, 20)
	h.putBack(h.image())
	held(8, 20)
	mustRewrite(t, h.s)
	h.mustBackup().close().open()
	held(8, 20)
	add(8, 20, 30)
	if err := h.s.PromoteCopy(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.put()
	h.mustBackup()
	old := h.image()
	seed := filepath.Join(t.TempDir(), "seed")
	if _, err := h.s.Seed(t.Context(), seed, testGroup, slots.Range{To: slots.Count}); err != nil {
		t.Fatal(err)
	}
	m, _, err := manifest.Open(seed, 1, testGroup)
	if err != nil || len(m.Lineage) != 0 || m.Close() != nil {
		t.Errorf("%v, %v", m, err)
	}
	h.gap = h.put()
	h.mustBackup().putBack(old).refused()
}
