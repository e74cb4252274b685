package store

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
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
)

// fileKind is what a file of a store is.
type fileKind string

const (
	kindSegment  fileKind = "segment"
	kindLog      fileKind = "log"
	kindManifest fileKind = "manifest"
	kindWriters  fileKind = "writers"
)

// ErrUnknownFile means that a file is none of a store.
var ErrUnknownFile = errors.New("it is no file of a store: those are sealed segments (.seg), log " +
	"files (.log), MANIFEST and WRITERS")

// kindOf tells what a file is: by its name, or when that says nothing by how it starts.
func kindOf(path string) (fileKind, error) {
	name := filepath.Base(path)
	switch {
	case name == layout.ManifestFile:
		return kindManifest, nil
	case name == layout.WritersFile:
		return kindWriters, nil
	case strings.HasSuffix(name, layout.SegmentSuffix):
		return kindSegment, nil
	}
	if _, ok := segment.ParseLogName(path); ok {
		return kindLog, nil
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
		return kindSegment, nil
	case segment.StartsLog(start):
		return kindLog, nil
	case binary.LittleEndian.Uint32(start) == writersMagic:
		return kindWriters, nil
	case start[8] == ' ' && start[9] == '{':
		return kindManifest, nil
	}
	return "", fmt.Errorf("%s: %w", path, ErrUnknownFile)
}

// CheckFile reads one file of a store, whoever has it open, and changes nothing. What other files
// say of it is not compared: that is Check.
//
// Errors: ErrUnknownFile, ctx.Err(), and those of the file system. Damage is in the report.
func CheckFile(ctx context.Context, path string, opt check.Options) (api.CheckReport, error) {
	c := newChecker(ctx, opt)
	kind, err := kindOf(path)
	if err != nil {
		return c.End(), err
	}
	switch kind {
	case kindSegment:
		_, err = c.segment(path, nil)
	case kindLog:
		err = (&logCheck{checker: c}).file(path, -1, true)
	case kindManifest:
		_, err = c.manifestFile(path)
	case kindWriters:
		err = c.writersFile(path)
	}
	return c.End(), err
}
