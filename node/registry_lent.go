package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/internal/catalog"
)

const (
	// maxLentBytes bounds modules that are not the node's at one time, which take several times as
	// much when they are compiled: eight queries with the largest ones.
	maxLentBytes = 64 << 20
	// maxIdleBytes bounds those of them that no query uses: six programs built by Go, whose code
	// has some 10 MB each, or hundreds of other plugins.
	maxIdleBytes = 16 << 20
	maxIdle      = 256
)

// lent are modules that came with queries. Each is compiled once for all queries that bring it, on
// disk it is nowhere. One that no query uses any more stays compiled as long as there is room. A
// registry guards them by its mu.
type lent struct {
	modules   map[string]*loaded // by digest
	idle      []string           // digests of those without uses, the one used last in the end
	bytes     int                // of all, also of those that are being compiled
	idleBytes int
}

// take begins a use of a module that is there.
func (t *lent) take(digest string) *loaded {
	l := t.modules[digest]
	if l == nil {
		return nil
	}
	if l.uses++; l.uses == 1 {
		t.idle = slices.DeleteFunc(t.idle, func(d string) bool { return d == digest })
		t.idleBytes -= l.lent
	}
	return l
}

// reserve takes room for a module, for which idle ones go, and reports whether there was any.
func (t *lent) reserve(bytes int) bool {
	if bytes > maxLentBytes-t.bytes+t.idleBytes {
		return false
	}
	for bytes > maxLentBytes-t.bytes {
		t.dropIdle()
	}
	t.bytes += bytes
	return true
}

// release ends the last use of a module.
func (t *lent) release(digest string, l *loaded) {
	if t.modules[digest] != l { // another query was as quick to compile it
		t.bytes -= l.lent
		_ = l.module.Close() // frees memory only
		return
	}
	t.idle = append(t.idle, digest)
	t.idleBytes += l.lent
	for t.idleBytes > maxIdleBytes || len(t.idle) > maxIdle {
		t.dropIdle()
	}
}

// dropIdle closes the module that was used longest ago.
func (t *lent) dropIdle() {
	l := t.modules[t.idle[0]]
	delete(t.modules, t.idle[0])
	t.idle = t.idle[1:]
	t.idleBytes -= l.lent
	t.bytes -= l.lent
	_ = l.module.Close() // frees memory only
}

// lend compiles a module that is not the node's, unless that was done for another query.
func (r *registry) lend(
	ctx context.Context, name string, wasm []byte,
) (*pluginVersion, error) {
	v := &pluginVersion{name: name,
		Version: catalog.Version{SHA256: digestOf(wasm), Bytes: int64(len(wasm))}}
	r.mu.Lock()
	if v.loaded = r.lent.take(v.SHA256); v.loaded != nil {
		r.mu.Unlock()
		return v, nil
	}
	room := r.lent.reserve(len(wasm))
	r.mu.Unlock()
	if !room {
		return nil, fmt.Errorf("modules that come with queries: %w", errTooBusy)
	}
	l, err := compile(ctx, r.lender, name, wasm)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.lent.bytes -= len(wasm)
		return nil, err
	}
	l.lent, l.uses = len(wasm), 1
	if r.lent.modules[v.SHA256] == nil { // else another query was as quick, and each has its own
		r.lent.modules[v.SHA256] = l
	}
	v.loaded = l
	return v, nil
}
