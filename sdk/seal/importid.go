package seal

import (
	"context"
	"fmt"
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
	all, err := m.Keys(ctx, cid)
	if err != nil {
		return id, err
	}
	root, err := m.Root(ctx, cid, all[0])
	if err != nil {
		return id, fmt.Errorf("keys of tenant %d: %w", cid, err)
	}
	return derive(&root, labelImport, be32(uint32(cid)), digest), nil
}
