package store

import (
	"context"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// Archive is what tests need of package archive. That imports this package, so that only tests
// outside of it can: they hand it in.
type Archive struct {
	// Backup makes a part; nil when there is nothing new. An untilNs of 0 is the horizon.
	Backup  func(ctx context.Context, s *Store, to string, untilNs int64) (*Archived, error)
	Restore func(ctx context.Context, from, dir string, untilNs int64) (Restored, error)
	Parts   func(dir string) ([]Archived, error)
	Check   func(ctx context.Context, from string) (api.CheckReport, error)
	ErrGap  error
}

// Archived is a part of a backup.
type Archived struct {
	Store                 string
	FromAcqNs, UntilAcqNs int64
	Aside                 []uint64
	Lineage               record.Lineage
}

// Restored is what a restore restored.
type Restored struct{ Rows, UntilAcqNs int64 }

// archive is set before any test runs.
var archive Archive

// UseArchive hands package archive in.
func UseArchive(a Archive) bool {
	archive = a
	return true
}
