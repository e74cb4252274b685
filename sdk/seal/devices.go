package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// ErrShredded says that the key of a device was destroyed, so that what was sealed under it is
// never read again.
var ErrShredded = errors.New("the key of the device was destroyed, and its readings with it")

// DeviceTable is a keyring with roots that no key of a device is derived from. Devices have random
// keys under such a root, which the table keeps wrapped: it cannot read them without the root. To
// destroy the key of a device is to remove it from the table.
type DeviceTable interface {
	Keyring
	// Device returns the wrapped key of a device under a root. It is not random under a root that
	// keys of devices are derived from. Errors: [ErrNoKey], [ErrShredded].
	Device(ctx context.Context, cid int32, keyID uint32, mid int64) (wrapped []byte, random bool,
		err error)
	// AddDevices adds wrapped keys of devices that have none under a root, and leaves what others
	// have. It returns when they are durable. Errors: [ErrNoKey] for a root with derived keys.
	AddDevices(ctx context.Context, cid int32, keyID uint32, wrapped map[int64][]byte) error
}

// wrappedBytes is the size of a key that is wrapped by AES-256-GCM.
const wrappedBytes = nonceBytes + KeyBytes + gcmTagBytes

// deviceKeys are the keys of devices under one root.
type deviceKeys map[int64]deviceEntry

// deviceEntry is the key of a device, or when it was destroyed.
type deviceEntry struct {
	Wrapped   string    `json:"key,omitempty"` // in hex
	Destroyed time.Time `json:"destroyed,omitzero"`
}

func (d deviceKeys) check() error {
	for mid, e := range d {
		b, err := hex.DecodeString(e.Wrapped)
		if err != nil || len(b) != wrappedBytes && e.Destroyed.IsZero() ||
			len(b) != 0 && !e.Destroyed.IsZero() {
			return fmt.Errorf("device %d has neither a wrapped key nor the time when it was "+
				"destroyed", mid)
		}
	}
	return nil
}

// Device implements [DeviceTable].
func (m *MemoryKeyring) Device(
	_ context.Context, cid int32, keyID uint32, mid int64,
) (wrapped []byte, random bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.table.root(cid, keyID)
	switch {
	case r == nil:
		return nil, false, m.noKey(cid)
	case r.Devices == nil:
		return nil, false, nil
	}
	e, known := r.Devices[mid]
	switch {
	case !known:
		return nil, true, ErrNoKey
	case !e.Destroyed.IsZero():
		return nil, true, fmt.Errorf("%w, on %s", ErrShredded, e.Destroyed.Format(time.RFC3339))
	}
	wrapped, err = hex.DecodeString(e.Wrapped)
	return wrapped, true, err
}

// AddDevices implements [DeviceTable].
func (m *MemoryKeyring) AddDevices(
	_ context.Context, cid int32, keyID uint32, wrapped map[int64][]byte,
) (err error) {
	m.change(func(t keyTable) { err = t.addDevices(cid, keyID, wrapped) })
	return err
}

func (t keyTable) addDevices(cid int32, keyID uint32, wrapped map[int64][]byte) error {
	r := t.root(cid, keyID)
	if r == nil || r.Devices == nil {
		return ErrNoKey
	}
	for mid, w := range wrapped {
		if _, known := r.Devices[mid]; !known {
			r.Devices[mid] = deviceEntry{Wrapped: hex.EncodeToString(w)}
		}
	}
	return nil
}

// DeviceState says what became of the key of a device.
type DeviceState string

// States of keys of devices.
const (
	DeviceRandom    DeviceState = "random"    // it can be destroyed
	DeviceDestroyed DeviceState = "destroyed" // what it sealed cannot be read
	DeviceDerived   DeviceState = "derived"   // it follows from the root, and cannot be destroyed
)

// DeviceKey is the key of a device under one root.
type DeviceKey struct {
	KeyID uint32
	State DeviceState
}

// DeviceKeys returns the keys of a device, in the order in which the roots were made. Under a root
// that keys are derived from, each device has one, also if nothing was sealed under it.
func (m *MemoryKeyring) DeviceKeys(cid int32, mid int64) (keys []DeviceKey) {
	m.change(func(t keyTable) { keys = t.deviceKeys(cid, mid) })
	return keys
}

func (t keyTable) deviceKeys(cid int32, mid int64) (keys []DeviceKey) {
	for _, id := range t.keys(cid) {
		devices := t.root(cid, id).Devices
		e, known := devices[mid]
		switch {
		case devices == nil:
			keys = append(keys, DeviceKey{id, DeviceDerived})
		case known && e.Destroyed.IsZero():
			keys = append(keys, DeviceKey{id, DeviceRandom})
		case known:
			keys = append(keys, DeviceKey{id, DeviceDestroyed})
		}
	}
	return keys
}

// DestroyDevice destroys all random keys of a device. What was sealed under them cannot be read
// from then on, nor any sum that it is part of. The device can be sealed for again under the next
// root. It returns all keys of the device as they are afterwards.
//
// Errors: [ErrNoKey] if there is no random key of the device; [ErrShredded] if all of them are
// destroyed already.
func (m *MemoryKeyring) DestroyDevice(
	cid int32, mid int64, now time.Time,
) (keys []DeviceKey, err error) {
	m.change(func(t keyTable) { keys, err = t.destroyDevice(cid, mid, now) })
	return keys, err
}

func (t keyTable) destroyDevice(cid int32, mid int64, now time.Time) ([]DeviceKey, error) {
	found, gone := false, false
	for _, k := range t.deviceKeys(cid, mid) {
		gone = gone || k.State == DeviceDestroyed
		if k.State == DeviceRandom {
			found = true
			t.root(cid, k.KeyID).Devices[mid] = deviceEntry{
				Destroyed: now.UTC().Truncate(time.Second)}
		}
	}
	if !found && gone {
		return nil, fmt.Errorf("tenant %d, mid %d: nothing is left to destroy: %w", cid, mid,
			ErrShredded)
	}
	if !found {
		return nil, fmt.Errorf("a random key of tenant %d, mid %d: %w", cid, mid, ErrNoKey)
	}
	return t.deviceKeys(cid, mid), nil
}

// destroyed are devices whose keys were destroyed, each with what says so.
type destroyed map[int64]error

// note takes note of an error that says that the key of a device was destroyed; others it returns.
func (d destroyed) note(mid int64, err error) error {
	if !errors.Is(err, ErrShredded) {
		return err
	}
	d[mid] = err
	return nil
}

// err names all of them, as who leaves them out wants to do so at once.
func (d destroyed) err(cid int32) error {
	mids := slices.Sorted(maps.Keys(d))
	if len(mids) == 1 {
		return d[mids[0]]
	}
	if len(mids) == 0 {
		return nil
	}
	return fmt.Errorf("tenant %d, %d devices, mid %s: %w", cid, len(mids),
		excerpt.Of(strings.Trim(fmt.Sprint(mids), "[]"), 200), ErrShredded)
}

// wrapping returns the cipher that keys of devices are wrapped by.
func wrapping(root *Key) cipher.AEAD {
	key := derive(root, labelWrap)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("BUG: " + err.Error()) // only for other sizes of keys
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("BUG: " + err.Error()) // only for other ciphers
	}
	return aead
}

// wrappedFor is what a wrapped key authenticates: whose it is, so that a table cannot give the key
// of another device.
func wrappedFor(cid int32, keyID uint32, mid int64) []byte {
	b := binary.BigEndian.AppendUint32([]byte("pentad/wrap/v1"), uint32(cid))
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, keyID), uint64(mid))
}

// deviceKey returns the key of a device under a root.
func (t *Tenant) deviceKey(
	ctx context.Context, root *Key, keyID uint32, mid int64,
) (k Key, err error) {
	table, ok := t.keyring.(DeviceTable)
	if !ok {
		return deviceKeyOf(root, t.cid, mid), nil
	}
	wrapped, random, err := table.Device(ctx, t.cid, keyID, mid)
	if err != nil {
		return k, fmt.Errorf("tenant %d, mid %d, key %s: %w", t.cid, mid, FormatKeyID(keyID), err)
	}
	if !random {
		return deviceKeyOf(root, t.cid, mid), nil
	}
	plain, err := wrapping(root).Open(nil, nil, wrapped, wrappedFor(t.cid, keyID, mid))
	if err != nil || len(plain) != KeyBytes {
		return k, fmt.Errorf("tenant %d, mid %d, key %s: the wrapped key of the device %w", t.cid,
			mid, FormatKeyID(keyID), ErrTampered)
	}
	copy(k[:], plain)
	return k, nil
}

// AddDevices makes the random keys of devices that have none under the current root; where keys of
// devices are derived it does nothing. [Tenant.NewWriter] does the same for its device: to do it
// for many at once is to wait for the keyring once.
//
// Errors: [ErrNoKey] if the tenant has no key; [ErrShredded] if the key of a device under the
// current root was destroyed: a newer root is needed.
func (t *Tenant) AddDevices(ctx context.Context, mids ...int64) error {
	keyID, fresh, err := t.NewDevices(ctx, mids...)
	if err != nil || len(fresh) == 0 {
		return err
	}
	root, err := t.root(ctx, keyID)
	if err != nil {
		return err
	}
	keys, aead := map[int64][]byte{}, wrapping(&root)
	for _, mid := range fresh {
		var k Key
		_, _ = rand.Read(k[:]) // it does not return where there is no randomness
		keys[mid] = aead.Seal(nil, nil, k[:], wrappedFor(t.cid, keyID, mid))
	}
	return t.keyring.(DeviceTable).AddDevices(ctx, t.cid, keyID, keys)
}

// NewDevices returns the current root key and which of some devices have no random key under it
// yet: none where keys of devices are derived. A new device has no readings under that key: if it
// has some, the keyring is older than these, e.g. restored from a copy, and a second key of the
// device would be mixed up with its first one.
//
// Errors: as [Tenant.AddDevices].
func (t *Tenant) NewDevices(
	ctx context.Context, mids ...int64,
) (keyID uint32, fresh []int64, err error) {
	table, ok := t.keyring.(DeviceTable)
	if !ok {
		return 0, nil, nil
	}
	if keyID, err = t.current(ctx); err != nil {
		return 0, nil, err
	}
	for _, mid := range mids {
		_, random, err := table.Device(ctx, t.cid, keyID, mid)
		switch {
		case err == nil && !random:
			return keyID, nil, nil
		case err == nil:
		case errors.Is(err, ErrNoKey):
			fresh = append(fresh, mid)
		default:
			return keyID, nil, fmt.Errorf("tenant %d, mid %d, key %s: %w", t.cid, mid,
				FormatKeyID(keyID), err)
		}
	}
	return keyID, fresh, nil
}

// readyDevice makes sure that a device has a key under the current root. Under a root whose devices
// can be shredded it refuses tags of the tenant's scope: these follow from the root, and would tell
// values after the key of the device was destroyed.
func (t *Tenant) readyDevice(ctx context.Context, s *Schema, keyID uint32, mid int64) error {
	table, ok := t.keyring.(DeviceTable)
	if !ok {
		return nil
	}
	_, random, err := table.Device(ctx, t.cid, keyID, mid)
	if !random {
		return err
	}
	for i := range s.def.Fields {
		f := &s.def.Fields[i]
		if f.Order != nil && f.Order.Scope == OfTenant ||
			f.Equal != nil && f.Equal.Scope == OfTenant {
			return fmt.Errorf("schema %d: field %q has tags of scope %q, which would tell its "+
				"values after the key of a device was destroyed; leave the scope out, or use a "+
				"key that is not shreddable", s.ID(), f.Name, OfTenant)
		}
	}
	return t.AddDevices(ctx, mid)
}
