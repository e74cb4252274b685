package store

import "github.com/pentad-db/pentad/node/segment"

func corrupt(file string, offset int64, reason string) error {
	return &segment.CorruptError{File: file, Offset: offset, Reason: reason}
}
