// Package spill is an external merge sort of records: sorted runs go to temporary files when they
// exceed memory, and are merged while they are read.
//
// It knows nothing of queries, and starts no goroutines. Its main types are [Space], the memory and
// directory that all sorters of a process share, and [Sorter].
package spill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pentad-db/pentad/node/internal/durable"
)

const (
	// Each sorter may always have some memory, so that none waits for another: a 16th of the total,
	// at most this. A merge takes about as much, see mergeRuns.
	floorShare = 16
	mostFloor  = 4 << 20
	// A 16th of the disk stays free for the data of the node, at most this.
	reserveShare = 16
	mostReserve  = 1 << 30

	filePattern = "sort-*"
)

// ErrNoSpace means that the disk has no space for temporary files.
var ErrNoSpace = errors.New("no space for a temporary file")

// Space is the memory and the directory that sorters share. All methods may be called from many
// goroutines.
type Space struct {
	dir   string
	total int64 // bytes of memory

	mu      sync.Mutex
	held    int64 // bytes of memory; guarded by mu
	sorters int64 // open ones; guarded by mu

	disk    atomic.Int64 // bytes of temporary files
	spilled atomic.Int64 // bytes written to temporary files since the start
}

// New returns a space with temporary files in a directory, which is created when needed, and that
// many bytes of memory for all sorters.
func New(dir string, memoryBytes int64) *Space {
	return &Space{dir: dir, total: max(1, memoryBytes)}
}

// Stats are the figures of a space.
type Stats struct {
	MemoryBytes  int64 // of records that are being sorted
	DiskBytes    int64 // of temporary files
	SpilledBytes int64 // written to temporary files since the start
}

// Stats returns the current figures.
func (s *Space) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{MemoryBytes: s.held, DiskBytes: s.disk.Load(), SpilledBytes: s.spilled.Load()}
}

// Clean removes files that a process left in the directory when it was killed while creating one.
// No sorter may be open.
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

// take reserves n more bytes for a sorter that has held bytes, and reports whether it could: a
// sorter may have its even share of the total, or the floor.
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

// create creates a temporary file and unlinks it, so that the system removes it when it is closed
// or the process ends.
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

// checkFree returns an error if n more bytes would leave less than the reserve of the disk free.
func (s *Space) checkFree(n int64) error {
	disk, ok := durable.DiskOf(s.dir)
	if !ok {
		return nil // the write returns the error
	}
	free, reserve := disk.Free, min(disk.Bytes/reserveShare, mostReserve)
	if free >= reserve && free-reserve >= uint64(n) {
		return nil
	}
	return s.noSpace(fmt.Sprintf("%s more are needed; %s are free, of which %s stay free for the "+
		"data", size(n), size(int64(free)), size(int64(reserve))))
}

// failed adds the directory to errors of the file system.
func (s *Space) failed(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, syscall.EFBIG) {
		return s.noSpace(err.Error())
	}
	return fmt.Errorf("temporary file in %s: %w", s.dir, err)
}

func (s *Space) noSpace(why string) error {
	return fmt.Errorf("%w: what does not fit into memory goes to %s, where it takes %s already: "+
		"%s; free space there, narrow the box, or set a limit", ErrNoSpace, s.dir,
		size(s.disk.Load()), why)
}

// size formats a number of bytes.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", (n+1023)>>10)
}
