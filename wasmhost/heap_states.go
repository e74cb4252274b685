package wasmhost

import (
	"context"
	"encoding/binary"
	"fmt"
)

const (
	maxSavedSize  = 1 << 20 // of one state
	leastTransfer = 16 << 10

	// fuelHeapState is the budget of a call that may walk the heap memory of one state: 32 units
	// for each byte of the largest, or 10 ms, as lists of small numbers take 30 for each byte
	// written.
	fuelHeapState = 32 * maxSavedSize

	// A row may make its state allocate: with Go that takes 10,000 units, 64 of which count as one.
	// Therefore batches have fewer rows.
	fuelPerGrowth    = 1024
	minHeapStateRows = 64 // a single row may make a hash table grow
	maxHeapStateRows = 2048

	// State_init may allocate for each state, with Go for 44,000 units.
	fuelPerNew   = 2048
	maxNewStates = 1024 // of one call, to bound its budget

	savedPrefix = 4 // length prefix of a saved state
)

func heapStateBudget(g *guest, s *states) int64 {
	return budgetFor(g, s.size) + g.scaled(fuelHeapState)
}

// save returns all states as the ABI has them: the size and the bytes of each.
func (s *states) save(ctx context.Context, g *guest) ([]byte, error) {
	if err := s.reserve(g, maxSavedSize); err != nil {
		return nil, err
	}
	var all []byte
	for group := range s.groups {
		if err := g.pause(ctx); err != nil {
			return nil, err
		}
		saved, err := s.saveAt(g, s.at(group))
		if err != nil {
			return nil, err
		}
		all = binary.LittleEndian.AppendUint32(all, uint32(len(saved)))
		all = append(all, saved...)
		if len(all) > s.limit {
			return nil, g.fail(Limit, exportSave, fmt.Sprintf("the states of %s of %s groups "+
				"exceed the limit of %s bytes; ask for fewer groups", grouped(uint64(group+1)),
				grouped(uint64(s.groups)), grouped(uint64(s.limit))))
		}
	}
	return all, nil
}

// saveAt saves the state at an address. The bytes are valid until the next call of the guest.
func (s *states) saveAt(g *guest, at uint32) ([]byte, error) {
	length, err := g.check(&s.saveF, heapStateBudget(g, s), uint64(at), uint64(s.transfer),
		maxSavedSize)
	if err != nil {
		return nil, err
	}
	if length > maxSavedSize {
		return nil, g.fail(Output, exportSave, fmt.Sprintf("says it wrote %d bytes into space "+
			"for %d", length, maxSavedSize))
	}
	return g.view(exportSave, s.transfer, uint32(length))
}

// reserve allocates the guest memory for the transfer of a saved state of this size. It at least
// doubles, since guests never free; most queries need little, and what an instance has is cleared
// for the next use.
func (s *states) reserve(g *guest, size int) (err error) {
	if size <= s.transferSize {
		return nil
	}
	want := min(maxSavedSize, max(size, 2*s.transferSize, leastTransfer))
	if s.transfer, err = g.alloc(uint32(want)); err == nil {
		s.transferSize = want
	}
	return err
}

// load merges saved states into groups, one after another.
func (s *states) load(ctx context.Context, g *guest, src []byte, gid []uint32) error {
	saved, err := parseSaved(src)
	if err == nil && gid != nil && len(gid) != len(saved) {
		err = fmt.Errorf("%d saved states for %d groups", len(saved), len(gid))
	}
	if err != nil {
		return g.fail(Limit, exportLoad, err.Error())
	}
	if err := s.growTo(ctx, g, len(saved), gid); err != nil {
		return err
	}
	for i, bytes := range saved {
		if err := g.pause(ctx); err != nil {
			return err
		}
		group := i
		if gid != nil {
			group = int(gid[i])
		}
		if err := s.loadAt(g, bytes, s.at(group)); err != nil {
			return err
		}
	}
	return nil
}

// loadAt merges a saved state into that at an address.
func (s *states) loadAt(g *guest, saved []byte, at uint32) error {
	if err := s.reserve(g, len(saved)); err != nil {
		return err
	}
	dst, err := g.view(exportAlloc, s.transfer, uint32(len(saved)))
	if err != nil {
		return err
	}
	copy(dst, saved)
	return g.checkZero(&s.loadF, heapStateBudget(g, s), uint64(at), uint64(s.transfer),
		uint64(len(saved)))
}

// parseSaved splits saved states; they alias src.
func parseSaved(src []byte) ([][]byte, error) {
	var saved [][]byte
	for len(src) > 0 {
		if len(src) < savedPrefix {
			return nil, fmt.Errorf("%d bytes are left over after %d saved states", len(src),
				len(saved))
		}
		size := uint64(binary.LittleEndian.Uint32(src))
		src = src[savedPrefix:]
		if size > maxSavedSize || size > uint64(len(src)) {
			return nil, fmt.Errorf("saved state %d says it has %d bytes, %d are left, and %d are "+
				"the most", len(saved), size, len(src), maxSavedSize)
		}
		saved = append(saved, src[:size:size])
		src = src[size:]
	}
	return saved, nil
}
