package seal

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrNoKey says that a keyring does not have a key.
var ErrNoKey = errors.New("the keyring has no such key")

// Keyring gives the root keys of tenants. No two keys of a tenant ever have one id, also if all
// keys are lost and others are made: ids are best those of [Key.ID]. Its methods may be called from
// many goroutines.
//
// Errors: [ErrNoKey] for a key that is not there; what a key service answers else.
type Keyring interface {
	// Root returns a root key of a tenant.
	Root(ctx context.Context, cid int32, keyID uint32) (Key, error)
	// Keys returns the ids of the root keys of a tenant, at least one, as they were made: new
	// payloads are sealed under the last one.
	Keys(ctx context.Context, cid int32) ([]uint32, error)
}

// Tenant seals and opens what belongs to one tenant.
type Tenant struct {
	keyring Keyring
	cid     int32
	schemas map[uint16]*Schema

	mu    sync.Mutex
	roots map[uint32]Key

	chains keyCache
}

// OpenTenant returns a tenant whose payloads have one of the schemas.
func OpenTenant(keyring Keyring, cid int32, schemas ...*Schema) (*Tenant, error) {
	t := &Tenant{keyring: keyring, cid: cid, schemas: map[uint16]*Schema{},
		roots: map[uint32]Key{}}
	for _, s := range schemas {
		if t.schemas[s.ID()] != nil {
			return nil, fmt.Errorf("two schemas have the number %d", s.ID())
		}
		t.schemas[s.ID()] = s
	}
	return t, nil
}

func (t *Tenant) schema(id uint16) (*Schema, error) {
	if s := t.schemas[id]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("schema %d is not known here", id)
}

// current is the id of the key that new payloads are sealed under.
func (t *Tenant) current(ctx context.Context) (keyID uint32, err error) {
	ids, err := t.keyring.Keys(ctx, t.cid)
	if err == nil && len(ids) == 0 {
		err = ErrNoKey
	}
	if err != nil {
		return 0, fmt.Errorf("current key of tenant %d: %w", t.cid, err)
	}
	return ids[len(ids)-1], nil
}

// root returns a root key, asking the keyring for each once.
func (t *Tenant) root(ctx context.Context, keyID uint32) (Key, error) {
	t.mu.Lock()
	root, ok := t.roots[keyID]
	t.mu.Unlock()
	if ok {
		return root, nil
	}
	root, err := t.keyring.Root(ctx, t.cid, keyID)
	if err != nil {
		return Key{}, fmt.Errorf("key %s of tenant %d: %w", FormatKeyID(keyID), t.cid, err)
	}
	t.mu.Lock()
	t.roots[keyID] = root
	t.mu.Unlock()
	return root, nil
}

// seriesKeys are the keys of a series under one key id and schema.
type seriesKeys struct {
	root, device, series Key
	mid                  int64
	moid                 int32
}

func (t *Tenant) seriesKeys(
	ctx context.Context, s *Schema, keyID uint32, mid int64, moid int32,
) (k seriesKeys, err error) {
	k.mid, k.moid = mid, moid
	if k.root, err = t.root(ctx, keyID); err != nil {
		return k, err
	}
	if k.device, err = t.deviceKey(ctx, &k.root, keyID, mid); err != nil {
		return k, err
	}
	k.series = seriesKeyOf(&k.device, moid, s)
	return k, nil
}

// of returns the key that tags of a scope are derived from.
func (k *seriesKeys) of(s Scope) *Key {
	if s == OfTenant {
		return &k.root
	}
	return &k.device
}
