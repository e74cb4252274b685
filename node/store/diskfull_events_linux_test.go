package store

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// A purge whose line found space hides its rows at once, and is finished by itself when there is
// space for the segments that are to be written for it.
func TestPurgeOnAFullDisk(t *testing.T) {
	if !inProcess(t) {
		return
	}
	d := sizeLimit(t)
	const secret = "b1f6-secret-77aa"
	opt := Options{Dir: d.dir, Shards: 1, Now: leapingClock(), retainEvery: time.Millisecond,
		mergeRetry: time.Millisecond}
	s := openTest(t, opt)
	put1(t, s, 1, 1, secret)
	put1(t, s, 2, 1, "sealed")
	mustSeal(t, s)
	put1(t, s, 1, 2, secret)
	put1(t, s, 2, 2, "in the head")
	d.fill()
	mustPurge(t, s, boxOf(record.MID, 1, 2))
	for s.Stats().MergeErr == nil || s.headBudget.SealErr() == nil {
		runtime.Gosched()
	}
	wantPayloads(t, s, inBox(record.Box{}), "sealed", "in the head")
	put1(t, s, 3, 1, "small")
	if p := s.Purges(); len(p) != 1 || p[0].Done {
		t.Fatalf("%+v", p)
	}
	d.free()
	waitPurged(s)
	if p := s.Purges(); p[0].Removed != 2 {
		t.Errorf("%+v", p)
	}
	if holds(t, d.dir, []byte(secret)) {
		t.Error("a file still holds what was purged")
	}
	everywhere(t, s, opt, func(s *Store) {
		t.Helper()
		wantPayloads(t, s, inBox(record.Box{}), "sealed", "in the head", "small")
	})
}

// An event whose line finds no space has no effect, now and after the next Open; what is put goes
// on, and when there is space, events do.
func TestEventsOnAFullDisk(t *testing.T) {
	if !inProcess(t) {
		return
	}
	d := sizeLimit(t)
	clock := leapingClock()
	opt := Options{Dir: d.dir, Shards: 1, Now: clock, retainEvery: time.Hour}
	s := openTest(t, opt)
	put1(t, s, 1, clock(), "a")
	manifest := filepath.Join(d.dir, layout.ManifestFile)
	elsewhere := boxOf(record.CID, 7, 8) // a long line
	for mid := range int64(200) {
		elsewhere[record.MID] = append(elsewhere[record.MID], record.At(2*mid))
	}
	events := 0
	for fileSize(t, manifest) < 20<<10 {
		mustErase(t, s, elsewhere)
		events++
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, durable.ErrNoSpace) {
			t.Errorf("%s on a full disk: %v", what, err)
		}
	}
	d.fill()
	size := fileSize(t, manifest)
	want := []string{"a"}
	for range 3 {
		_, err := s.Erase(t.Context(), record.Box{})
		refused("an erase", err)
		_, err = s.Purge(t.Context(), record.Box{})
		refused("a purge", err)
		refused("a retention", s.SetRetention(t.Context(), retention.Rule{MaxAcqAgeNs: 1}))
		put1(t, s, int64(1+len(want)), clock(), "b")
		want = append(want, "b")
		wantPayloads(t, s, latest(), want...)
		wantPayloads(t, s, inBox(record.Box{}), want...)
	}
	if got := s.Events(); len(got) != events || len(s.Retention()) != 0 {
		t.Errorf("%d events, want %d, and %+v", len(got), events, s.Retention())
	}
	d.free()
	if got := fileSize(t, manifest); got != size {
		t.Errorf("MANIFEST has %d bytes, had %d", got, size)
	}
	s = reopen(t, s, opt)
	wantPayloads(t, s, latest(), want...)
	if got := s.Events(); len(got) != events {
		t.Errorf("%d events after opening, want %d", len(got), events)
	}
	d.fill()
	_, err := s.Erase(t.Context(), record.Box{})
	refused("an erase", err)
	d.free()
	mustErase(t, s, boxOf(record.MID, 1, 2)) // in the process that was refused
	wantPayloads(t, s, latest(), want[1:]...)
	mustPurge(t, s, record.Box{})
	waitPurged(s)
	wantPayloads(t, s, inBox(record.Box{}))
	if err := s.SetRetention(t.Context(), retention.Rule{MaxAcqAgeNs: 1}); err != nil {
		t.Error(err)
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
