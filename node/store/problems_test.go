package store

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/sdk/record"
)

func problem(s *Store, code string) *health.Problem {
	all := s.Problems()
	i := slices.IndexFunc(all, func(p health.Problem) bool { return p.Code == code })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// A seal that fails for another reason than space is a problem with its reason, is tried again by
// itself, and succeeds when the reason is gone.
func TestASealIsTriedAgain(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Shards: 1, Now: leapingClock()}
	s := openTest(t, opt)
	if all := s.Problems(); len(all) > 0 {
		t.Fatalf("a new store has problems: %v", all)
	}
	put1(t, s, 1, 1, "x")
	var inTheWay []string
	for id := range uint64(20) { // of the seal that is due, of the one that Seal tries, and of more
		inTheWay = append(inTheWay, s.segmentPath(s.nextID.Load()+id))
		if err := os.Mkdir(inTheWay[id], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Seal(t.Context()); err == nil {
		t.Fatal("a seal without a file succeeded")
	}
	p := problem(s, "seal_failed")
	if p == nil || p.NotReady || p.Restart || !slices.ContainsFunc(inTheWay,
		func(path string) bool { return strings.Contains(p.Message, path) }) {
		t.Errorf("after a failed seal: %+v", p)
	}
	for _, path := range inTheWay {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	put1(t, s, 2, 1, "x") // there is space in the heads
	for end := time.Now().Add(5 * time.Minute); problem(s, "seal_failed") != nil; {
		if time.Now().After(end) {
			t.Fatal("the seal was not tried again within five minutes")
		}
		runtime.Gosched()
	}
	if rows := scanRows(t, s, &record.Query{}); len(rows) != 2 || s.Stats().Segments != 1 {
		t.Errorf("%d rows, %d segments", len(rows), s.Stats().Segments)
	}
}

// A manifest that failed is the one problem that is named, and lasts until the store is opened
// again.
func TestAFailedManifestIsAProblem(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir(), Shards: 1, Now: leapingClock()})
	put1(t, s, 1, 1, "x")
	if err := s.manifest.Close(); err != nil { // every edit fails from now on
		t.Fatal(err)
	}
	if err := s.Seal(t.Context()); err == nil {
		t.Fatal("a seal without a manifest succeeded")
	}
	all := s.Problems()
	if len(all) != 1 || all[0].Code != "manifest_failed" || !all[0].NotReady || !all[0].Restart {
		t.Errorf("%+v", all)
	}
	_ = s.Close() // the manifest cannot be closed twice
}
