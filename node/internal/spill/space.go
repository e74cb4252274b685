// Package spill sorts more records than fit into memory: sorted runs of them go to temporary files
// and are merged while they are read (an external merge sort).
//
// It knows nothing of questions and answers, and starts no goroutines. Its main types are [Space],
// the memory and the directory that all sorters of a process share, and [Sorter].
package spill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// Each sorter may hold some memory whatever the others hold, so that none waits for another: a
	// 16th of the total, at most so much. Merging takes about as much, see mergeRuns.
	floorShare = 16
	mostFloor  = 4 << 20
	// Of the disk, a 16th stays free for the data of the node, at most so much.
	reserveShare = 16
	mostReserve  = 1 << 30

	filePattern = "sort-*"
)

// ErrNoRoom means that the disk has no room for what does not fit into memory.
var ErrNoRoom = errors.New("no room for a temporary file")

// Space is memory and a directory that sorters share. All methods may be called from many
// goroutines.
type Space struct {
	dir   string
	total int64 // bytes of memory

	mu      sync.Mutex
	held    int64 // bytes of memory; guarded by mu
	sorters int64 // that are open; guarded by mu

	disk    atomic.Int64 // bytes of temporary files
	spilled atomic.Int64 // bytes written to such files ever
}

// New returns a space whose temporary files are in a directory, which is made when the first one
// is needed, and whose sorters hold some bytes of memory together.
func New(dir string, memoryBytes int64) *Space {
	return &Space{dir: dir, total: max(1, memoryBytes)}
}

// Stats says what a space holds.
type Stats struct {
	MemoryBytes  int64 // of records that are being sorted
	DiskBytes    int64 // of temporary files
	SpilledBytes int64 // written to temporary files since the start
}

// Stats returns the figures of now.
func (s *Space) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{MemoryBytes: s.held, DiskBytes: s.disk.Load(), SpilledBytes: s.spilled.Load()}
}

// Clean removes what a process left in the directory that was killed just as it made a file. No
// sorter may be open.
func (s *Space) Clean() (removed []string, err error) {
	all, err := filepath.Glob(filepath.Join(s.dir, filePattern))
	if err != nil {
		return nil, fmt.Errorf("list temporary files: %w", err)
	}
	for _, name := range all {
		if e := os.Remove(name); e != nil {
			err = errors.Join(err, fmt.Errorf("remove a temporary file: %w", e))
			continue
		}
		removed = append(removed, filepath.Base(name))
	}
	return removed, err
}

// take gives a sorter that holds some bytes n more, and reports whether it could: a sorter holds at
// most its even share of the total, or the floor.
func (s *Space) take(held, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	floor := min(s.total/floorShare, mostFloor)
	share := s.total / max(1, s.sorters)
	if held+n > floor && (held+n > share || s.held+n > s.total) {
		return false
	}
	s.held += n
	return true
}

func (s *Space) give(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= n
}

func (s *Space) count(sorters int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sorters += sorters
}

// create makes a temporary file, which has no name any more: the system removes it when it is
// closed, or the process ends in whatever way.
func (s *Space) create() (*os.File, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, s.failed(err)
	}
	f, err := os.CreateTemp(s.dir, filePattern)
	if err != nil {
		return nil, s.failed(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(s.failed(err), f.Close())
	}
	return f, nil
}

// room refuses to write n bytes more where that would leave the disk less than its reserve.
func (s *Space) room(n int64) error {
	var st unix.Statfs_t
	if unix.Statfs(s.dir, &st) != nil || st.Bsize <= 0 {
		return nil // the write will tell
	}
	block := uint64(st.Bsize)
	free, reserve := st.Bavail*block, min(st.Blocks*block/reserveShare, mostReserve)
	if free >= reserve && free-reserve >= uint64(n) {
		return nil
	}
	return s.noRoom(fmt.Sprintf("%s more are needed; %s are free, of which %s stay free for the "+
		"data", size(n), size(int64(free)), size(int64(reserve))))
}

// failed gives errors of the file system their place.
func (s *Space) failed(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, syscall.EFBIG) {
		return s.noRoom(err.Error())
	}
	return fmt.Errorf("temporary file in %s: %w", s.dir, err)
}

func (s *Space) noRoom(why string) error {
	return fmt.Errorf("%w: what does not fit into memory goes to %s, where it takes %s already: "+
		"%s; free space there, narrow the box, or set a limit", ErrNoRoom, s.dir,
		size(s.disk.Load()), why)
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", (n+1023)>>10)
}
