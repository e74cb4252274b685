package segment

import (
	"errors"
	"os"
)

// errWindows is what stands for a mapping: no store is opened on Windows.
var errWindows = errors.New("segments are not read on Windows")

func mmap(*os.File, int) ([]byte, error) { return nil, errWindows }

func unmap([]byte) error { return nil }

func adviseRandom([]byte) {}

func adviseSequential([]byte) {}

// WillNeed does nothing.
func (s *File) WillNeed(_, _ uint64) {}
