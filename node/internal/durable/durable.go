// Package durable writes files that are there, whole, after a crash or a loss of power.
//
// It owns the order of write, sync, rename and sync of the directory, and [CorruptError], the error
// of bytes that are not what was written. It knows nothing of what files hold. Its main type is
// [Folder], a directory whose files are written through it: [Dir] is one of the operating system,
// and tests bring others that forget what was not synced, or are full. It starts no goroutines.
package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// TempSuffix ends the name of a file that is going to replace another. One that a crash left is
// written over by the next.
const TempSuffix = ".tmp"

// File is what is done to a file of a [Folder].
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Sync returns when the data is durable, with what of the metadata is needed to read it.
	Sync() error
}

// Folder is what is done to a directory and its files.
type Folder interface {
	Create(name string) (File, error)       // new and empty; its name lasts once Sync returns
	Open(name string) (File, error)         // to read and to write
	Names() ([]string, error)               // sorted
	Truncate(name string, size int64) error // durable on return
	Rename(from, to string) error
	Remove(name string) error
	Sync() error
}

// Dir is a directory of the operating system, which is there.
type Dir string

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

func (d Dir) open(name string, flags int, mode os.FileMode) (File, error) {
	f, err := os.OpenFile(d.path(name), flags, mode)
	if err != nil {
		return nil, noteLack(err)
	}
	return dataFile{f}, nil
}

// Create implements [Folder].
func (d Dir) Create(name string) (File, error) {
	return d.open(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
}

// Open implements [Folder].
func (d Dir) Open(name string) (File, error) { return d.open(name, os.O_RDWR, 0) }

// Names implements [Folder].
func (d Dir) Names() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// Truncate implements [Folder].
func (d Dir) Truncate(name string, size int64) error {
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

// Rename implements [Folder].
func (d Dir) Rename(from, to string) error {
	return noteLack(os.Rename(d.path(from), d.path(to)))
}

// Remove implements [Folder].
func (d Dir) Remove(name string) error { return os.Remove(d.path(name)) }

// Sync implements [Folder].
func (d Dir) Sync() error { return SyncDir(string(d)) }

// Size implements [File].
func (f dataFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Read returns the content of a file, in buf when that is large enough.
func Read(dir Folder, name string, buf []byte) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	buf = slices.Grow(buf[:0], int(size))[:size]
	_, err = io.ReadFull(io.NewSectionReader(f, 0, size), buf)
	return buf, err
}

// MakeDir makes a directory, and those above it that are missing, durably.
func MakeDir(dir string) error {
	err := noteLack(os.Mkdir(dir, 0o755))
	if errors.Is(err, os.ErrNotExist) && dir != filepath.Dir(dir) {
		if err := MakeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = noteLack(os.Mkdir(dir, 0o755))
	}
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(dir))
}

// Opened is an open file that knows which one it is; the files of a [Dir] are.
type Opened interface {
	Stat() (os.FileInfo, error)
}

// Lost says how the file of a name differs from the one that was opened, or was written with at
// least some bytes; "": it does not. open is nil for a file that is not open. A file that cannot be
// looked at is not lost. What is written to a file that was removed is gone when the process ends,
// and no write or sync says so.
//
// Cost: one or two calls of the system.
func Lost(path string, open Opened, size int64) (reason string) {
	there, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "the file is missing: it was removed while the node ran"
	} else if err != nil {
		return ""
	}
	if open != nil {
		if info, err := open.Stat(); err == nil && !os.SameFile(info, there) {
			return "another file has its name: it was replaced while the node ran"
		}
	}
	if there.Size() < size {
		return fmt.Sprintf("it has %d bytes, and %d were written: it was cut while the node ran",
			there.Size(), size)
	}
	return ""
}
