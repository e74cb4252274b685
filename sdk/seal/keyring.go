package seal

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
)

// MemoryKeyring keeps root keys in memory. The zero value is empty. Its methods may be called from
// many goroutines.
type MemoryKeyring struct {
	mu    sync.Mutex
	table keyTable
}

// keyTable has the keys of tenants.
type keyTable map[int32]*tenantKeys

// tenantKeys are the keys of a tenant.
type tenantKeys struct {
	Current uint32            `json:"current"`
	Roots   map[uint32]string `json:"roots"` // 64 hex digits
	// Devices has the keys of devices under each root that no key of a device is derived from.
	Devices map[uint32]deviceKeys `json:"devices,omitempty"`
}

// tenant returns the keys of a tenant, none at first.
func (t keyTable) tenant(cid int32) *tenantKeys {
	if t[cid] == nil {
		t[cid] = &tenantKeys{Roots: map[uint32]string{}}
	}
	return t[cid]
}

// generate makes a root key of a tenant and the current one.
func (t keyTable) generate(cid int32, shreddable bool) (keyID uint32) {
	var k Key
	_, _ = rand.Read(k[:]) // it does not return where there is no randomness
	keys := t.tenant(cid)
	for id := range keys.Roots {
		keyID = max(keyID, id)
	}
	keyID++
	keys.Roots[keyID], keys.Current = hex.EncodeToString(k[:]), keyID
	if shreddable {
		if keys.Devices == nil {
			keys.Devices = map[uint32]deviceKeys{}
		}
		keys.Devices[keyID] = deviceKeys{}
	}
	return keyID
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
	for id, devices := range t.Devices {
		if t.Roots[id] == "" {
			return fmt.Errorf("there are keys of devices under key %d, which is not there", id)
		}
		if err := devices.check(); err != nil {
			return fmt.Errorf("key %d: %w", id, err)
		}
	}
	return nil
}

// change has the table changed by one at a time.
func (m *MemoryKeyring) change(do func(t keyTable)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.table == nil {
		m.table = keyTable{}
	}
	do(m.table)
}

// Generate makes a new root key of a tenant and the current one, and returns its id: one above the
// greatest that there is, from 1 on. Keys of devices are derived from it.
func (m *MemoryKeyring) Generate(cid int32) (keyID uint32) {
	m.change(func(t keyTable) { keyID = t.generate(cid, false) })
	return keyID
}

// GenerateShreddable is as Generate, but each device gets a random key, so that it can be
// destroyed.
func (m *MemoryKeyring) GenerateShreddable(cid int32) (keyID uint32) {
	m.change(func(t keyTable) { keyID = t.generate(cid, true) })
	return keyID
}

// Add adds a root key that was made elsewhere, and makes it the current one.
func (m *MemoryKeyring) Add(cid int32, keyID uint32, root Key) {
	m.change(func(t keyTable) {
		keys := t.tenant(cid)
		keys.Roots[keyID], keys.Current = hex.EncodeToString(root[:]), keyID
	})
}

// Root implements [Keyring].
func (m *MemoryKeyring) Root(_ context.Context, cid int32, keyID uint32) (k Key, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table[cid]
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
	if t := m.table[cid]; t != nil && t.Current != 0 {
		return t.Current, nil
	}
	return 0, ErrNoKey
}
