// Package layout says what is where in the directory of a store: the names of its files, its lock,
// the sections of a segment and the entries of the log.
//
// It knows nothing of what rows mean, nor of the manifest. It has no main type and starts no
// goroutine.
package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/slots"
)

// Names in the directory of a store.
const (
	LogDir        = "log"      // the directory of the log files
	SegmentSuffix = ".seg"     // of sealed segments
	LockFile      = "LOCK"     // held while a process has the directory open
	ManifestFile  = "MANIFEST" // the journal of what is live
	WritersFile   = "WRITERS"  // results of puts by writer
	SnapshotFile  = "SNAPSHOT" // says that the snapshot was never opened as a store
	ScrubFile     = "SCRUB"    // how far the search for damage is
)

// Ids of the sections of a sealed segment.
const (
	SectionDirectory  = 1
	SectionPostings   = 2
	SectionRanks      = 3
	SectionWatermarks = 4 // watermarks of everything up to and with the segment
	SectionSeries     = 5 // series and their greatest caps, where rows are enough to pay for it
)

// MaxShards bounds the shards of one directory: more leave sealed segments too small.
const MaxShards = 1024

var (
	// ErrLocked means that another process has the directory open.
	ErrLocked = errors.New("directory is in use by another process; stop that one first")
	// ErrNoStore means that a directory holds no store.
	ErrNoStore = errors.New("there is no store here: MANIFEST is missing")
)

// SegmentName returns the name of the file of a segment.
func SegmentName(id uint64) string { return fmt.Sprintf("%08d%s", id, SegmentSuffix) }

// ShardOf returns which of some shards has the rows of a device.
func ShardOf(cid int32, mid int64, shards int) int {
	return slots.OwnerOf(slots.Of(cid, mid), shards)
}

// Lock takes the directory for this process until the file is closed.
//
// Errors: ErrLocked when another process has it.
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := flock(f, true); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// LockToRead keeps others from opening the store until the file is closed. The file is nil when the
// store was never opened.
//
// Errors: ErrLocked when another process has it.
func LockToRead(dir string) (*os.File, error) {
	f, err := os.Open(filepath.Join(dir, LockFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := flock(f, false); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// BadSection returns the error of a section whose checksum holds and which cannot be read: a
// *formats.Error for one of another version, else a *durable.CorruptError.
func BadSection(path, what string, err error) error {
	var version *index.VersionError
	if errors.As(err, &version) {
		if e := formats.Of(path, what, uint64(version.Version),
			uint64(version.Known)); e != nil {
			return e
		}
	}
	return &durable.CorruptError{File: path, Reason: what, Err: err}
}
