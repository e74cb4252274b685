// Package warmcode gives the nodes of tests the compiled code of the standard plugins, which
// otherwise each node that is opened in a new directory compiles again: a quarter of a second of a
// processor, and several under the race detector.
//
// It owns where a node keeps that code. It knows nothing of what a node does with it: code that
// does not fit is compiled as usual. Only tests import it; it has no types of its own to hand out
// and starts no goroutines. The code is compiled once in a process and never outlives it, so that
// no test runs what an earlier state of the sources compiled.
package warmcode

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/wasmhost"
)

// code is the content of the folder where a plugin host keeps what it compiled.
type code struct {
	files map[string][]byte // by path in the folder
	err   error
}

var compiled = sync.OnceValue(compile)

func compile() (c code) {
	dir, err := os.MkdirTemp("", "pentad-code-")
	if err != nil {
		return code{err: err}
	}
	defer func() { c.err = errors.Join(c.err, os.RemoveAll(dir)) }()
	ctx := context.Background()
	h, err := wasmhost.New(ctx, wasmhost.Options{CacheDir: dir, GoProfile: true})
	if err != nil {
		return code{err: err}
	}
	for _, p := range plugins.Standard() {
		m, err := h.Load(ctx, p.Wasm)
		if err != nil {
			return code{err: errors.Join(err, h.Close(ctx))}
		}
		m.Close()
	}
	if err := h.Close(ctx); err != nil {
		return code{err: err}
	}
	c.files = map[string][]byte{}
	c.err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		c.files[name], err = os.ReadFile(path)
		return err
	})
	return c
}

// Fill puts the code into the directory of a node that is about to be opened, stand-alone or in a
// cluster. What a node has of its own stays.
func Fill(t testing.TB, nodeDir string, inCluster bool) {
	t.Helper()
	folder := filepath.Join(nodeDir, "plugins", "cache")
	if inCluster {
		folder = filepath.Join(nodeDir, "cluster", "plugins", "cache")
	}
	if _, err := os.Stat(folder); err == nil {
		return
	}
	c := compiled()
	if c.err != nil {
		t.Fatalf("compile the standard plugins: %v", c.err)
	}
	for name, text := range c.files {
		path := filepath.Join(folder, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatalf("give a node compiled code: %v", err)
		}
	}
}
