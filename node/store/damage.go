package store

import "github.com/pentad-db/pentad/node/internal/durable"

// Damage returns the damage that is known, of each live segment what was found first, by name. It
// is found by queries, merges, backups, Verify, Look and the scrub.
//
// Cost: some ns without damage.
func (s *Store) Damage() []*durable.CorruptError { return s.damaged.All() }

// recordDamage remembers the damage that an error reports, if it is of a segment, and returns the
// error.
func (s *Store) recordDamage(err error) error { return s.damaged.Note(err) }

// livePaths returns the segments that are live.
func (s *Store) livePaths() map[string]bool {
	live := map[string]bool{}
	for _, sh := range s.allShards {
		for _, seg := range sh.State.Load().Sealed {
			live[seg.File.Path()] = true
		}
	}
	return live
}

// markDamaged tells a segment whether its damage is known.
func (s *Store) markDamaged(path string, damaged bool) {
	for _, sh := range s.allShards {
		for _, seg := range sh.State.Load().Sealed {
			if seg.File.Path() == path {
				seg.Damaged.Store(damaged)
			}
		}
	}
}

// isDamaged reports whether the damage of a live segment is known.
func (s *Store) isDamaged(id uint64) bool {
	for _, sh := range s.allShards {
		for _, seg := range sh.State.Load().Sealed {
			if seg.Meta.ID == id {
				return seg.Damaged.Load()
			}
		}
	}
	return false
}
