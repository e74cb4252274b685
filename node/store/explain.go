package store

import (
	"context"
	"time"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// Explain runs a query as Scan does, counts the rows and says how they were found. Order, limit
// and plugins of q are the caller's, as with Scan.
//
// Cost: that of the scan, and of planning it once more, which TookNs leaves out.
func (s *Store) Explain(ctx context.Context, q *record.Query) (api.Explanation, error) {
	return s.ExplainPartials(ctx, q, nil)
}

// ExplainPartials is Explain for a sink that takes partials, if newPartialSink is not nil. It is
// asked of which it has the state, and opens all.
func (s *Store) ExplainPartials(
	ctx context.Context, q *record.Query, newPartialSink func() PartialSink,
) (api.Explanation, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	began := time.Now()
	sc, err := s.newScan(ctx, q)
	if err != nil {
		return api.Explanation{}, err
	}
	defer sc.Close()
	out, err := sc.Explain(began, newPartialSink)
	out.Shards = len(s.shards)
	s.counters.scans.Add(1)
	s.counters.blocksScanned.Add(int64(sc.Stats.BlocksScanned))
	return out, err
}
