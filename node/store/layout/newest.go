package layout

import (
	"os"
	"path/filepath"
)

// NewestFile returns the time of the newest file of a directory, which is evidence for the clock
// when that is opened; 0 for an empty one.
func NewestFile(dir string) (ns int64) {
	for _, dir := range []string{dir, filepath.Join(dir, LogDir)} {
		entries, _ := os.ReadDir(dir) // whether it can be opened shows later
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && info.Mode().IsRegular() && e.Name() != LockFile {
				ns = max(ns, info.ModTime().UnixNano())
			}
		}
	}
	return ns
}
