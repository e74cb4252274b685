package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/wholefile"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/store"
)

// What a node has beside its store.
const (
	pluginsDir = "plugins"
	cursorsDir = "cursors"
)

// besideStore lists what a backup keeps of a node beside its store: the catalogue, the modules that
// are what their names say, and the cursors. Damage of others must not keep records from a backup.
func (a *app) besideStore(dir string) ([]store.BesideFile, error) {
	files := []store.BesideFile{
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
			a.note("left out %s, which is damaged: its content is another than its name says", path)
			continue
		}
		files = append(files, store.BesideFile{Name: e.Name(), Path: path, Once: true})
	}
	return files, nil
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
func restoreBeside(dir string, files []store.BesideFile, untilNs int64) error {
	hasCursors := false
	for _, f := range files {
		to := filepath.Join(dir, pluginsDir)
		switch {
		case f.Name == cursors.Name:
			to, hasCursors = filepath.Join(dir, cursorsDir), true
		case f.Name != catalog.Name && !isModule(f.Name):
			return fmt.Errorf("%s is no file of a node; take the pentad that made the backup",
				f.Path)
		}
		content, err := os.ReadFile(f.Path)
		if err == nil {
			err = os.MkdirAll(to, 0o755)
		}
		if err == nil {
			err = wholefile.Replace(filepath.Join(to, f.Name), content)
		}
		if err != nil {
			return fmt.Errorf("restore %s: %w", f.Name, err)
		}
	}
	if !hasCursors {
		return nil
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
