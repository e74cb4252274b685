package store

import (
	"errors"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/sdk/record"
)

// A store opens on a full disk, and takes no records before its timeline is in the manifest.
func TestFullDiskTakesNoTimeline(t *testing.T) {
	if !inProcess(t) {
		return
	}
	d := sizeLimit(t)
	h := &branch{t: t, opt: Options{Dir: d.dir, Now: leapingClock()}, to: t.TempDir()}
	h.open()
	h.put()
	h.mustBackup()
	old := h.image()
	h.s.manifestMu.Lock()
	for h.s.manifest.Size() < 20<<10 {
		if err := h.s.manifest.Append(manifest.Edit{}); err != nil {
			t.Fatal(err)
		}
	}
	h.s.manifestMu.Unlock()
	h.close()
	d.fill()
	h.open()
	_, err := h.s.Put(t.Context(), batchOf(record.Key{MID: 9}), WriterSeq{})
	full := slices.ContainsFunc(h.s.Problems(), func(p health.Problem) bool {
		return p.Code == "disk_full"
	})
	if !errors.Is(err, durable.ErrNoSpace) || !full {
		t.Errorf("put into a full disk: %v, problems %+v", err, h.s.Problems())
	}
	if rows := scanRows(t, h.s, &record.Query{}); len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
	d.free()
	h.gap = h.put()
	h.mustBackup()
	if got := h.s.manifest.Lineage; len(got) != 2 {
		t.Errorf("its lineage is %v", got)
	}
	h.putBack(old).refused()
}
