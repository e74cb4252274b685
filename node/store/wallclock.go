package store

import (
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/layout"
)

// newestFile returns the time of the newest file of a directory, which is evidence for the clock
// when that is opened; 0 for an empty one.
func newestFile(dir string) (ns int64) {
	for _, dir := range []string{dir, filepath.Join(dir, layout.LogDir)} {
		entries, _ := os.ReadDir(dir) // whether it can be opened shows later
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && info.Mode().IsRegular() && e.Name() != layout.LockFile {
				ns = max(ns, info.ModTime().UnixNano())
			}
		}
	}
	return ns
}

// AheadNs returns how far acqs are ahead of the clock, because it was set back, or was wrong
// before: they go on one by one from where they were until it has passed them. 0: they follow it.
func (s *Store) AheadNs() int64 {
	ahead := s.clock.Floor() - s.time.NowNs()
	if ahead < 2*acqtime.LeaseNs {
		return 0 // stamps of one flush, or a lease
	}
	return ahead
}
