package wasmhost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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
//
// wazero names files by more than we know, so a line in owners/SHA256 says for each module which
// file is its own: that is seen when it is written. Modules that are the same once rewritten share
// one. The line is written after the file and removed before it; a crash between leaves a file that
// no line owns, and sweepFiles removes those.
type codeCache struct {
	code wazero.CompilationCache
	dir  string // empty without a directory
}

const (
	cachePrefix  = "code-"
	ownersFolder = "owners"
	maxOwnerLine = 1 << 10 // a digest and the name of a file of the runtime's, some 150 bytes
)

func openCodeCache(root string) (*codeCache, error) {
	if root == "" {
		return &codeCache{code: wazero.NewCompilationCache()}, nil
	}
	current := fmt.Sprintf("%sfuel%d-wazero-%s", cachePrefix, instrumenterVersion, wazeroVersion())
	dir := filepath.Join(root, current)
	if err := os.MkdirAll(filepath.Join(dir, ownersFolder), 0o700); err != nil {
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

// files returns the files of code, by their paths below the directory.
func (c *codeCache) files() map[string]bool {
	all := map[string]bool{}
	_ = c.walk(func(path string) error {
		if name, err := filepath.Rel(c.dir, path); err == nil {
			all[name] = true
		}
		return nil
	})
	return all
}

// codeOwner is a line of owners: which file a module has, and what it is once rewritten.
type codeOwner struct{ rewritten, file string }

func (c *codeCache) ownerPath(digest [32]byte) string {
	return filepath.Join(c.dir, ownersFolder, hex.EncodeToString(digest[:]))
}

// owners returns the lines by the digests of modules, in hex. Other files are skipped.
func (c *codeCache) owners() (map[string]codeOwner, error) {
	entries, err := os.ReadDir(filepath.Join(c.dir, ownersFolder))
	if err != nil {
		return nil, err
	}
	all := map[string]codeOwner{}
	for _, e := range entries {
		line, err := os.ReadFile(filepath.Join(c.dir, ownersFolder, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // discarded meanwhile
		}
		if err != nil {
			return nil, err
		}
		fields := strings.Fields(string(line))
		if len(fields) == 2 && strings.HasSuffix(string(line), "\n") {
			all[e.Name()] = codeOwner{fields[0], fields[1]}
		}
	}
	return all, nil
}

// knows reports whether this module was valid and compiled before: only then it gets a line. The
// validator is that of the version of wazero which the directory is named after.
func (c *codeCache) knows(digest [32]byte) bool {
	if c.dir == "" {
		return false
	}
	_, err := os.Stat(c.ownerPath(digest))
	return err == nil
}

// owns reports whether the code of a module is there, by its line: without a look at all others,
// of which there may be thousands.
func (c *codeCache) owns(digest [32]byte, rewritten []byte) bool {
	f, err := os.Open(c.ownerPath(digest))
	if err != nil {
		return false
	}
	line, err := io.ReadAll(io.LimitReader(f, maxOwnerLine))
	err = errors.Join(err, f.Close())
	sum := sha256.Sum256(rewritten)
	name, ok := strings.CutPrefix(string(line), hex.EncodeToString(sum[:])+" ")
	if err != nil || !ok || !strings.HasSuffix(name, "\n") {
		return false
	}
	_, err = os.Stat(filepath.Join(c.dir, filepath.Clean("/"+strings.TrimSuffix(name, "\n"))))
	return err == nil
}

// own notes which file the code of a module is in, after it was compiled: a new one, or that of a
// module which is the same once rewritten.
func (c *codeCache) own(digest [32]byte, rewritten []byte, before map[string]bool) error {
	sum := sha256.Sum256(rewritten)
	o := codeOwner{rewritten: hex.EncodeToString(sum[:])}
	for name := range c.files() {
		if !before[name] {
			o.file = name
		}
	}
	if o.file == "" {
		all, err := c.owners()
		if err != nil {
			return err
		}
		for _, other := range all {
			if other.rewritten == o.rewritten {
				o = other
			}
		}
	}
	if o.file == "" {
		return nil // its line was lost; it is removed with files without an owner
	}
	return os.WriteFile(c.ownerPath(digest), []byte(o.rewritten+" "+o.file+"\n"), 0o600)
}

// discard removes the code of a module, unless it is another's, too.
func (c *codeCache) discard(digest [32]byte) error {
	if c.dir == "" {
		return nil
	}
	all, err := c.owners()
	if err != nil {
		return err
	}
	o := all[hex.EncodeToString(digest[:])]
	if err := remove(c.ownerPath(digest)); err != nil || o.file == "" {
		return err
	}
	delete(all, hex.EncodeToString(digest[:]))
	for _, other := range all {
		if other.file == o.file {
			return nil
		}
	}
	return remove(filepath.Join(c.dir, filepath.Clean("/"+o.file)))
}

// sweepFiles removes the lines of modules that are not kept, and the files that no line owns.
// Nothing may be compiled meanwhile.
func (c *codeCache) sweepFiles(keep func(digest string) bool) error {
	if c.dir == "" {
		return nil
	}
	all, err := c.owners()
	if err != nil {
		return err
	}
	owned := map[string]bool{}
	for digest, o := range all {
		if keep(digest) {
			owned[o.file] = true
		}
	}
	entries, err := os.ReadDir(filepath.Join(c.dir, ownersFolder))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if o, ok := all[e.Name()]; !ok || !owned[o.file] || !keep(e.Name()) {
			if err := remove(filepath.Join(c.dir, ownersFolder, e.Name())); err != nil {
				return err
			}
		}
	}
	for name := range c.files() {
		if !owned[name] {
			if err := remove(filepath.Join(c.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a file that may be gone already.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// clear removes all cached files: one of them is damaged, and wazero does not say which.
func (c *codeCache) clear() error { return c.walk(os.Remove) }

func (c *codeCache) walk(visit func(path string) error) error {
	if c.dir == "" {
		return nil
	}
	return filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ownersFolder:
			return fs.SkipDir
		case d.IsDir():
			return nil
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
