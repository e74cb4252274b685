package seal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

// MemoryKeyring keeps root keys in memory. The zero value is empty. Its methods may be called from
// many goroutines.
type MemoryKeyring struct {
	mu      sync.Mutex
	tenants map[int32]*tenantKeys
}

// tenantKeys are the root keys of a tenant.
type tenantKeys struct {
	Current uint32            `json:"current"`
	Roots   map[uint32]string `json:"roots"` // 64 hex digits
}

// Generate makes a new root key of a tenant and the current one, and returns its id: one above the
// greatest that there is, from 1 on.
func (m *MemoryKeyring) Generate(cid int32) (keyID uint32) {
	var k Key
	_, _ = rand.Read(k[:]) // it does not return where there is no randomness
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tenant(cid)
	for id := range t.Roots {
		keyID = max(keyID, id)
	}
	keyID++
	t.Roots[keyID], t.Current = hex.EncodeToString(k[:]), keyID
	return keyID
}

// Add adds a root key that was made elsewhere, and makes it the current one.
func (m *MemoryKeyring) Add(cid int32, keyID uint32, root Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tenant(cid)
	t.Roots[keyID], t.Current = hex.EncodeToString(root[:]), keyID
}

// tenant returns the keys of a tenant, none at first. Called under mu.
func (m *MemoryKeyring) tenant(cid int32) *tenantKeys {
	if m.tenants == nil {
		m.tenants = map[int32]*tenantKeys{}
	}
	if m.tenants[cid] == nil {
		m.tenants[cid] = &tenantKeys{Roots: map[uint32]string{}}
	}
	return m.tenants[cid]
}

// forget takes back a key that was the newest one. Called under mu.
func (m *MemoryKeyring) forget(cid int32, keyID uint32) {
	t := m.tenants[cid]
	delete(t.Roots, keyID)
	if t.Current = keyID - 1; t.Roots[t.Current] == "" {
		t.Current = 0
	}
	if len(t.Roots) == 0 {
		delete(m.tenants, cid)
	}
}

// Root implements [Keyring].
func (m *MemoryKeyring) Root(_ context.Context, cid int32, keyID uint32) (k Key, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tenants[cid]
	if t == nil || t.Roots[keyID] == "" {
		return k, ErrNoKey
	}
	_, err = hex.Decode(k[:], []byte(t.Roots[keyID]))
	return k, err
}

// Current implements [Keyring].
func (m *MemoryKeyring) Current(_ context.Context, cid int32) (uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tenants[cid]; t != nil && t.Current != 0 {
		return t.Current, nil
	}
	return 0, ErrNoKey
}

// keyFileFormat heads a file of keys, so that another file is not taken for one.
const keyFileFormat = "pentad-keys-1"

type keyFile struct {
	Format  string                `json:"format"`
	Tenants map[int32]*tenantKeys `json:"tenants"`
}

// FileKeyring keeps root keys in a file that only its owner may read:
//
//	{"format": "pentad-keys-1", "tenants": {"1": {"current": 1, "roots": {"1": "9f3c..."}}}}
//
// Who loses the file loses all that was sealed with it. Its methods may be called from many
// goroutines; two processes do not change one file at a time.
type FileKeyring struct {
	MemoryKeyring
	path string
}

// OpenFileKeyring reads a file of keys; one that is not there is empty, and is made when a key is
// generated. A file that others than its owner may read is refused.
func OpenFileKeyring(path string) (*FileKeyring, error) {
	r := &FileKeyring{path: path}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
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
			return nil, fmt.Errorf("keys in %s: tenant %d: %w", path, cid, err)
		}
	}
	r.tenants = file.Tenants
	return r, nil
}

func (t *tenantKeys) check() error {
	if t == nil || t.Roots[t.Current] == "" {
		return errors.New("it has no current key")
	}
	for id, root := range t.Roots {
		if b, err := hex.DecodeString(root); err != nil || len(b) != KeyBytes {
			return fmt.Errorf("key %d is not %d hex digits", id, 2*KeyBytes)
		}
	}
	return nil
}

// Generate makes a new root key of a tenant and the current one, and writes the file. It returns
// when the file is durable.
func (r *FileKeyring) Generate(cid int32) (keyID uint32, err error) {
	keyID = r.MemoryKeyring.Generate(cid)
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if err != nil { // what is not durable is not used
			r.forget(cid, keyID)
		}
	}()
	document, err := json.MarshalIndent(keyFile{keyFileFormat, r.tenants}, "", "  ")
	if err != nil {
		return 0, fmt.Errorf("write keys: %w", err)
	}
	if err := replaceFile(r.path, append(document, '\n')); err != nil {
		return 0, fmt.Errorf("write keys: %w", err)
	}
	return keyID, nil
}

// replaceFile replaces a file whole and durably; only its owner may read it.
func replaceFile(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
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
