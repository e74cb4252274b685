package registry

import (
	"context"
	"errors"
	"slices"

	"github.com/pentad-db/pentad/node/internal/catalog"
)

const (
	// maxAdHocBytes bounds modules that are not the node's at one time, which take several times as
	// much when they are compiled: eight queries with the largest ones.
	maxAdHocBytes = 64 << 20
	// maxIdleBytes bounds those of them that no query uses: six programs built by Go, whose code
	// has some 10 MB each, or hundreds of other plugins.
	maxIdleBytes = 16 << 20
	maxIdle      = 256
)

// ErrBusy is returned for a module for which there is no space beside those in use.
var ErrBusy = errors.New("modules that come with queries: too many requests at once")

// adHocModules are modules that queries bring. Each is compiled once for all queries that bring it,
// and is never written to disk. Unused ones stay compiled within a limit, least recently used first
// to go. The registry's mu guards them.
type adHocModules struct {
	modules   map[string]*loaded // by digest
	idle      []string           // digests of unused modules, least recently used first
	bytes     int                // of all, including those being compiled
	idleBytes int
}

// pin begins a use of a compiled module; it returns nil if there is none.
func (t *adHocModules) pin(digest string) *loaded {
	l := t.modules[digest]
	if l == nil {
		return nil
	}
	if l.uses++; l.uses == 1 {
		t.idle = slices.DeleteFunc(t.idle, func(d string) bool { return d == digest })
		t.idleBytes -= l.adHocBytes
	}
	return l
}

// reserve reserves memory for a module, evicts idle ones for it, and reports whether that sufficed.
func (t *adHocModules) reserve(bytes int) bool {
	if bytes > maxAdHocBytes-t.bytes+t.idleBytes {
		return false
	}
	for bytes > maxAdHocBytes-t.bytes {
		t.dropIdle()
	}
	t.bytes += bytes
	return true
}

// unpin ends the last use of a module.
func (t *adHocModules) unpin(digest string, l *loaded) {
	if t.modules[digest] != l { // another query compiled it at the same time
		t.bytes -= l.adHocBytes
		_ = l.Module.Close() // frees memory only
		return
	}
	t.idle = append(t.idle, digest)
	t.idleBytes += l.adHocBytes
	for t.idleBytes > maxIdleBytes || len(t.idle) > maxIdle {
		t.dropIdle()
	}
}

// dropIdle closes the least recently used module.
func (t *adHocModules) dropIdle() {
	l := t.modules[t.idle[0]]
	delete(t.modules, t.idle[0])
	t.idle = t.idle[1:]
	t.idleBytes -= l.adHocBytes
	t.bytes -= l.adHocBytes
	_ = l.Module.Close() // frees memory only
}

// useAdHoc begins a use of a module that a query brings, and compiles it if needed.
func (r *Registry) useAdHoc(
	ctx context.Context, name string, wasm []byte,
) (*Version, error) {
	if r.off != nil {
		return nil, r.off
	}
	v := &Version{Name: name,
		Version: catalog.Version{SHA256: Digest(wasm), Bytes: int64(len(wasm))}}
	r.mu.Lock()
	if v.loaded = r.adHoc.pin(v.SHA256); v.loaded != nil {
		r.mu.Unlock()
		return v, nil
	}
	fits := r.adHoc.reserve(len(wasm))
	r.mu.Unlock()
	if !fits {
		return nil, ErrBusy
	}
	l, err := compile(ctx, r.adHocHost, name, wasm)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.adHoc.bytes -= len(wasm)
		return nil, err
	}
	l.adHocBytes, l.uses = len(wasm), 1
	// If another query compiled it at the same time, each has its own.
	if r.adHoc.modules[v.SHA256] == nil {
		r.adHoc.modules[v.SHA256] = l
	}
	v.loaded = l
	return v, nil
}
