package layout

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/journal"
)

// Snapshot describes a snapshot: it holds every row with an acq below AcqNs, and no other. It is
// one line "crc32c json" of the file SNAPSHOT, as those of MANIFEST.
type Snapshot struct {
	AcqNs     int64 `json:"acq_ns"`
	CreatedNs int64 `json:"created_ns"`
	// Index of a replica's snapshot is that of the last command whose effect it holds.
	Index    uint64 `json:"index,omitempty"`
	Segments int    `json:"segments"`
	Bytes    int64  `json:"bytes"` // of its files, most of them shared with the store
	TookNs   int64  `json:"took_ns"`
}

// ReadSnapshot describes the snapshot in a directory.
//
// Errors: os.ErrNotExist when it is none, or has been opened as a store; *durable.CorruptError.
func ReadSnapshot(dir string) (Snapshot, error) {
	name := filepath.Join(dir, SnapshotFile)
	text, err := os.ReadFile(name)
	if err != nil {
		return Snapshot{}, fmt.Errorf("read snapshot: %w", err)
	}
	info, err := parseSnapshot(text)
	if err != nil {
		return Snapshot{}, &durable.CorruptError{File: name, Reason: err.Error()}
	}
	return info, nil
}

func parseSnapshot(text []byte) (info Snapshot, err error) {
	line, ended := bytes.CutSuffix(text, []byte("\n"))
	if !ended {
		return info, errors.New("the line does not end")
	}
	return info, journal.ParseLine(line, &info)
}
