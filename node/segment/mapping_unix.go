//go:build unix

package segment

import (
	"os"

	"golang.org/x/sys/unix"
)

// mmap maps the first bytes of a file, to be read.
func mmap(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmap(data []byte) error { return unix.Munmap(data) }

// adviseSequential lets the system read ahead.
func adviseSequential(data []byte) {
	_ = unix.Madvise(data, unix.MADV_SEQUENTIAL) // only speed is lost without
}

// adviseRandom keeps the system from reading far ahead of every block that is touched: blocks are
// asked for here and there, and those who ask know which, see WillNeed.
func adviseRandom(data []byte) {
	_ = unix.Madvise(data, unix.MADV_RANDOM) // only speed is lost without
}

// WillNeed asks the system to start reading a range of the file. It does not wait.
//
// Cost: about a microsecond, whether or not the bytes are in memory.
func (s *File) WillNeed(offset, size uint64) {
	page := uint64(os.Getpagesize())
	from := offset &^ (page - 1)
	to := min(offset+size, uint64(len(s.data)))
	if from < to {
		_ = unix.Madvise(s.data[from:to], unix.MADV_WILLNEED) // only speed is lost without
	}
}
