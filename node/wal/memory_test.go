package wal

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
)

var errInjected = errors.New("injected")

// memoryFolder is a folder in memory that knows what of it would outlive a loss of power.
type memoryFolder struct {
	names   map[string]*memoryFile
	durable map[string]*memoryFile // names as of the last Sync
	ops     int
	failAt  int // the operation of this number fails; 0 for none
	full    bool
	free    int // bytes that still fit when it is full; they are written before a write fails
}

type memoryFile struct {
	folder *memoryFolder
	data   []byte
	synced []byte
	lost   bool // a sync failed: the kernel dropped the pages and says nothing the next time
}

func newMemoryFolder() *memoryFolder {
	return &memoryFolder{names: map[string]*memoryFile{}, durable: map[string]*memoryFile{}}
}

func (d *memoryFolder) step() error {
	d.ops++
	if d.ops == d.failAt {
		return errInjected
	}
	return nil
}

func (d *memoryFolder) Create(name string) (durable.File, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	if d.names[name] != nil {
		return nil, fs.ErrExist
	}
	if d.full && d.free == 0 {
		return nil, syscall.ENOSPC
	}
	d.names[name] = &memoryFile{folder: d}
	return d.names[name], nil
}

func (d *memoryFolder) Open(name string) (durable.File, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	if d.names[name] == nil {
		return nil, fs.ErrNotExist
	}
	return d.names[name], nil
}

func (d *memoryFolder) Names() ([]string, error) {
	return slices.Sorted(maps.Keys(d.names)), d.step()
}

func (d *memoryFolder) Truncate(name string, size int64) error {
	if err := d.step(); err != nil {
		return err
	}
	f := d.names[name]
	f.data = f.data[:size]
	f.synced = slices.Clone(f.data)
	return nil
}

func (d *memoryFolder) Rename(from, to string) error {
	if err := d.step(); err != nil {
		return err
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	return nil
}

func (d *memoryFolder) Remove(name string) error {
	if err := d.step(); err != nil {
		return err
	}
	if d.names[name] == nil {
		return fs.ErrNotExist
	}
	delete(d.names, name)
	return nil
}

func (d *memoryFolder) Sync() error {
	if err := d.step(); err != nil {
		return err
	}
	d.durable = maps.Clone(d.names)
	return nil
}

func (f *memoryFile) Size() (int64, error) { return int64(len(f.data)), nil }

func (f *memoryFile) ReadAt(p []byte, offset int64) (int, error) {
	return bytes.NewReader(f.data).ReadAt(p, offset)
}

func (f *memoryFile) WriteAt(p []byte, offset int64) (int, error) {
	err := f.folder.step()
	if err != nil {
		p = p[:len(p)/2]
	}
	if more := int(offset) + len(p) - len(f.data); f.folder.full && more > f.folder.free {
		p, err = p[:len(p)-more+f.folder.free], syscall.ENOSPC
	}
	if end := int(offset) + len(p); end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	if int(offset) <= len(f.synced) && int(offset)+len(p) == len(f.data) {
		f.lost = false // all that was lost is to be written again
	}
	return copy(f.data[offset:], p), err
}

func (f *memoryFile) Sync() error {
	if err := f.folder.step(); err != nil {
		f.lost = true
		return err
	}
	if !f.lost {
		f.synced = slices.Clone(f.data)
	}
	return nil
}

func (f *memoryFile) Close() error { return nil }

// crash returns what is left after a loss of power: everything that was synced; of the rest,
// pages and names at random.
func (d *memoryFolder) crash(rng *rand.Rand) *memoryFolder {
	left := newMemoryFolder()
	for name, f := range d.durable {
		if d.names[name] == f || rng.IntN(2) == 0 {
			left.names[name] = f.afterCrash(left, rng)
		}
	}
	for name, f := range d.names {
		if d.durable[name] != f && rng.IntN(2) == 0 {
			left.names[name] = f.afterCrash(left, rng)
		}
	}
	left.durable = maps.Clone(left.names)
	return left
}

func (f *memoryFile) afterCrash(d *memoryFolder, rng *rand.Rand) *memoryFile {
	const page = sector.Size
	data := slices.Clone(f.synced)
	if rng.IntN(2) == 0 { // some of what was not synced was written all the same
		size := len(data) + rng.IntN(len(f.data)-len(data)+1)
		for at := len(data); at < size; {
			end := min(size, at/page*page+page)
			if rng.IntN(3) > 0 {
				data = append(data, f.data[at:end]...)
			} else {
				data = append(data, make([]byte, end-at)...)
			}
			at = end
		}
	}
	return &memoryFile{folder: d, data: data, synced: slices.Clone(data)}
}
