package store

import (
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestReplayIsReported: Open tells how far the replay is, in rising numbers that do not exceed the
// whole.
func TestReplayIsReported(t *testing.T) {
	dir := t.TempDir()
	s, _, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	const puts = 20
	for i := range int64(puts) {
		var b record.Batch
		b.Append(record.Key{MID: i}, make([]byte, 1000))
		if _, err := s.Put(t.Context(), &b, WriterSeq{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	calls, last, whole := 0, int64(0), int64(0)
	s, _, err = Open(t.Context(), Options{Dir: dir, Replaying: func(done, all int64) {
		calls++
		if done < last || done > all || whole != 0 && all != whole {
			t.Errorf("%d of %d after %d of %d", done, all, last, whole)
		}
		last, whole = done, all
	}})
	if err != nil {
		t.Fatal(err)
	}
	if calls < puts || last < puts*1000 {
		t.Errorf("%d calls, the last with %d of %d bytes", calls, last, whole)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
