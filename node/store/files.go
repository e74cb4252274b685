package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/segment"
	"golang.org/x/sys/unix"
)

// lockFile is held while a process has the directory open.
const lockFile = "LOCK"

func corrupt(file string, offset int64, reason string) error {
	return &segment.CorruptError{File: file, Offset: offset, Reason: reason}
}

// replaceFile makes name hold data, durably and at once.
func replaceFile(name string, data []byte) error {
	f, err := os.Create(name + ".tmp")
	if err != nil {
		return fmt.Errorf("replace %s: %w", filepath.Base(name), err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
		return fmt.Errorf("replace %s: %w", filepath.Base(name), err)
	}
	if err := syncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("replace %s: %w", filepath.Base(name), err)
	}
	return nil
}

// makeDir makes a directory, and those above it that are missing, durably.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, os.ErrNotExist) && dir != filepath.Dir(dir) {
		if err := makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o755)
	}
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}

// lockDir takes the directory for this process until the file is closed.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, ErrLocked)
	}
	return f, nil
}
