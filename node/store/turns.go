package store

// Turns lets stores of one process take turns in the background: so many seals, as many merges that
// are due, and one that a store at rest does, run at once. The replicas of a node, dozens of them,
// fill their heads about the same time, and would take all processors and a multiple of the memory.
type Turns struct{ seals, merges, rests chan struct{} }

// NewTurns returns turns for n seals and n due merges at once.
func NewTurns(n int) *Turns {
	return &Turns{make(chan struct{}, n), make(chan struct{}, n), make(chan struct{}, 1)}
}

// inTurn does something when it is its turn, or nothing when the store is closed before.
func (s *Store) inTurn(turns chan struct{}, do func() error) error {
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
		return do()
	case <-s.stop:
		return ErrClosed
	}
}
