package seal

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// MemoryKeyring keeps root keys in memory. The zero value is empty. Its methods may be called from
// many goroutines.
type MemoryKeyring struct {
	mu    sync.Mutex
	table keyTable
	path  string // of the file that has them, if there is one
}

// keyTable has the keys of tenants.
type keyTable map[int32]*tenantKeys

// tenantKeys are the keys of a tenant.
type tenantKeys struct {
	Roots []rootKey `json:"roots"` // as they were made: the last one is the current one
}

// rootKey is a root key.
type rootKey struct {
	ID   string `json:"id"`  // see Key.ID, in hex; keys that were made elsewhere have other ids
	Root string `json:"key"` // 64 hex digits
	// Devices has the keys of devices, where these are not derived from the root: nil where they
	// are.
	Devices deviceKeys `json:"devices,omitzero"`
}

// FormatKeyID returns how the id of a key is shown: 8 hexadecimal digits.
func FormatKeyID(id uint32) string { return fmt.Sprintf("%08x", id) }

// ID returns the id that a root key has in payloads, of 32 bits: it follows from the key, so that
// two keys are not taken for each other. A node that sees it learns nothing of the key.
func (k *Key) ID() uint32 {
	id := derive(k, labelID)
	return binary.BigEndian.Uint32(id[:])
}

// root returns a root key of a tenant, nil if it is not there.
func (t keyTable) root(cid int32, keyID uint32) *rootKey {
	if t[cid] == nil {
		return nil
	}
	id := FormatKeyID(keyID)
	for i := range t[cid].Roots {
		if t[cid].Roots[i].ID == id {
			return &t[cid].Roots[i]
		}
	}
	return nil
}

// keys are the ids of the root keys of a tenant, as they were made.
func (t keyTable) keys(cid int32) (ids []uint32) {
	if t[cid] == nil {
		return nil
	}
	for i := range t[cid].Roots {
		id, _ := strconv.ParseUint(t[cid].Roots[i].ID, 16, 32) // it was checked
		ids = append(ids, uint32(id))
	}
	return ids
}

// add adds a root key of a tenant and makes it the current one.
func (t keyTable) add(cid int32, keyID uint32, k *Key, devices deviceKeys) {
	if t[cid] == nil {
		t[cid] = &tenantKeys{}
	}
	t[cid].Roots = append(t[cid].Roots,
		rootKey{FormatKeyID(keyID), hex.EncodeToString(k[:]), devices})
}

// generate makes a root key of a tenant and the current one.
func (t keyTable) generate(cid int32, shreddable bool) (keyID uint32) {
	var k Key
	_, _ = rand.Read(k[:]) // it does not return where there is no randomness
	var devices deviceKeys
	if shreddable {
		devices = deviceKeys{}
	}
	t.add(cid, k.ID(), &k, devices)
	return k.ID()
}

// check checks keys that were read from a file, in which ids follow from keys.
func (t *tenantKeys) check() error {
	if t == nil || len(t.Roots) == 0 {
		return errors.New("it has no key")
	}
	for i := range t.Roots {
		var k Key
		r := &t.Roots[i]
		if n, err := hex.Decode(k[:], []byte(r.Root)); err != nil || n != KeyBytes {
			return fmt.Errorf("key %d of it is not %d hex digits", i+1, 2*KeyBytes)
		}
		if r.ID != FormatKeyID(k.ID()) {
			return fmt.Errorf("key %d of it has the id %q, which is that of another key", i+1,
				excerpt.Of(r.ID, 20))
		}
		if err := r.Devices.check(); err != nil {
			return fmt.Errorf("key %s: %w", r.ID, err)
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

// Generate makes a new root key of a tenant and the current one, and returns its id, see [Key.ID].
// Keys of devices are derived from it.
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

// Add adds a root key that was made elsewhere, with the id that it has there, and makes it the
// current one.
func (m *MemoryKeyring) Add(cid int32, keyID uint32, root Key) {
	m.change(func(t keyTable) { t.add(cid, keyID, &root, nil) })
}

// Root implements [Keyring].
func (m *MemoryKeyring) Root(_ context.Context, cid int32, keyID uint32) (k Key, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.table.root(cid, keyID)
	if r == nil {
		return k, m.noKey(cid)
	}
	_, err = hex.Decode(k[:], []byte(r.Root))
	return k, err
}

// noKey says which keys there are instead.
func (m *MemoryKeyring) noKey(cid int32) error {
	where := "the keyring"
	if m.path != "" {
		where = m.path
	}
	ids := m.table.keys(cid)
	if len(ids) == 0 {
		return fmt.Errorf("%w: %s has none of tenant %d", ErrNoKey, where, cid)
	}
	shown := make([]string, len(ids))
	for i, id := range ids {
		shown[i] = FormatKeyID(id)
	}
	return fmt.Errorf("%w: of tenant %d, %s has %s only", ErrNoKey, cid, where,
		excerpt.Of(strings.Join(shown, ", "), 100))
}

// Keys implements [Keyring].
func (m *MemoryKeyring) Keys(_ context.Context, cid int32) ([]uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ids := m.table.keys(cid); len(ids) > 0 {
		return ids, nil
	}
	return nil, m.noKey(cid)
}
