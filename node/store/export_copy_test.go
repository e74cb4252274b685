package store

import (
	"sync"
	"testing"
)

// TestBackupDuringCopy: a part of a backup is of the store that was empty, or of the copy that it
// became, also when both happen at once. The race detector looks at it, too.
func TestBackupDuringCopy(t *testing.T) {
	for range 20 {
		s, dir := openTest(t, Options{}), t.TempDir()
		before := s.identity()
		var part *Archived
		var wg sync.WaitGroup
		wg.Go(func() {
			var err error
			if part, err = archive.Backup(t.Context(), s, dir, 0); err != nil {
				t.Error(err)
			}
		})
		if _, err := s.PutRange(t.Context(), rangeOf("a", 0, 10, 3)); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if part != nil && part.Store != before && part.UntilAcqNs > 10 {
			t.Errorf("a part of the copy, which ends at 10, ends at %d", part.UntilAcqNs)
		}
	}
}
