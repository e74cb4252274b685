package seal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// keyFileFormat heads a file of keys, so that another file is not taken for one.
const keyFileFormat = "pentad-keys-1"

type keyFile struct {
	Format string `json:"format"`
	// Check is the SHA-256 of the tenants as [json.Marshal] writes them, in hex.
	Check   string   `json:"check"`
	Tenants keyTable `json:"tenants"`
}

// checkOf is the check of a file with these keys.
func checkOf(t keyTable) (string, error) {
	document, err := json.Marshal(t)
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:]), err
}

// FileKeyring keeps root keys in a file that only its owner may read:
//
//	{"format": "pentad-keys-1", "check": "5d02...",
//	 "tenants": {"1": {"roots": [{"id": "c0a1b2d3", "key": "9f3c..."}]}}}
//
// Under a shreddable root it also has the keys of devices, wrapped. A file that was damaged, or
// changed by hand, is noticed by its check and refused. Who loses the file loses all
// that was sealed with it. Its methods may be called from many goroutines, and several processes
// may change one file, except on Windows: each change locks the folder, reads the file again and
// replaces it whole and durably. A process that is killed leaves the old file or the new one.
type FileKeyring struct {
	MemoryKeyring
}

// OpenFileKeyring reads a file of keys; one that is not there is empty, and is made when a key is
// generated. A file that others than its owner may read is refused.
func OpenFileKeyring(path string) (*FileKeyring, error) {
	r := &FileKeyring{}
	r.path = path
	var err error
	r.table, err = readKeys(path)
	return r, err
}

// Reload reads the file again, which another process may have changed.
func (r *FileKeyring) Reload() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, err := readKeys(r.path)
	if err == nil {
		r.table = t
	}
	return err
}

func readKeys(path string) (keyTable, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return keyTable{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("keys in %s: others may read the file (mode %04o); "+
			"type: chmod 600 %[1]s", path, mode)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	var file keyFile
	d := json.NewDecoder(bytes.NewReader(source))
	d.DisallowUnknownFields()
	// What the decoder says may quote the file, so it is not passed on.
	if d.Decode(&file) != nil || d.More() || file.Format != keyFileFormat {
		return nil, fmt.Errorf("keys in %s: it is not a file of keys (format %q)", path,
			keyFileFormat)
	}
	for cid, t := range file.Tenants {
		if err := t.check(); err != nil {
			return nil, damagedKeys(path, fmt.Errorf("tenant %d: %w", cid, err))
		}
	}
	if check, err := checkOf(file.Tenants); err != nil || check != file.Check {
		return nil, damagedKeys(path, errors.New("its check is that of other keys"))
	}
	if file.Tenants == nil {
		return keyTable{}, nil
	}
	return file.Tenants, nil
}

func damagedKeys(path string, err error) error {
	return fmt.Errorf("keys in %s: the file is damaged, or was changed by hand: %w; restore a "+
		"copy of it", path, err)
}

// update changes the file: what another process wrote since it was read stays. It returns when the
// change is durable; after an error nothing was changed.
func (r *FileKeyring) update(do func(t keyTable) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	unlock, err := lockFolder(filepath.Dir(r.path))
	if err != nil {
		return fmt.Errorf("lock the folder of keys: %w", err)
	}
	defer unlock()
	t, err := readKeys(r.path)
	if err != nil {
		return err
	}
	if err := do(t); err != nil {
		return err
	}
	check, err := checkOf(t)
	if err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	document, err := json.MarshalIndent(keyFile{keyFileFormat, check, t}, "", "  ")
	if err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	if err := replaceFile(r.path, append(document, '\n')); err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	r.table = t
	return nil
}

// Generate makes a new root key of a tenant and the current one, and writes the file. It returns
// when the file is durable.
func (r *FileKeyring) Generate(cid int32) (keyID uint32, err error) {
	err = r.update(func(t keyTable) error {
		keyID = t.generate(cid, false)
		return nil
	})
	return keyID, err
}

// ErrHasKey says that a tenant has a key already.
var ErrHasKey = errors.New("the tenant has a key already")

// GenerateFirst makes the first root key of a tenant, shreddable or not, also if several processes
// do so at the same time.
//
// Errors: [ErrHasKey], with the id of the current key.
func (r *FileKeyring) GenerateFirst(cid int32, shreddable bool) (keyID uint32, err error) {
	err = r.update(func(t keyTable) error {
		if ids := t.keys(cid); len(ids) > 0 {
			keyID = ids[len(ids)-1]
			return ErrHasKey
		}
		keyID = t.generate(cid, shreddable)
		return nil
	})
	return keyID, err
}

// GenerateShreddable is as Generate, but each device gets a random key, so that it can be
// destroyed.
func (r *FileKeyring) GenerateShreddable(cid int32) (keyID uint32, err error) {
	err = r.update(func(t keyTable) error {
		keyID = t.generate(cid, true)
		return nil
	})
	return keyID, err
}

// AddDevices implements [DeviceTable]. It returns when the file is durable.
func (r *FileKeyring) AddDevices(
	_ context.Context, cid int32, keyID uint32, wrapped map[int64][]byte,
) error {
	return r.update(func(t keyTable) error { return t.addDevices(cid, keyID, wrapped) })
}

// DestroyDevice destroys the keys of a device, as that of [MemoryKeyring]. It returns when the file
// without them is durable. Copies of the file, and blocks of a disk that the old file had, are not
// its to destroy.
func (r *FileKeyring) DestroyDevice(
	cid int32, mid int64, now time.Time,
) (keys []DeviceKey, err error) {
	err = r.update(func(t keyTable) (err error) {
		keys, err = t.destroyDevice(cid, mid, now)
		return err
	})
	return keys, err
}

// replaceFile replaces a file whole and durably; only its owner may read it. The folder is locked,
// so the name of what is written is fixed: the rest that a killed process left is removed.
func replaceFile(path string, content []byte) (err error) {
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(name)
		}
	}()
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(name, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a rename durable, where a folder can be synced.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
