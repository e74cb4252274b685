package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/record"
)

// ErrMissing means that a record with an acq below those that were assigned or leased is not
// stored.
var ErrMissing = errors.New("acqs up to there were assigned or leased already")

// CheckStamped returns the error with which PutStamped, or with below set PutBackdated, would
// refuse a batch, unless something else is put meanwhile. It stores nothing and leaves the horizon
// where it is.
//
// Returns: without below, how many rows PutStamped would refuse although they are stored; they are
// the first ones.
// Errors: those of PutStamped or PutBackdated; ErrMissing.
// Cost: that of finding the rows that have the same acqs.
func (s *Store) CheckStamped(
	ctx context.Context, b *record.Batch, below bool,
) (known int, err error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	if err := s.refuseReplicated(); err != nil {
		return 0, err
	}
	if s.oracle.IsCopy() {
		return 0, ErrIsCopy
	}
	if below {
		if err = b.Validate(); err == nil && b.AcqNs == nil {
			err = refusedAcq(0, "the batch has none")
		}
	} else {
		err = checkStamps(b)
	}
	if err != nil {
		return 0, err
	}
	if last, now := slices.Max(b.AcqNs), s.opt.Now(); last > now {
		return 0, refusedAcq(-1, "%s is in the future: the clock shows %s", record.FormatNs(last),
			record.FormatNs(now))
	}
	if below {
		_, err = s.unknownBackdated(ctx, shards.ByAcq(b), &PutBackdatedResult{})
		return 0, err
	}
	return s.checkOld(ctx, b)
}

// checkOld wants those rows of a batch stored that PutStamped would refuse, and counts them.
func (s *Store) checkOld(ctx context.Context, b *record.Batch) (known int, err error) {
	floor := max(s.oracle.NextNs(), 1)
	known, _ = slices.BinarySearch(b.AcqNs, floor)
	if known == 0 {
		return 0, nil
	}
	old := &record.Batch{}
	old.AppendRows(b, 0, known)
	there, err := s.countByAcq(old)
	if err != nil {
		return 0, err
	}
	found, err := s.findKnown(ctx, old, there)
	if err != nil {
		return 0, err
	}
	for i := range known {
		if k := old.Key(i); !found[i] {
			return 0, fmt.Errorf("%d of %d records with acqs below %s are not stored, e.g. "+
				"cid %d, mid %d, moid %d, cap %s, acq %s: %w", known-len(found), known,
				record.FormatNs(floor), k.CID, k.MID, k.MOID, record.FormatNs(k.CapNs),
				record.FormatNs(k.AcqNs), ErrMissing)
		}
	}
	return known, nil
}
