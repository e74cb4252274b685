package store

import (
	"github.com/pentad-db/pentad/node/store/shards"
)

// rotateFull rotates the heads that are full, the head that keeps the oldest log file if there are
// too many, and the largest ones while all together exceed half the budget. It runs on the
// committer: nothing is inserted meanwhile.
func (s *Store) rotateFull() {
	for _, sh := range s.allShards {
		if h := sh.State.Load().Head; s.isFull(h) || sh.IsBackdated() && isBackdatedFull(h) {
			s.rotate(sh)
		}
	}
	if sh := s.shardKeepingLog(); sh != nil {
		s.rotate(sh)
	}
	for {
		sh := largestOver(s.allShards, s.opt.HeadBytes)
		if sh == nil || !s.rotate(sh) {
			return
		}
	}
}

// isFull reports whether a head has enough rows for a segment, or bytes that must not get more.
func (s *Store) isFull(h shards.Head) bool {
	return h.Rows() >= s.opt.SealRows || h.Bytes() >= maxOneHeadBytes
}

// rotate gives the shard an empty head and hands the old one to the sealer, unless that is empty or
// it is unknown whether all of its rows are durable.
func (s *Store) rotate(sh *shards.Shard) (rotated bool) {
	if s.headsUnsynced || !sh.Rotate() {
		return false
	}
	s.requestSeal(sh)
	return true
}

// requestSeal asks for the oldest immutable head of the shard. When the sealer is far behind it
// waits, and with it all puts.
func (s *Store) requestSeal(sh *shards.Shard) {
	select {
	case s.sealRequests <- sealRequest{shard: sh}:
	case <-s.stop:
	}
}

// sealHeadsOfReplay asks for the heads that recovery filled.
func (s *Store) sealHeadsOfReplay() {
	for _, sh := range s.allShards {
		for range sh.State.Load().Immutable {
			s.requestSeal(sh)
		}
	}
	s.rotateFull()
}

// largestOver returns the shard with the largest head if the mutable heads take more than half the
// budget, else nil. So when puts wait, immutable heads take the other half, and a seal is running
// that frees some.
func largestOver(all []*shards.Shard, budget int64) *shards.Shard {
	var total, most int64
	var largest *shards.Shard
	for _, sh := range all {
		size := sh.State.Load().Head.Bytes()
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
