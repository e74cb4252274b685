package segment

import (
	"errors"
	"os"
	"path/filepath"
)

// logFile is what the log does to a file; tests replace it by one that forgets and fails.
type logFile interface {
	Write(p []byte) (int, error)
	Sync() error
	Close() error
}

// logDir is what the log does to its directory.
type logDir interface {
	Create(name string) (logFile, error) // empty, durable once the directory is synced
	Append(name string) (logFile, error)
	Read(name string) ([]byte, error)
	Names() ([]string, error) // sorted
	Truncate(name string, size int64) error
	Remove(name string) error
	SyncDir() error
}

// osDir is a directory of the operating system.
type osDir string

func (d osDir) path(name string) string { return filepath.Join(string(d), name) }

func (d osDir) Create(name string) (logFile, error) {
	f, err := os.OpenFile(d.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return dataFile{f}, nil
}

func (d osDir) Append(name string) (logFile, error) {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return dataFile{f}, nil
}

func (d osDir) Read(name string) ([]byte, error) { return os.ReadFile(d.path(name)) }

func (d osDir) Names() ([]string, error) {
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

func (d osDir) Truncate(name string, size int64) error {
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

func (d osDir) Remove(name string) error { return os.Remove(d.path(name)) }

func (d osDir) SyncDir() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
