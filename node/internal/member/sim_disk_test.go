package member

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
)

// simDisk is the directory of the log of a node's groups, in memory. It knows which of its bytes
// survive a loss of power.
type simDisk struct {
	mu      sync.Mutex // guards everything below, and the files
	names   map[string]*simFile
	durable map[string]*simFile
	rng     *rand.Rand
	slow    time.Time // until then a sync takes long
	full    time.Time // until then there is no space
	broken  bool      // the next sync fails
	noSync  bool      // a planted bug: a sync does nothing
}

type simFile struct {
	disk   *simDisk
	data   []byte
	synced int
}

func newSimDisk(rng *rand.Rand) *simDisk {
	return &simDisk{names: map[string]*simFile{}, durable: map[string]*simFile{}, rng: rng}
}

// set changes how the disk fails.
func (d *simDisk) set(change func(*simDisk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func (d *simDisk) hasSpace() error {
	if time.Now().Before(d.full) {
		return syscall.ENOSPC
	}
	return nil
}

// sync lets the time of a sync pass and reports whether it took effect. The caller does not hold
// the lock.
func (d *simDisk) sync() error {
	d.mu.Lock()
	took := time.Duration(100+d.rng.IntN(2000)) * time.Microsecond
	if time.Now().Before(d.slow) {
		took = time.Duration(20+d.rng.IntN(600)) * time.Millisecond
	}
	d.mu.Unlock()
	<-time.After(took)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken {
		d.broken = false
		return syscall.EIO
	}
	return nil
}

func (d *simDisk) Create(name string) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] != nil {
		return nil, os.ErrExist
	}
	f := &simFile{disk: d}
	d.names[name] = f
	return f, d.hasSpace()
}

func (d *simDisk) Open(name string) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] == nil {
		return nil, os.ErrNotExist
	}
	return d.names[name], nil
}

func (d *simDisk) Names() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names)), nil
}

func (d *simDisk) Truncate(name string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	if f == nil {
		return os.ErrNotExist
	}
	f.data = slices.Clip(f.data[:size])
	f.synced = len(f.data)
	return nil
}

func (d *simDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[to] = d.names[from]
	delete(d.names, from)
	return nil
}

func (d *simDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.names, name)
	return nil
}

func (d *simDisk) Sync() error {
	if err := d.sync(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.durable = maps.Clone(d.names)
	return nil
}

func (f *simFile) ReadAt(p []byte, offset int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if offset >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *simFile) WriteAt(p []byte, offset int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.hasSpace(); err != nil {
		return 0, err
	}
	if int(offset) > len(f.data) {
		return 0, errors.New("a write leaves a hole")
	}
	over := copy(f.data[offset:], p)
	f.data = append(f.data, p[over:]...)
	return len(p), nil
}

func (f *simFile) Size() (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return int64(len(f.data)), nil
}

func (f *simFile) Sync() error {
	f.disk.mu.Lock()
	size := len(f.data) // what is written meanwhile is not part of it
	f.disk.mu.Unlock()
	if err := f.disk.sync(); err != nil {
		return err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if !f.disk.noSync {
		f.synced = max(f.synced, min(size, len(f.data)))
	}
	return nil
}

func (f *simFile) Close() error { return nil }

// after returns the disk as the end of a process leaves it. A loss of power keeps what was synced
// and any part of the rest.
func (d *simDisk) after(power bool) *simDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := newSimDisk(rand.New(rand.NewPCG(d.rng.Uint64(), 1)))
	out.slow, out.full, out.noSync = d.slow, d.full, d.noSync
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		f := d.names[name]
		if power && d.durable[name] != f && d.rng.IntN(2) == 0 {
			continue
		}
		data, synced := slices.Clone(f.data), f.synced
		if tail := len(data) - synced; power && tail > 0 {
			data = data[:synced+d.rng.IntN(tail+1)]
			share := d.rng.IntN(4)
			for at := synced; at < len(data); at += sector.Size {
				if d.rng.IntN(4) < share {
					clear(data[at:min(at+sector.Size, len(data))])
				}
			}
			synced = len(data)
		}
		out.names[name] = &simFile{disk: out, data: data, synced: synced}
		if power || d.durable[name] == f {
			out.durable[name] = out.names[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.durable)) {
		if f := d.durable[name]; power && d.names[name] != f && d.rng.IntN(2) == 0 {
			// A removal that was not synced.
			out.names[name] = &simFile{disk: out, data: slices.Clone(f.data), synced: f.synced}
			out.durable[name] = out.names[name]
		}
	}
	return out
}
