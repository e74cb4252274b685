package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store/layout"
)

// manifestFormat of the description of a snapshot. 1: first.
const manifestFormat = 1

const (
	// maxManifestBytes bounds the manifest of a snapshot: no store has that many files.
	maxManifestBytes = 64 << 20
	lockFile         = "LOCK" // of a process, not part of the state
)

// fileForm matches names of files of a snapshot.
var fileForm = regexp.MustCompile(
	`^(MANIFEST|WRITERS|SNAPSHOT|[0-9]{8,20}\.seg|log/[0-9]{10,20}\.log)$`)

// manifest describes a snapshot.
type manifest struct {
	Format int        `json:"format"`
	Index  uint64     `json:"index"`
	Files  []fileMeta `json:"files"`
}

type fileMeta struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// snapshot is a snapshot of the store in a directory of hard links.
type snapshot struct {
	dir  string
	meta manifest
	text []byte
}

// Snapshot returns the state as of the last entry that was applied.
// Cost: one hard link for each file; writes wait meanwhile.
func (m *Machine) Snapshot() (replica.Snapshot, error) {
	if err := os.MkdirAll(m.path(snapshotsDir), 0o755); err != nil {
		return nil, fmt.Errorf("snapshot of replica: %w", err)
	}
	number := strconv.FormatUint(m.snapshots.Add(1), 10)
	s := &snapshot{dir: filepath.Join(m.path(snapshotsDir), number)}
	info, err := m.store.Load().Snapshot(context.Background(), s.dir) // Close ends its waits
	if err != nil {
		return nil, err
	}
	s.meta = manifest{Format: manifestFormat, Index: own(m.store.Load(), info.Index)}
	if err := s.list(); err != nil {
		return nil, errors.Join(fmt.Errorf("snapshot of replica: %w", err), os.RemoveAll(s.dir))
	}
	return s, nil
}

// list lists the files.
func (s *snapshot) list() error {
	err := filepath.WalkDir(s.dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == lockFile {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err = filepath.Rel(s.dir, name)
		s.meta.Files = append(s.meta.Files, fileMeta{filepath.ToSlash(name), info.Size()})
		return err
	})
	if err == nil {
		s.text, err = json.Marshal(&s.meta)
	}
	return err
}

func (s *snapshot) Index() uint64    { return s.meta.Index }
func (s *snapshot) Manifest() []byte { return s.text }

func (s *snapshot) Open(name string) (io.ReadCloser, error) {
	if !slices.ContainsFunc(s.meta.Files, func(f fileMeta) bool { return f.Name == name }) {
		return nil, fmt.Errorf("open %q of a snapshot: %w", name, fs.ErrNotExist)
	}
	return os.Open(filepath.Join(s.dir, filepath.FromSlash(name)))
}

// Close removes the links. Links that cannot be removed are removed at the next Open.
func (s *snapshot) Close() { _ = os.RemoveAll(s.dir) }

// parseManifest parses the manifest of a snapshot, which comes from a peer.
func parseManifest(text []byte) (*manifest, error) {
	if len(text) > maxManifestBytes {
		return nil, fmt.Errorf("description of %d bytes, at most %d", len(text), maxManifestBytes)
	}
	m := new(manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("description: %w", err)
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("description of format %d; this program reads format %d", m.Format,
			manifestFormat)
	}
	seen := map[string]bool{}
	for _, f := range m.Files {
		if !fileForm.MatchString(f.Name) || path.Clean(f.Name) != f.Name || seen[f.Name] ||
			f.Bytes < 0 {
			return nil, fmt.Errorf("description names %q of %d bytes, which is no file of a "+
				"store, or twice", f.Name, f.Bytes)
		}
		seen[f.Name] = true
	}
	if !seen["MANIFEST"] || !seen["SNAPSHOT"] {
		return nil, fmt.Errorf("description of %d files names no snapshot: %w", len(m.Files),
			layout.ErrNoStore)
	}
	return m, nil
}
