package replica

import (
	"fmt"
	"os"

	"github.com/pentad-db/pentad/node/internal/lostfile"
)

// finder is a Files that knows whether a file has its name still.
type finder interface {
	// Lost says how what a name stands for differs from a file that is open and was written with
	// size bytes; "": it does not.
	Lost(name string, f File, size int64) (reason string)
}

func (d directory) Lost(name string, f File, size int64) string {
	var open *os.File
	if file, ok := f.(dataFile); ok {
		open = file.File
	}
	return lostfile.Reason(d.path(name), open, size)
}

// Look makes the log fail, and calls Options.Fail, when a file of it was removed, replaced or cut
// while it is open: what is written to it would be lost with the process.
//
// Cost: two calls of the system for each file.
func (c *Core) Look() {
	if err := c.journal.look(); err != nil {
		c.fail(err)
	}
}

func (l *journal) look() error {
	dir, ok := l.dir.(finder)
	if !ok {
		return nil
	}
	l.mu.Lock()
	files := map[uint32]journalFile{}
	for number, f := range l.files {
		files[number] = *f
	}
	l.mu.Unlock()
	for number, f := range files {
		reason := dir.Lost(journalName(number), f.file, f.size)
		if reason == "" || !l.has(number) {
			continue
		}
		err := fmt.Errorf("%w: %s: %s", ErrLogFailed, journalName(number), reason)
		l.lost.CompareAndSwap(nil, &err)
		return err
	}
	return nil
}

// has reports whether a file is still needed.
func (l *journal) has(number uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[number]
	return f != nil && !f.going
}
