package store

import (
	"context"
	"errors"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/health"
)

const (
	adviceRestart = "find out from the kernel's log what is wrong with the disk, then start the " +
		"process again: it goes on from what is on disk"
	adviceRetry = "it is tried again by itself, at least once a minute; if it stays, find out " +
		"from the kernel's log what is wrong with the disk"
	adviceUnreadable = "describe the devices again, e.g. with pentad device set, or delete the " +
		"records, which pentad versions shows; a node of an older version cannot read " +
		"descriptions of a newer one"
	adviceDamagedRetry = "it is tried again by itself, at least once an hour; the problem " +
		"file_damaged says what to do"
)

// Problems returns what is wrong with the store and stays wrong for longer than a request.
func (s *Store) Problems() []health.Problem {
	if s.closed.Load() { // it has none any more
		return nil
	}
	var all []health.Problem
	add := func(code, advice string, err error, notReady, restart bool) {
		if err != nil {
			all = append(all, health.Problem{Code: code, Message: err.Error(), Advice: advice,
				NotReady: notReady, Restart: restart})
		}
	}
	sealErr, releaseErr, mergeErr := s.headBudget.SealErr(), s.logDeleteErr.Err(), s.mergeErr.Err()
	if s.damaged.IsLost() { // to end the process would lose what is in its memory
		add("log_failed", adviceGone, s.log.Failure(), true, false)
	} else {
		add("log_failed", adviceRestart, s.log.Failure(), true, true)
	}
	add("store_failed", adviceRestart, s.failed.Err(), true, true)
	add("manifest_failed", adviceRestart, s.manifest.Err(), true, true)
	_, lack := s.log.NoSpace()
	add("disk_full", retryAdvice(lack), lack, true, false)
	if s.manifest.Err() != nil || s.log.Failure() != nil {
		return all // what follows from that would only hide it
	}
	add("seal_failed", retryAdvice(sealErr), sealErr, s.headBudget.IsFull(), false)
	add("log_kept", retryAdvice(releaseErr), releaseErr, false, false)
	all = append(all, s.retentionProblems()...)
	add("merge_failed", mergeAdvice(mergeErr), mergeErr, false, false)
	add("descriptions_unreadable", adviceUnreadable, s.described.problem(), false, false)
	return append(all, s.damaged.Problems()...)
}

func retryAdvice(err error) string {
	if durable.IsNoSpace(err) {
		return durable.SpaceAdvice(err) + "; it is tried again by itself"
	}
	return adviceRetry
}

func mergeAdvice(err error) string {
	if errors.As(err, new(*durable.CorruptError)) {
		return adviceDamagedRetry
	}
	return retryAdvice(err)
}

const (
	// spaceRetryFirst and spaceRetryLast bound how long a store without space waits before it
	// looks again, twice as long each time.
	spaceRetryFirst = time.Second
	spaceRetryLast  = 30 * time.Second
	// spareBytes is how much must be free, besides what was refused last, before the log is tried
	// again: else what little there is would be taken by the attempt.
	spareBytes = 16 << 20
)

// spaceLoop ends a lack of space when there is space again, also while nothing is put: who sends
// requests to nodes that are ready would never send the put that finds the space.
func (s *Store) spaceLoop() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wait := spaceRetryFirst
	var again <-chan time.Time // nil while there is space
	for {
		select {
		case <-s.log.NoSpaceSignal():
			if again == nil {
				again = time.After(wait)
			}
			continue
		case <-again:
		case <-s.stop:
			return
		}
		bytes, lack := s.log.NoSpace()
		if lack == nil {
			wait, again = spaceRetryFirst, nil
			continue
		}
		wait = min(2*wait, spaceRetryLast)
		again = time.After(wait)
		if hasSpace(s.opt.Dir, bytes) {
			_ = s.onCommitter(ctx, func() { _ = s.logLease() }) // the log notes how it went
		}
	}
}

// hasSpace reports whether the disk has space for an append of n bytes, or does not say.
func hasSpace(dir string, n int64) bool {
	disk, ok := durable.DiskOf(dir)
	return !ok || disk.Free >= uint64(n+spareBytes)
}
