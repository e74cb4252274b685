package wasmhost

import (
	"context"
	"encoding/binary"
	"fmt"
)

const (
	maxSavedSize = 1 << 20 // of one state

	// fuelGrowing is for a call that may walk all that one state owns: 4 units for each byte of the
	// largest, 1.3 ms in a loop that spins.
	fuelGrowing = 4 * maxSavedSize

	// A row may find memory for what its state owns: with Go that takes 10,000 units, 64 of which
	// count as one. Batches have fewer rows for it.
	fuelPerGrowth  = 1024
	leastGrowth    = 64 // a batch of one row may be the one for which a table is made anew
	maxGrowingRows = 2048

	// State_init may find memory for each state, with Go for 44,000 units.
	fuelPerNew   = 2048
	maxNewStates = 1024 // of one call, for its budget's sake

	savedPrefix = 4 // length of a saved state among others
)

func growingBudget(g *guest, s *states) int64 {
	return budgetFor(g, s.size) + g.scaled(fuelGrowing)
}

// save returns all states in the form of the ABI: each its size and its bytes.
func (s *states) save(ctx context.Context, g *guest) ([]byte, error) {
	if err := s.reserve(g); err != nil {
		return nil, err
	}
	var all []byte
	for group := range s.groups {
		if err := g.pause(ctx); err != nil {
			return nil, err
		}
		length, err := g.check(&s.saveF, growingBudget(g, s), uint64(s.at(group)),
			uint64(s.transfer), maxSavedSize)
		if err != nil {
			return nil, err
		}
		if length > maxSavedSize {
			return nil, g.fail(Output, exportSave, fmt.Sprintf("says it wrote %d bytes into room "+
				"for %d", length, maxSavedSize))
		}
		saved, err := g.view(exportSave, s.transfer, uint32(length))
		if err != nil {
			return nil, err
		}
		all = binary.LittleEndian.AppendUint32(all, uint32(length))
		all = append(all, saved...)
		if len(all) > s.limit {
			return nil, g.fail(Limit, exportSave, fmt.Sprintf("the states of %s of %s groups "+
				"exceed the limit of %s bytes; ask for fewer groups", grouped(uint64(group+1)),
				grouped(uint64(s.groups)), grouped(uint64(s.limit))))
		}
	}
	return all, nil
}

// reserve gets the memory through which saved states pass.
func (s *states) reserve(g *guest) (err error) {
	if s.transfer == 0 {
		s.transfer, err = g.alloc(maxSavedSize)
	}
	return err
}

// load folds saved states into groups, one after another.
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
	if err := s.reserve(g); err != nil {
		return err
	}
	for i, bytes := range saved {
		if err := g.pause(ctx); err != nil {
			return err
		}
		dst, err := g.view(exportAlloc, s.transfer, uint32(len(bytes)))
		if err != nil {
			return err
		}
		copy(dst, bytes)
		group := i
		if gid != nil {
			group = int(gid[i])
		}
		err = g.checkZero(&s.loadF, growingBudget(g, s), uint64(s.at(group)),
			uint64(s.transfer), uint64(len(bytes)))
		if err != nil {
			return err
		}
	}
	return nil
}

// parseSaved takes saved states apart; they alias src.
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
