package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrUnsure is the error of a replacement that may or may not have happened: the directory could
// not be synced.
var ErrUnsure = errors.New("the file has its old content or the new one")

// Replace makes name hold content: whole and durable on return, or not at all. One process at a
// time may replace a file: the temporary name is always the same, so that crashes leave no more
// than one such file.
//
// Errors: [ErrUnsure]; any other leaves name with what it held.
func Replace(dir Folder, name string, content []byte) error {
	return ReplaceBy(dir, name, Content(content))
}

// Content writes content to a new file.
func Content(content []byte) func(File) error {
	return func(f File) error {
		_, err := f.WriteAt(content, 0)
		return err
	}
}

// ReplaceBy is Replace with what write writes to the new file, which is called name+TempSuffix
// until then.
func ReplaceBy(dir Folder, name string, write func(File) error) error {
	return replace(dir, name+TempSuffix, name, write)
}

// ReplaceFile is Replace of a path of the operating system.
func ReplaceFile(path string, content []byte) error {
	return Replace(Dir(filepath.Dir(path)), filepath.Base(path), content)
}

// ReplaceShared is ReplaceBy in a directory that is not the program's own: the temporary name is
// hidden and drawn, so that two processes that write the same file do not meet. A crash leaves it.
func ReplaceShared(path string, write func(File) error) error {
	dir, name := filepath.Split(path)
	return replaceShared(Dir(filepath.Clean(dir)), name, write)
}

// ReplacePrivate is ReplaceShared of a file that only its owner may read.
func ReplacePrivate(path string, write func(File) error) error {
	dir, name := filepath.Split(path)
	return replaceShared(privateDir{Dir(filepath.Clean(dir))}, name, write)
}

func replaceShared(dir Folder, name string, write func(File) error) error {
	return replace(dir, "."+name+"."+rand.Text()[:8]+TempSuffix, name, write)
}

// privateDir is a directory whose new files only their owner may read.
type privateDir struct{ Dir }

// Create implements [Folder].
func (d privateDir) Create(name string) (File, error) {
	return d.open(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

func replace(dir Folder, temporary, name string, write func(File) error) error {
	if err := writeAndRename(dir, temporary, name, write); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync the directory of %s: %w: %v", name, ErrUnsure, err)
	}
	return nil
}

func writeAndRename(dir Folder, temporary, name string, write func(File) error) error {
	f, err := dir.Create(temporary)
	if errors.Is(err, os.ErrExist) { // a crash left it
		if err = dir.Remove(temporary); err == nil {
			f, err = dir.Create(temporary)
		}
	}
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = dir.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(temporary)) // it would take space
	}
	return nil
}
