package replica

import (
	"fmt"
	"path/filepath"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// CheckFiles makes the log fail, and calls Options.Fail, when a file of it was removed, replaced or
// cut while it is open: what is written to it would be lost with the process.
//
// Cost: two calls of the system for each file.
func (c *Core) CheckFiles() {
	if err := c.journal.checkFiles(); err != nil {
		c.fail(err)
	}
}

func (l *journal) checkFiles() error {
	dir, ok := l.dir.(durable.Dir)
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
		open, _ := f.file.(durable.Opened)
		reason := durable.Lost(filepath.Join(string(dir), journalName(number)), open, f.size)
		if reason == "" || !l.needsFile(number) {
			continue
		}
		err := fmt.Errorf("%w: %s: %s", ErrLogFailed, journalName(number), reason)
		l.lost.CompareAndSwap(nil, &err)
		return err
	}
	return nil
}

// needsFile reports whether a file is still needed.
func (l *journal) needsFile(number uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[number]
	return f != nil && !f.going
}
