// Package memdir is a directory in memory for tests. It knows what of it outlives a loss of power,
// has as much space as it is told, and fails on demand.
//
// It owns no policy: [Dir] implements [durable.Folder] and says what a crash may leave. It starts
// no goroutines; tests alone import it.
package memdir

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
)

// Dir is a directory. The zero value is an empty one with space for anything. It may be used by
// many goroutines.
type Dir struct {
	// Fail is asked before each operation that changes something: create, write, sync, truncate,
	// rename, remove, sync directory. It is called without a lock.
	Fail func(operation string) error

	mu    sync.Mutex // guards all below, and the files
	names map[string]*file
	disk  map[string]*file // names as of the last Sync
	free  int              // bytes that files may grow by
	full  bool             // space counts
}

type file struct {
	dir    *Dir
	data   []byte
	synced []byte
	dead   bool // it was open when the power went
}

var errDead = errors.New("the file was opened before the power went")

// SetFree lets files grow by n more bytes; below 0: by any.
func (d *Dir) SetFree(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free, d.full = n, n >= 0
}

// Put makes a file with a content that is on disk.
func (d *Dir) Put(name string, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := &file{dir: d, data: slices.Clone(content), synced: slices.Clone(content)}
	d.names, d.disk = with(d.names, name, f), with(d.disk, name, f)
}

// Content returns what a file holds, nil when there is none.
func (d *Dir) Content(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return slices.Clone(f.data)
	}
	return nil
}

func with(names map[string]*file, name string, f *file) map[string]*file {
	if names == nil {
		names = map[string]*file{}
	}
	names[name] = f
	return names
}

func (d *Dir) fail(operation string) error {
	if d.Fail == nil {
		return nil
	}
	return d.Fail(operation)
}

// Create implements [durable.Folder].
func (d *Dir) Create(name string) (durable.File, error) {
	if err := d.fail("create"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] != nil {
		return nil, os.ErrExist
	}
	f := &file{dir: d}
	d.names = with(d.names, name, f)
	return f, nil
}

// Open implements [durable.Folder].
func (d *Dir) Open(name string) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] == nil {
		return nil, os.ErrNotExist
	}
	return d.names[name], nil
}

// Names implements [durable.Folder].
func (d *Dir) Names() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names)), nil
}

// Truncate implements [durable.Folder].
func (d *Dir) Truncate(name string, size int64) error {
	if err := d.fail("truncate"); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	if f == nil {
		return os.ErrNotExist
	}
	f.data = f.data[:size:size]
	f.synced = slices.Clone(f.data)
	return nil
}

// Rename implements [durable.Folder].
func (d *Dir) Rename(from, to string) error {
	if err := d.fail("rename"); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[from] == nil {
		return os.ErrNotExist
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	return nil
}

// Remove implements [durable.Folder].
func (d *Dir) Remove(name string) error {
	if err := d.fail("remove"); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] == nil {
		return os.ErrNotExist
	}
	delete(d.names, name)
	return nil
}

// Sync implements [durable.Folder].
func (d *Dir) Sync() error {
	if err := d.fail("sync directory"); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.disk = maps.Clone(d.names)
	return nil
}

// ReadAt implements [durable.File].
func (f *file) ReadAt(p []byte, offset int64) (int, error) {
	f.dir.mu.Lock()
	defer f.dir.mu.Unlock()
	if offset >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements [durable.File]. One that fails writes half of what it appends.
func (f *file) WriteAt(p []byte, offset int64) (int, error) {
	err := f.dir.fail("write")
	f.dir.mu.Lock()
	defer f.dir.mu.Unlock()
	if err != nil && int(offset) < len(f.data) {
		return 0, err
	} else if err != nil {
		p = p[:len(p)/2]
	}
	switch {
	case f.dead:
		return 0, errDead
	case int(offset) > len(f.data):
		return 0, errors.New("a write leaves a hole")
	}
	if grows := int(offset) + len(p) - len(f.data); f.dir.full && grows > f.dir.free {
		p, err = p[:len(p)-grows+f.dir.free], syscall.ENOSPC
	}
	if f.dir.full {
		f.dir.free -= max(0, int(offset)+len(p)-len(f.data))
	}
	over := copy(f.data[offset:], p)
	f.data = append(f.data, p[over:]...)
	return len(p), err
}

// Size implements [durable.File].
func (f *file) Size() (int64, error) {
	f.dir.mu.Lock()
	defer f.dir.mu.Unlock()
	return int64(len(f.data)), nil
}

// Sync implements [durable.File].
func (f *file) Sync() error {
	if err := f.dir.fail("sync"); err != nil {
		return err
	}
	f.dir.mu.Lock()
	defer f.dir.mu.Unlock()
	if f.dead {
		return errDead
	}
	f.synced = slices.Clone(f.data)
	return nil
}

// Close implements [durable.File].
func (f *file) Close() error { return nil }

// LosePower leaves what a loss of power does: all that was synced, and of the rest some sectors and
// some names. Files that were open cannot be used any more.
func (d *Dir) LosePower(rng *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := map[string]*file{}
	keep := func(name string, f *file) {
		data := f.left(rng)
		names[name] = &file{dir: d, data: data, synced: slices.Clone(data)}
		f.dead = true
	}
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		f := d.names[name]
		if f.dead = true; d.disk[name] == f || rng.IntN(2) == 0 {
			keep(name, f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.disk)) {
		if names[name] == nil && (d.names[name] != nil || rng.IntN(2) == 0) {
			keep(name, d.disk[name]) // neither its removal nor its replacement is on disk
		}
	}
	d.names, d.disk = names, maps.Clone(names)
}

// left returns what a loss of power leaves of a file: each sector that was written since the last
// sync as it was then, or as it is, and the end anywhere behind that of then.
func (f *file) left(rng *rand.Rand) []byte {
	end := min(len(f.synced), len(f.data))
	if more := len(f.data) - end; more > 0 {
		end += rng.IntN(more + 1)
	}
	out, share := make([]byte, end), rng.IntN(4)
	for at := 0; at < end; at += sector.Size {
		to := min(at+sector.Size, end)
		if at < len(f.synced) {
			copy(out[at:to], f.synced[at:])
		}
		if rng.IntN(4) >= share {
			copy(out[at:to], f.data[at:to])
		}
	}
	return out
}
