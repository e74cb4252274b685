package wal

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// LinkTo makes the empty directory dir a log of its own that holds every append so far, and then
// one append of entries in a file that only it has. The other files are hard links of the ones
// here, and this log goes on in a new file: none of them is written again. The caller syncs dir.
//
// Errors: of a log that failed, ErrFailed; what this log holds is the same after any error.
// Cost: a link for each file, one synced write, and a sync of what was not.
func (l *Log) LinkTo(dir string, entries []Entry) error {
	if err := l.Sync(); err != nil {
		return err
	}
	l.Roll()
	sizes, next := l.Files(), l.number
	for _, number := range slices.Sorted(maps.Keys(sizes)) {
		if sizes[number] == 0 {
			continue // the newest one, which this log is going to write
		}
		next = number + 1
		if err := os.Link(l.Path(number), filepath.Join(dir, fileName(number))); err != nil {
			return fmt.Errorf("link log file: %w", err)
		}
	}
	f, err := durable.Dir(dir).Create(fileName(next))
	if err != nil {
		return fmt.Errorf("start log: %w", err)
	}
	size := 0
	for i := range entries {
		size += entries[i].size()
	}
	seq, _, _ := l.state()
	_, err = f.WriteAt(encodeAppend(nil, seq+1, 0, 0, entries, size), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("start log: %w", err)
	}
	return nil
}
