package replica

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// File is what the shared log does to one of its files.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Sync returns when the data is durable, with what of the metadata is needed to read it.
	Sync() error
}

// Files is the directory of the shared log. A simulator brings one that forgets what was not
// synced; everybody else uses Directory.
type Files interface {
	Create(name string) (File, error) // new and empty; its name lasts once the directory is synced
	Open(name string) (File, error)   // to read and to write
	Names() ([]string, error)         // sorted
	Truncate(name string, size int64) error
	Remove(name string) error
	Sync() error
}

// Directory returns a directory of the operating system, and makes it when there is none. Nobody
// else may use it at the same time; whoever owns the data directory sees to that.
func Directory(path string) (Files, error) {
	return directory(path), os.MkdirAll(path, 0o755)
}

type directory string

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

func (d directory) open(name string, flags int) (File, error) {
	f, err := os.OpenFile(d.path(name), flags, 0o644)
	if err != nil {
		return nil, err
	}
	return dataFile{f}, nil
}

func (d directory) Create(name string) (File, error) {
	return d.open(name, os.O_CREATE|os.O_EXCL|os.O_RDWR)
}

func (d directory) Open(name string) (File, error) { return d.open(name, os.O_RDWR) }

func (d directory) Names() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// Truncate cuts a file and syncs it.
func (d directory) Truncate(name string, size int64) error {
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

func (d directory) Remove(name string) error { return os.Remove(d.path(name)) }

func (d directory) Sync() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (f dataFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// noSpace reports whether a write failed because there was no room for it.
func noSpace(err error) bool {
	return errors.Is(err, ErrNoSpace) || errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
