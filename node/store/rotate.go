package store

import "github.com/pentad-db/pentad/index"

// sealFull rotates the heads that are full, the head that pins the oldest log file if there are too
// many, and the largest ones while all together exceed half the budget. It runs on the committer:
// nothing is inserted meanwhile.
func (s *Store) sealFull() {
	for _, sh := range s.all {
		if h := sh.state.Load().head; s.isFull(h) || sh.isBackdated() && backdatedFull(h) {
			s.rotate(sh)
		}
	}
	if sh := s.pinning(); sh != nil {
		s.rotate(sh)
	}
	for {
		sh := largestOver(s.all, s.opt.HeadMax)
		if sh == nil {
			return
		}
		s.rotate(sh)
	}
}

// isFull reports whether a head has enough rows for a segment, or bytes that must not get more.
func (s *Store) isFull(h *index.Head) bool {
	return h.Rows() >= s.opt.SealRows || h.Bytes() >= maxHeadBytes
}

// rotate gives the shard an empty head and hands the old one to the sealer.
func (s *Store) rotate(sh *shard) {
	if sh.rotate() {
		s.requestSeal(sh)
	}
}

// requestSeal asks for the oldest immutable head of the shard. When the sealer is far behind it
// waits, and with it all puts.
func (s *Store) requestSeal(sh *shard) {
	select {
	case s.seals <- sealRequest{shard: sh}:
	case <-s.stop:
	}
}

// sealReplayed asks for the heads that recovery filled.
func (s *Store) sealReplayed() {
	for _, sh := range s.all {
		for range sh.state.Load().immutable {
			s.requestSeal(sh)
		}
	}
	s.sealFull()
}

// largestOver returns the shard with the largest head if the mutable heads take more than half the
// budget, else nil. So when puts wait, immutable heads take the other half, and a seal is under way
// that frees some.
func largestOver(all []*shard, budget int64) *shard {
	var total, most int64
	var largest *shard
	for _, sh := range all {
		size := sh.state.Load().head.Bytes()
		total += size
		if size > most {
			most, largest = size, sh
		}
	}
	if total <= budget/2 {
		return nil
	}
	return largest
}
