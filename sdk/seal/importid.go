package seal

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// ImportID returns what a node may know an import of readings of a tenant by, given a digest of all
// that they come from: the same for the same digest, also after keys were rotated, as it follows
// from the oldest key of the tenant. Who does not have that key can neither tell the digest from it
// nor confirm a guess.
//
// Errors: [ErrNoKey].
func (m *MemoryKeyring) ImportID(
	ctx context.Context, cid int32, digest []byte,
) (id [KeyBytes]byte, err error) {
	var oldest uint32
	m.change(func(t keyTable) {
		if keys := t[cid]; keys != nil && len(keys.Roots) > 0 {
			oldest = slices.Min(slices.Collect(maps.Keys(keys.Roots)))
		}
	})
	root, err := m.Root(ctx, cid, oldest)
	if err != nil {
		return id, fmt.Errorf("keys of tenant %d: %w", cid, err)
	}
	return derive(&root, labelImport, be32(uint32(cid)), digest), nil
}
