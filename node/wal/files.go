package wal

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/internal/durable"
)

const (
	fileSuffix = ".log"

	// defaultFileBytes is small enough that sealed rows soon free a whole file.
	defaultFileBytes = 64 << 20
)

func fileName(number uint64) string { return fmt.Sprintf("%010d%s", number, fileSuffix) }

// ParseName returns the number in the name of a log file.
func ParseName(path string) (number uint64, ok bool) {
	name := filepath.Base(path)
	number, err := strconv.ParseUint(strings.TrimSuffix(name, fileSuffix), 10, 63)
	return number, err == nil && number != 0 && fileName(number) == name
}

// Roll lets the next append begin a new file, so that Remove can delete what is there now.
func (l *Log) Roll() { l.full = l.full || l.size > 0 }

// roll starts the next file, once the old one is synced.
func (l *Log) roll() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.syncNewest(); err != nil {
		return err
	}
	f, err := l.dir.Create(fileName(l.number + 1))
	if durable.IsNoSpace(err) {
		return durable.NoSpace("make", l.Path(l.number+1), err)
	}
	if err != nil {
		return l.fail(err)
	}
	old := l.newest
	l.number++
	l.size, l.full = 0, false
	l.mu.Lock()
	l.newest, l.sizes[l.number] = f, 0
	l.mu.Unlock()
	err = l.dir.Sync()
	if old != nil {
		err = errors.Join(err, old.Close())
	}
	if err != nil {
		return l.fail(err)
	}
	return nil
}

// Remove deletes the files numbered below belowNumber, but never the newest. What it could not
// delete it tries again the next time.
func (l *Log) Remove(belowNumber uint64) error {
	l.mu.Lock()
	numbers := slices.Sorted(maps.Keys(l.sizes))
	l.mu.Unlock()
	for i, number := range numbers {
		if number >= belowNumber || i == len(numbers)-1 {
			break
		}
		if err := l.dir.Remove(fileName(number)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove log file: %w", err)
		}
		// Oldest first and synced one by one: a crash must not leave a gap in the numbers.
		if err := l.dir.Sync(); err != nil {
			return fmt.Errorf("remove log file: sync %s: %w", l.path, err)
		}
		l.mu.Lock()
		delete(l.sizes, number)
		l.mu.Unlock()
	}
	return nil
}

// Files returns the bytes of each file that hold whole appends, by its number.
func (l *Log) Files() map[uint64]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.sizes)
}

// Path returns the name of a file of the log.
func (l *Log) Path(number uint64) string { return filepath.Join(l.path, fileName(number)) }

func (l *Log) setSize(number uint64, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes[number] = size
}
