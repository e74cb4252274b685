package store

import "github.com/pentad-db/pentad/node/internal/durable"

func corrupt(file string, offset int64, reason string) error {
	return &durable.CorruptError{File: file, Offset: offset, Reason: reason}
}
