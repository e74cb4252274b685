package seal

import (
	"context"
	"fmt"
	"sync"
)

// keptChains is how many chains a tenant keeps the keys of: each takes some 2 KB, and a sum that is
// asked for again derives none of them again.
const keptChains = 2048

// keptChain names the keys of a chain.
type keptChain struct {
	schema uint16
	keyID  uint32
	mid    int64
	moid   int32
	chain  uint64
}

// keyCache keeps keys of chains that were used, as one goroutine at a time may use them: who takes
// keys has them alone until it puts them back.
type keyCache struct {
	mu   sync.Mutex
	kept map[keptChain]*chainKeys
}

func (k *keyCache) take(id keptChain) *chainKeys {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.kept[id]
	if c != nil {
		delete(k.kept, id)
	}
	return c
}

// put keeps keys. Where there is no room those of some other chain make it.
func (k *keyCache) put(id keptChain, c *chainKeys) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil {
		k.kept = map[keptChain]*chainKeys{}
	}
	if len(k.kept) >= keptChains {
		for other := range k.kept {
			delete(k.kept, other)
			break
		}
	}
	k.kept[id] = c
}

// withChain calls use with the keys of a chain of a series.
func (t *Tenant) withChain(
	ctx context.Context, s *Schema, id keptChain, use func(*chainKeys) error,
) error {
	c := t.chains.take(id)
	if table, ok := t.keyring.(DeviceTable); ok && c != nil {
		// The key of the device may have been destroyed since.
		if _, _, err := table.Device(ctx, t.cid, id.keyID, id.mid); err != nil {
			return fmt.Errorf("tenant %d, mid %d, key %s: %w", t.cid, id.mid,
				FormatKeyID(id.keyID), err)
		}
	}
	if c == nil {
		keys, err := t.seriesKeys(ctx, s, id.keyID, id.mid, id.moid)
		if err != nil {
			return err
		}
		c = newChainKeys(s, &keys, id.chain)
	}
	err := use(c)
	t.chains.put(id, c)
	return err
}
