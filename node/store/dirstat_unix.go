//go:build unix

package store

import (
	"path/filepath"
	"time"

	"github.com/pentad-db/pentad/node/store/layout"
	"golang.org/x/sys/unix"
)

// dirStat is what the directories of a store looked like when all their files were there.
type dirStat struct{ store, log unix.Stat_t }

// dirStatOf looks at the directories of a store; one that is not there differs from all others.
func dirStatOf(dir string) (at dirStat) {
	_ = unix.Stat(dir, &at.store)
	_ = unix.Stat(filepath.Join(dir, layout.LogDir), &at.log)
	return at
}

// sameAs reports whether nothing was added, removed or renamed between two looks.
func (l *dirStat) sameAs(o *dirStat) bool {
	same := func(a, b *unix.Stat_t) bool {
		return a.Dev == b.Dev && a.Ino == b.Ino && a.Mtim == b.Mtim && a.Ctim == b.Ctim
	}
	return same(&l.store, &o.store) && same(&l.log, &o.log)
}

func (l *dirStat) settled(now time.Time) bool {
	newest := max(l.store.Ctim.Nano(), l.log.Ctim.Nano())
	return now.UnixNano()-newest > settledFor.Nanoseconds()
}
