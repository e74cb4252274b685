package segment

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// file is what this package does to a file that it writes; tests replace it by one that forgets
// unsynced bytes and fails on demand.
type file interface {
	WriteAt(p []byte, offset int64) (int, error)
	Sync() error
	Close() error
}

// folder is what this package does to a directory.
type folder interface {
	Create(name string) (file, error) // new and empty; its name lasts once the folder is synced
	Open(name string) (file, error)   // to be written on
	Read(name string, buf []byte) ([]byte, error)
	Names() ([]string, error) // sorted
	Truncate(name string, size int64) error
	Rename(from, to string) error
	Remove(name string) error
	Sync() error
}

// osFolder is a directory of the operating system.
type osFolder string

func (d osFolder) path(name string) string { return filepath.Join(string(d), name) }

func (d osFolder) Create(name string) (file, error) {
	f, err := os.OpenFile(d.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return dataFile{f}, nil
}

func (d osFolder) Open(name string) (file, error) {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return dataFile{f}, nil
}

// Read returns the content of a file, in buf when that is large enough.
func (d osFolder) Read(name string, buf []byte) ([]byte, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	buf = slices.Grow(buf[:0], int(info.Size()))[:info.Size()]
	_, err = io.ReadFull(f, buf)
	return buf, err
}

func (d osFolder) Names() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// Truncate cuts a file and syncs it.
func (d osFolder) Truncate(name string, size int64) error {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (d osFolder) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d osFolder) Remove(name string) error { return os.Remove(d.path(name)) }

func (d osFolder) Sync() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
