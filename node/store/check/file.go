package check

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/api"
)

// Kind is what a file of a store is.
type Kind string

// What a file of a store can be.
const (
	KindSegment  Kind = "segment"
	KindLog      Kind = "log"
	KindManifest Kind = "manifest"
	KindWriters  Kind = "writers"
)

// ErrUnknownFile means that a file is none of a store.
var ErrUnknownFile = errors.New("it is not a file of a store: those are segments (.seg), log " +
	"files (.log), MANIFEST and WRITERS")

// KindOf tells what a file is: by its name, or when that says nothing by how it starts.
//
// Errors: ErrUnknownFile, and those of the file system.
func KindOf(path string) (Kind, error) {
	name := filepath.Base(path)
	switch {
	case name == layout.ManifestFile:
		return KindManifest, nil
	case name == layout.WritersFile:
		return KindWriters, nil
	case strings.HasSuffix(name, layout.SegmentSuffix):
		return KindSegment, nil
	}
	if _, ok := wal.ParseName(path); ok {
		return KindLog, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	start := make([]byte, 10)
	if _, err := io.ReadFull(f, start); err != nil {
		return "", fmt.Errorf("%s: %w", path, ErrUnknownFile)
	}
	switch {
	case segment.StartsSealed(start):
		return KindSegment, nil
	case wal.StartsFile(start):
		return KindLog, nil
	case binary.LittleEndian.Uint32(start) == writers.Magic:
		return KindWriters, nil
	case start[8] == ' ' && start[9] == '{':
		return KindManifest, nil
	}
	return "", fmt.Errorf("%s: %w", path, ErrUnknownFile)
}

// File reads one file of a store, which may be open, and changes nothing. Directory also compares
// it with what other files say of it.
//
// Errors: ErrUnknownFile, ctx.Err(), and those of the file system. Damage is in the report.
func File(ctx context.Context, path string, opt Options) (api.CheckReport, error) {
	c := New(ctx, opt)
	kind, err := KindOf(path)
	if err != nil {
		return c.End(), err
	}
	switch kind {
	case KindSegment:
		err = c.Segment(path, nil)
	case KindLog:
		err = NewLog(c).File(path, -1, true)
	case KindManifest:
		_, err = c.manifestFile(path)
	case KindWriters:
		err = c.Writers(path)
	}
	return c.End(), err
}
