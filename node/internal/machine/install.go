package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/check"
)

// ErrDamaged means that a received snapshot is not what its replica sent, or is of another
// group or entry.
var ErrDamaged = errors.New("received snapshot is damaged; take another one")

// Install replaces the state by a snapshot of another replica of the group, atomically: everything
// is received, synced and verified before the store is replaced. Files that were received before
// fetch or ctx failed are not fetched again for the same snapshot.
//
// Errors: ErrDamaged; those of fetch and ctx; of the file system. If the machine has no store after
// an error, every call returns that it is closed, and it must be opened again.
func (m *Machine) Install(ctx context.Context, description []byte, fetch replica.Fetch) error {
	meta, err := parseManifest(description)
	if err != nil {
		return fmt.Errorf("install: %w: %w", ErrDamaged, err)
	}
	if meta.Index <= m.Applied() {
		return fmt.Errorf("install: the snapshot is of entry %d, and %d was applied", meta.Index,
			m.Applied())
	}
	received := m.path(receivedDir)
	if !bytes.Equal(m.receiving, description) {
		m.receiving = nil
		if err := os.RemoveAll(received); err != nil {
			return fmt.Errorf("install: %w", err)
		}
	}
	m.receiving = bytes.Clone(description)
	if err := receive(ctx, received, meta, fetch); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	m.receiving = nil // opened files change, and damaged ones are fetched again
	if err := m.check(ctx, received, meta); err != nil {
		return fmt.Errorf("install: %w", errors.Join(err, os.RemoveAll(received)))
	}
	if err := os.Rename(received, m.path(installedDir)); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	_ = m.store.Load().Close() // its errors do not matter: it is replaced
	if err := swap(m.dir); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	s, _, err := store.Open(ctx, m.opt)
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	m.store.Store(s)
	return nil
}

// swap replaces the store by the installed one. It is repeated after a crash.
func swap(dir string) error {
	if err := durable.SyncDir(dir); err != nil { // the name must last before the store goes
		return err
	}
	if err := os.RemoveAll(filepath.Join(dir, storeDir)); err != nil {
		return err
	}
	err := os.Rename(filepath.Join(dir, installedDir), filepath.Join(dir, storeDir))
	if err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// receive fetches the missing files of a snapshot into a directory, and syncs them.
func receive(ctx context.Context, dir string, meta *manifest, fetch replica.Fetch) error {
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		return err
	}
	for _, f := range meta.Files {
		if err := receiveFile(ctx, dir, f, fetch); err != nil {
			return fmt.Errorf("receive %s: %w", f.Name, err)
		}
	}
	return errors.Join(durable.SyncDir(filepath.Join(dir, "log")), durable.SyncDir(dir))
}

func receiveFile(ctx context.Context, dir string, meta fileMeta, fetch replica.Fetch) error {
	f, err := os.OpenFile(filepath.Join(dir, filepath.FromSlash(meta.Name)),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < meta.Bytes {
		err = receiveRest(ctx, f, info.Size(), meta, fetch)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// receiveRest fetches the missing rest of a file.
func receiveRest(
	ctx context.Context, f *os.File, has int64, meta fileMeta, fetch replica.Fetch,
) error {
	src, err := fetch(ctx, meta.Name, has)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(src, meta.Bytes-has))
	if err == nil && has+n < meta.Bytes {
		err = fmt.Errorf("%w: %d bytes came of %d", ErrDamaged, has+n, meta.Bytes)
	}
	return errors.Join(err, src.Close())
}

// check verifies all received files, and opens them as the replica.
func (m *Machine) check(ctx context.Context, dir string, meta *manifest) error {
	report, err := check.Directory(ctx, dir, check.Options{})
	if err != nil {
		return err
	}
	if report.Damages > 0 {
		return fmt.Errorf("%w: %s at offset %d: %s", ErrDamaged, report.Damage[0].File,
			report.Damage[0].Offset, report.Damage[0].Reason)
	}
	if len(report.Notes) > 0 { // opening would repair it, but a snapshot is never torn
		return fmt.Errorf("%w: %s", ErrDamaged, report.Notes[0])
	}
	opt := m.opt
	opt.Dir = dir
	s, _, err := store.Open(ctx, opt)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	at := own(s, s.Applied())
	if err := s.Close(); err != nil {
		return err
	}
	if at != meta.Index {
		return fmt.Errorf("%w: it is of entry %d and says %d", ErrDamaged, at, meta.Index)
	}
	return nil
}
