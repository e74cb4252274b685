package store

// BackgroundLimit limits how many seals, due merges and idle merges run at once in the stores that
// share it. A node has dozens of replicas, whose heads fill up at about the same time: without a
// limit they would occupy all processors and several times the memory.
type BackgroundLimit struct{ seals, merges, idleMerges chan struct{} }

// NewBackgroundLimit returns a limit of n seals, n due merges and one idle merge.
func NewBackgroundLimit(n int) *BackgroundLimit {
	return &BackgroundLimit{make(chan struct{}, n), make(chan struct{}, n), make(chan struct{}, 1)}
}

// underLimit waits for a slot and calls do. It returns ErrClosed if the store is closed before.
func (s *Store) underLimit(slots chan struct{}, do func() error) error {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
		return do()
	case <-s.stop:
		return ErrClosed
	}
}
