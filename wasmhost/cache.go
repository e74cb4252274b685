package wasmhost

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/tetratelabs/wazero"
)

// codeCache is compiled code in memory and, with a directory, on disk. Entries are keyed by the
// rewritten module, hence by the original's digest; the directory's name holds the versions of
// the instrumenter and of wazero.
type codeCache struct {
	code wazero.CompilationCache
	dir  string // empty without a directory
}

const cachePrefix = "code-"

func openCodeCache(root string) (*codeCache, error) {
	if root == "" {
		return &codeCache{code: wazero.NewCompilationCache()}, nil
	}
	current := fmt.Sprintf("%sfuel%d-wazero-%s", cachePrefix, instrumenterVersion, wazeroVersion())
	dir := filepath.Join(root, current)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the code cache: %w", err)
	}
	for _, d := range []string{root, dir} {
		if err := os.Chmod(d, 0o700); err != nil {
			return nil, fmt.Errorf("protect the code cache: %w", err)
		}
	}
	if err := sweep(root, current); err != nil {
		return nil, fmt.Errorf("sweep the code cache: %w", err)
	}
	code, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the code cache: %w", err)
	}
	return &codeCache{code: code, dir: dir}, nil
}

// sweep removes the directories of other versions, which wazero leaves behind.
func sweep(root, current string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != current && strings.HasPrefix(e.Name(), cachePrefix) {
			if err := os.RemoveAll(filepath.Join(root, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// files counts the cached modules, 0 without a directory.
func (c *codeCache) files() int {
	n := 0
	_ = c.walk(func(string) error { n++; return nil })
	return n
}

// clear removes all cached files: one of them is damaged, and wazero does not say which.
func (c *codeCache) clear() error { return c.walk(os.Remove) }

func (c *codeCache) walk(visit func(path string) error) error {
	if c.dir == "" {
		return nil
	}
	return filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return visit(path)
	})
}

// wazeroVersion is the version of wazero that this program was built with.
func wazeroVersion() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/tetratelabs/wazero" {
				return dep.Version
			}
		}
	}
	return "unknown"
}
