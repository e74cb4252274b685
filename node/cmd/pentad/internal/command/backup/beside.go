package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/store/archive"
)

// Directories of a node in addition to its store.
const (
	pluginsDir = "plugins"
	cursorsDir = "cursors"
)

// besideStore lists what a backup keeps in addition to the store: the catalogue, the modules that
// are what their names say, and the cursors. Damage of others must not keep records from a backup.
func (a *app) besideStore(dir string) ([]archive.ExtraFile, error) {
	files := []archive.ExtraFile{
		{Name: catalog.Name, Path: filepath.Join(dir, pluginsDir, catalog.Name)},
		{Name: cursors.Name, Path: filepath.Join(dir, cursorsDir, cursors.Name)}}
	entries, err := os.ReadDir(filepath.Join(dir, pluginsDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list modules: %w", err)
	}
	for _, e := range entries {
		if !isModule(e.Name()) {
			continue
		}
		path := filepath.Join(dir, pluginsDir, e.Name())
		wasm, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read module: %w", err)
		}
		if moduleName(wasm) != e.Name() {
			a.Note("omitted %s: damaged, its content does not match the digest in its name", path)
			continue
		}
		files = append(files, archive.ExtraFile{Name: e.Name(), Path: path, Once: true})
	}
	return files, nil
}

// besideReplicas is besideStore of a node of a cluster. One that does not run has the catalogue and
// the cursors in its state of the cluster; they are written to files, which done removes.
func (a *app) besideReplicas(dir string) (files []archive.ExtraFile, done func(), err error) {
	meta, err := member.ReadState(dir)
	if errors.Is(err, os.ErrNotExist) { // a snapshot has them as a node by itself
		files, err = a.besideStore(dir)
		return files, func() {}, err
	}
	if err != nil {
		return nil, nil, err
	}
	tmp, err := os.MkdirTemp("", "pentad-backup-")
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = os.RemoveAll(tmp) }
	state := catalog.File{State: meta.Catalog()}
	err = errors.Join(os.MkdirAll(filepath.Join(tmp, pluginsDir), 0o755),
		os.MkdirAll(filepath.Join(tmp, cursorsDir), 0o755))
	if err == nil {
		err = state.CopyTo(filepath.Join(tmp, pluginsDir))
	}
	if err == nil {
		err = cursors.Copy(filepath.Join(tmp, cursorsDir), meta.Cursors(), math.MaxInt64)
	}
	if err == nil {
		files, err = a.besideStore(tmp)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return append(files, a.keptModules(dir, state.State)...), done, nil
}

// keptModules lists the modules of a catalogue that a node of a cluster has whole.
func (a *app) keptModules(dir string, s catalog.State) (files []archive.ExtraFile) {
	met := map[string]bool{}
	for _, p := range s.Plugins {
		for _, v := range p.Versions {
			name := v.SHA256 + catalog.ModuleSuffix
			if met[name] {
				continue
			}
			met[name] = true
			places := member.ModulePaths(dir, name)
			i := slices.IndexFunc(places, func(place string) bool {
				wasm, err := os.ReadFile(place)
				return err == nil && moduleName(wasm) == name
			})
			if i < 0 {
				a.Note("omitted module %s: not intact on this node; use a snapshot of the "+
					"running node, or back up another node", name)
				continue
			}
			files = append(files, archive.ExtraFile{Name: name, Path: places[i], Once: true})
		}
	}
	slices.SortFunc(files, func(x, y archive.ExtraFile) int {
		return strings.Compare(x.Name, y.Name)
	})
	return files
}

func moduleName(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return hex.EncodeToString(sum[:]) + catalog.ModuleSuffix
}

func isModule(name string) bool {
	digest, ok := strings.CutSuffix(name, catalog.ModuleSuffix)
	return ok && len(digest) == 2*sha256.Size && strings.Trim(digest, "0123456789abcdef") == ""
}

// restoreBeside gives a new node what besideStore listed. No cursor lies above the last acq.
func restoreBeside(dir string, files []archive.ExtraFile, untilNs int64) error {
	hasCursors := false
	for _, f := range files {
		to := filepath.Join(dir, pluginsDir)
		switch {
		case f.Name == cursors.Name:
			to, hasCursors = filepath.Join(dir, cursorsDir), true
		case f.Name != catalog.Name && !isModule(f.Name):
			return fmt.Errorf("%s: unknown file; use the pentad version that wrote this backup",
				f.Path)
		}
		content, err := os.ReadFile(f.Path)
		if err == nil {
			err = os.MkdirAll(to, 0o755)
		}
		if err == nil {
			err = durable.ReplaceShared(filepath.Join(to, f.Name), durable.Content(content))
		}
		if err != nil {
			return fmt.Errorf("restore %s: %w", f.Name, err)
		}
	}
	if !hasCursors {
		if err := os.MkdirAll(filepath.Join(dir, cursorsDir), 0o755); err != nil {
			return fmt.Errorf("restore cursors: %w", err)
		}
		return cursors.Copy(filepath.Join(dir, cursorsDir), nil, untilNs)
	}
	c, err := cursors.Open(filepath.Join(dir, cursorsDir))
	if err != nil {
		return fmt.Errorf("restore cursors: %w", err)
	}
	if slices.ContainsFunc(c.List(), func(o cursors.Cursor) bool { return o.AcqNs > untilNs }) {
		err = c.CopyTo(filepath.Join(dir, cursorsDir), untilNs)
	}
	return errors.Join(err, c.Close())
}
