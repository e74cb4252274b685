package segment

import (
	"os"

	"golang.org/x/sys/unix"
)

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
