package replica

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
)

// disk is a directory in memory that knows what of it outlives a loss of power. The log never
// writes a byte twice but with the same value, so what was written and not synced is a tail.
type disk struct {
	names   map[string]*diskFile
	durable map[string]*diskFile
	fail    func(operation string) error // may be nil
}

// errNotSynced lets a sync say that it is done without having done anything.
var errNotSynced = errors.New("not synced, and nobody knows")

type diskFile struct {
	disk   *disk
	data   []byte
	synced int
}

func newDisk() *disk {
	return &disk{names: map[string]*diskFile{}, durable: map[string]*diskFile{}}
}

func (d *disk) check(operation string) error {
	if d.fail == nil {
		return nil
	}
	return d.fail(operation)
}

func (d *disk) Create(name string) (durable.File, error) {
	if err := d.check("create"); err != nil {
		return nil, err
	}
	if d.names[name] != nil {
		return nil, os.ErrExist
	}
	f := &diskFile{disk: d}
	d.names[name] = f
	return f, nil
}

func (d *disk) Open(name string) (durable.File, error) {
	if d.names[name] == nil {
		return nil, os.ErrNotExist
	}
	return d.names[name], nil
}

func (d *disk) Names() ([]string, error) { return slices.Sorted(maps.Keys(d.names)), nil }

func (d *disk) Truncate(name string, size int64) error {
	if err := d.check("truncate"); err != nil {
		return err
	}
	f := d.names[name]
	f.data = f.data[:size:size]
	f.synced = len(f.data)
	return nil
}

func (d *disk) Rename(from, to string) error {
	if err := d.check("rename"); err != nil {
		return err
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	return nil
}

func (d *disk) Remove(name string) error {
	if err := d.check("remove"); err != nil {
		return err
	}
	delete(d.names, name)
	return nil
}

func (d *disk) Sync() error {
	if err := d.check("sync directory"); err != nil {
		return err
	}
	d.durable = maps.Clone(d.names)
	return nil
}

func (f *diskFile) ReadAt(p []byte, offset int64) (int, error) {
	if offset >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *diskFile) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.disk.check("write"); err != nil {
		half := min(len(f.data), int(offset)+len(p)/2)
		f.data = append(f.data[:half], p[:int(offset)+len(p)/2-half]...)
		return len(p) / 2, err
	}
	if int(offset) > len(f.data) {
		return 0, fmt.Errorf("a write leaves a hole")
	}
	if int(offset) == len(f.data) {
		f.data = append(f.data, p...)
		return len(p), nil
	}
	end := int(offset) + len(p)
	rest := f.data[min(end, len(f.data)):]
	f.data = slices.Concat(f.data[:offset], p, rest)
	return len(p), nil
}

func (f *diskFile) Size() (int64, error) { return int64(len(f.data)), nil }

func (f *diskFile) Sync() error {
	switch err := f.disk.check("sync"); err {
	case nil:
	case errNotSynced:
		return nil
	default:
		return err
	}
	f.synced = len(f.data)
	return nil
}

func (f *diskFile) Close() error { return nil }

// crash returns what a loss of power leaves: all that was synced, and of the rest some.
func (d *disk) crash(rng *rand.Rand) *disk {
	out := newDisk()
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		f := d.names[name]
		if d.durable[name] != f && rng.IntN(2) == 0 {
			continue
		}
		data := slices.Clone(f.data)
		if tail := len(data) - f.synced; tail > 0 {
			data = data[:f.synced+rng.IntN(tail+1)]
			share := rng.IntN(4)
			for at := f.synced; at < len(data); at += sector.Size {
				if rng.IntN(4) < share {
					clear(data[at:min(at+sector.Size, len(data))])
				}
			}
		}
		out.names[name] = &diskFile{disk: out, data: data, synced: len(data)}
	}
	for _, name := range slices.Sorted(maps.Keys(d.durable)) {
		if f := d.durable[name]; d.names[name] != f && rng.IntN(2) == 0 {
			// A removal that was not synced.
			out.names[name] = &diskFile{disk: out, data: slices.Clone(f.data), synced: f.synced}
		}
	}
	out.durable = maps.Clone(out.names)
	return out
}
