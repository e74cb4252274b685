package store

import "github.com/pentad-db/pentad/index"

// sealFull freezes the heads that are full, the one that pins the oldest log file when the log has
// grown too long, and the largest when all together crowd their budget. It runs on the committer:
// nothing is inserted meanwhile.
func (s *Store) sealFull() {
	for _, sh := range s.all {
		if h := sh.snapshot.Load().head; s.isFull(h) || sh.isAside() && asideFull(h) {
			s.freeze(sh)
		}
	}
	if sh := s.pinning(); sh != nil {
		s.freeze(sh)
	}
	for sh := s.crowding(); sh != nil; sh = s.crowding() {
		s.freeze(sh)
	}
}

// isFull reports whether a head has enough rows for a segment, or bytes that must not get more.
func (s *Store) isFull(h *index.Head) bool {
	return h.Rows() >= s.opt.SealRows || h.Bytes() >= maxHeadBytes
}

// crowding returns the shard with the largest head when the heads that still grow take more than
// half the budget. So when puts wait for room, half of it is taken by frozen heads, and there is a
// seal under way that makes some.
func (s *Store) crowding() *shard {
	var total, most int64
	var largest *shard
	for _, sh := range s.all {
		size := sh.snapshot.Load().head.Bytes()
		total += size
		if size > most {
			most, largest = size, sh
		}
	}
	if total <= s.opt.HeadMax/2 {
		return nil
	}
	return largest
}

// freeze gives the shard an empty head and hands the old one to the sealer.
func (s *Store) freeze(sh *shard) {
	if sh.freeze() {
		s.requestSeal(sh)
	}
}

// requestSeal asks for the oldest frozen head of the shard. When the sealer is far behind it waits,
// and with it all puts.
func (s *Store) requestSeal(sh *shard) {
	select {
	case s.seals <- sealRequest{shard: sh}:
	case <-s.stop:
	}
}

// sealReplayed asks for the heads that recovery filled.
func (s *Store) sealReplayed() {
	for _, sh := range s.all {
		for range sh.snapshot.Load().frozen {
			s.requestSeal(sh)
		}
	}
	s.sealFull()
}
