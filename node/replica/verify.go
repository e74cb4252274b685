package replica

import "context"

// forgetter is a File that lets the system forget what memory has of it, so that it is read from
// the disk.
type forgetter interface{ Forget() }

// Verify reads the entries in the files of the log that are not written to any more, and names the
// first of each group that is damaged. Everything else goes on meanwhile. What no group needs any
// more is left out, and so is what the newest file begins with once more. pace is told, after each
// entry, of its bytes and of those of all files, and may wait.
//
// Errors: ErrClosed; those of pace. Damage goes to the callback.
func (c *Core) Verify(ctx context.Context, pace func(ctx context.Context, n, all int64) error,
	damaged func(group GroupID, err error)) error {
	closed := c.journal.forget()
	_, all := c.journal.extent()
	for _, g := range c.journal.all() {
		next := uint64(0)
		for {
			at, index, ok := g.entryFrom(next, closed)
			if !ok {
				break
			}
			next = index + 1
			if err := c.journal.verify(g, index, at); err != nil {
				if c.isClosed() { // and its files with it
					return ErrClosed
				}
				damaged(g.group, err)
				break
			}
			if err := pace(ctx, int64(at.size), all); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Core) isClosed() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.closed
}

// forget lets the system forget the files but for the newest, and returns the number of the last of
// them.
func (l *journal) forget() (closed uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for number, f := range l.files {
		if file, ok := f.file.(forgetter); ok && number != l.number {
			file.Forget()
		}
	}
	return l.number - 1
}

// entryFrom returns the place of the first entry from an index on that lies in a file up to the
// last one, of a group that is well.
func (g *groupLog) entryFrom(index uint64, last uint32) (at position, found uint64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	index = max(index, g.first)
	for ; g.damage == nil && index <= g.last(); index++ {
		if at := g.entries[index-g.first]; at.file <= last {
			return at, index, true
		}
	}
	return position{}, 0, false
}

// verify reads an entry. One that was replaced or written once more meanwhile is not damaged.
func (l *journal) verify(g *groupLog, index uint64, at position) error {
	_, err := l.read(g.group, index, at)
	if err == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if index < g.first || index > g.last() || g.entries[index-g.first] != at {
		return nil
	}
	if _, err = l.read(g.group, index, at); err == nil {
		return nil
	}
	return err
}
