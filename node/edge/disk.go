package edge

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// osDisk is the file of this name.
func osDisk(name string) disk { return &fileDisk{name: name} }

type fileDisk struct {
	name string
	file *os.File // to append to; nil until then
}

func (d *fileDisk) Read() ([]byte, error) {
	f, err := os.Open(d.name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBoxBytes+1))
	return text, errors.Join(err, f.Close())
}

func (d *fileDisk) open() (err error) {
	if d.file == nil {
		d.file, err = os.OpenFile(d.name, os.O_WRONLY|os.O_APPEND, 0o644)
	}
	return err
}

func (d *fileDisk) Append(text []byte) error {
	if err := d.open(); err != nil {
		return err
	}
	if _, err := d.file.Write(text); err != nil {
		return err
	}
	return d.file.Sync()
}

func (d *fileDisk) Truncate(size int64) error {
	if err := d.open(); err != nil {
		return err
	}
	return errors.Join(d.file.Truncate(size), d.file.Sync(), d.syncDir())
}

// syncDir makes the name of the file durable.
func (d *fileDisk) syncDir() error {
	dir, err := os.Open(filepath.Dir(d.name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (d *fileDisk) Replace(text []byte) error {
	f, err := os.Create(d.name + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name())) // it would take room
	}
	if err := os.Rename(f.Name(), d.name); err != nil {
		return err
	}
	// Whatever the error is, the file may be the new one.
	if err := errors.Join(d.syncDir(), d.Close()); err != nil {
		return fmt.Errorf("replaced %s: %v", d.name, err)
	}
	return nil
}

func (d *fileDisk) Close() error {
	if d.file == nil {
		return nil
	}
	f := d.file
	d.file = nil
	return f.Close()
}
