package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// fewKnown rows are looked for one by one; for more, all is read that lies among them.
	fewKnown = 64
	// knownRun is how many rows whose keys are stored are compared at once, in the order of keys:
	// what lies among a few neighbours is little.
	knownRun = 256
)

// PutBackdatedResult is what became of the rows of a backdated put.
type PutBackdatedResult struct {
	Stored   int
	Repeated int   // were stored already, with the same key and payload
	Purged   int   // not stored, because a purge or retention covers their keys
	PutNs    int64 // acq of the put, from which on answers may differ; 0: nothing was stored
}

// PutBackdated stores a batch with the acqs that it contains, wherever they are: in any order,
// equal ones, and far below the horizon, whose guarantee it breaks. It is for restoring, and for
// copies of other systems. Every view shows the rows by their acqs, also as-of views from before
// the put; ScanStats.HistoryChangedAcqNs reports puts that met the box of a scan. Rows that are
// stored already are left out, and so are those that a purge or retention covers. On return the
// whole batch is durable and visible.
//
// Errors: as of Put; ErrIsCopy; ErrOtherPayload; *record.InvalidError of part acq for times that
// lie above the horizon. Cost: a few us a row, and that of reading the keys of the rows that have
// the same acqs.
func (s *Store) PutBackdated(
	ctx context.Context, b *record.Batch,
) (res PutBackdatedResult, err error) {
	if s.closed.Load() {
		return res, ErrClosed
	}
	if err := cmp.Or(s.refuseReplicated(), b.Validate()); err != nil {
		return res, err
	}
	if b.AcqNs == nil {
		return res, refusedAcq(0, "the batch has none")
	}
	if err := s.headBudget.Wait(ctx, 0); err != nil {
		return res, err
	}
	s.backdatedMu.Lock()
	defer s.backdatedMu.Unlock()
	rows, err := s.newBackdated(ctx, shards.ByAcq(b), &res)
	for err == nil && rows.Len() > 0 {
		var again bool
		if again, err = s.tryBackdated(ctx, rows, &res); !again {
			break
		}
	}
	if err != nil {
		return PutBackdatedResult{}, err
	}
	return res, nil
}

// newBackdated returns the rows of a batch, which are in the order of acq, that are not stored.
func (s *Store) newBackdated(
	ctx context.Context, b *record.Batch, res *PutBackdatedResult,
) (*record.Batch, error) {
	if err := s.checkBackdated(ctx, b.AcqNs[b.Len()-1]); err != nil {
		return nil, err
	}
	return s.unknownBackdated(ctx, b, res)
}

// unknownBackdated is newBackdated wherever the horizon is.
func (s *Store) unknownBackdated(
	ctx context.Context, b *record.Batch, res *PutBackdatedResult,
) (*record.Batch, error) {
	rows := &record.Batch{}
	for i := range b.Len() {
		if i == 0 || b.Key(i) != b.Key(i-1) {
			rows.AppendRow(b, i)
			continue
		}
		if b.Tomb(i) != b.Tomb(i-1) || !bytes.Equal(b.Payload(i), b.Payload(i-1)) {
			return nil, errKnownAs(b.Key(i))
		}
		res.Repeated++
	}
	there, err := s.countByAcq(rows)
	if err != nil {
		return nil, err
	}
	known, err := s.findKnown(ctx, rows, there)
	if err != nil {
		return nil, err
	}
	if res.Repeated += len(known); len(known) > 0 {
		var fresh []uint32
		for i := range rows.Len() {
			if !known[i] {
				fresh = append(fresh, uint32(i))
			}
		}
		rows = selectRows(rows, fresh)
	}
	return rows, nil
}

func selectRows(rows *record.Batch, which []uint32) *record.Batch {
	out := &record.Batch{}
	if len(which) > 0 {
		out.AppendPicked(rows, which)
	}
	return out
}

func errKnownAs(k record.Key) error {
	return fmt.Errorf("cid %d, mid %d, moid %d, cap %s, acq %s: %w", k.CID, k.MID, k.MOID,
		record.FormatNs(k.CapNs), record.FormatNs(k.AcqNs), ErrOtherPayload)
}

// checkBackdated refuses an acq that is not below the horizon: it may yet be allocated to another
// row.
// A horizon that a commit in flight holds back is asked for once more, after it.
func (s *Store) checkBackdated(ctx context.Context, greatestNs int64) error {
	horizon, err := s.ExtendHorizon(ctx)
	if err == nil && greatestNs >= horizon {
		err = s.onCommitter(ctx, func() { horizon, _ = s.oracle.Horizon() })
	}
	if err != nil {
		return err
	}
	if horizon <= manifest.NoPut {
		return refusedAcq(-1, "the machine's clock shows %s, before 1970; set it",
			record.FormatNs(horizon))
	}
	if greatestNs >= horizon {
		return refusedAcq(-1, "%s is in the future: the horizon is %s",
			record.FormatNs(greatestNs), record.FormatNs(horizon))
	}
	return nil
}

// countByAcq returns how many stored rows have each of the acqs of some rows.
func (s *Store) countByAcq(rows *record.Batch) (acqCounts, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	if s.closed.Load() {
		return nil, ErrClosed
	}
	there := acqCounts{}
	for _, acq := range rows.AcqNs {
		there[acq] = 0
	}
	for _, sh := range s.shards {
		state := sh.PinWithBackdated()
		there.count(state)
		state.Unpin()
	}
	return there, nil
}

// findKnown returns the numbers of the rows that are stored, with the same five parts and payload.
// Only where a row has the same acq is anything read; payloads are where all of the key is there.
//
// Errors: ErrOtherPayload where the payload is another.
func (s *Store) findKnown(
	ctx context.Context, rows *record.Batch, there acqCounts,
) (map[int]bool, error) {
	var maybe []int
	for i, acq := range rows.AcqNs {
		if there[acq] > 0 {
			maybe = append(maybe, i)
		}
	}
	l := &knownLook{rows: rows, known: map[int]bool{}}
	if len(maybe) > fewKnown {
		l.keysOnly = true
		if err := l.look(ctx, s, maybe); err != nil {
			return nil, err
		}
		maybe = slices.AppendSeq(maybe[:0], maps.Keys(l.known))
		l.keysOnly, l.known = false, map[int]bool{}
	}
	for some := range runsOfKeys(rows, maybe) {
		if err := l.look(ctx, s, some); err != nil {
			return nil, err
		}
	}
	return l.known, nil
}

// runsOfKeys returns the numbers of rows in the order of keys, some at a time: a few one by one,
// others in runs of one tenant.
func runsOfKeys(rows *record.Batch, which []int) iter.Seq[[]int] {
	slices.SortFunc(which, func(a, b int) int { return rows.Key(a).Compare(rows.Key(b)) })
	most := knownRun
	if len(which) <= fewKnown {
		most = 1
	}
	return func(yield func([]int) bool) {
		for from := 0; from < len(which); {
			to := from + 1
			for to < len(which) && to-from < most &&
				rows.CID[which[to]] == rows.CID[which[from]] {
				to++
			}
			if !yield(which[from:to]) {
				return
			}
			from = to
		}
	}
}

// knownLook looks for rows that are stored.
type knownLook struct {
	rows     *record.Batch
	asked    map[record.Key]int // the numbers of rows
	keysOnly bool               // payloads are not compared

	mu    sync.Mutex
	known map[int]bool // guarded by mu
}

// look looks for some rows, given by their numbers.
func (l *knownLook) look(ctx context.Context, s *Store, some []int) error {
	q := record.Query{Verify: true, KeysOnly: l.keysOnly} // what is stored depends on it
	l.asked = map[record.Key]int{}
	for _, i := range some {
		k := l.rows.Key(i)
		for d := range record.Dim(record.NumDims) {
			v := k.Part(d)
			if len(l.asked) == 0 {
				q.Box[d] = record.RangeSet{record.At(v)}
			}
			hull := &q.Box[d][0]
			hull.From, hull.To = min(hull.From, v), max(hull.To, v+1)
		}
		l.asked[k] = i
	}
	_, err := s.scanInto(ctx, &q, 1, s.newQuietScan, func(int) (Consumer, error) {
		return Consumer{Rows: l.sink, Columns: segment.AllColumns}, nil
	})
	return err
}

func (l *knownLook) sink(b *record.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range b.Len() {
		k := b.Key(i)
		at, ok := l.asked[k]
		if !ok {
			continue
		}
		if !l.keysOnly && (b.Tomb(i) != l.rows.Tomb(at) ||
			!bytes.Equal(b.Payload(i), l.rows.Payload(at))) {
			return errKnownAs(k)
		}
		l.known[at] = true
	}
	return nil
}

// backdatedHead is the rows of a put for one backdated shard, and the new head that contains them.
type backdatedHead struct {
	shard *shards.Shard // its backdated shard
	rows  *record.Batch
	old   *index.Head // the present one, whose rows it has, too
	head  *index.Head
}

// tryBackdated stores rows, which are in the order of acq. The heads are made ahead of the commit,
// and all is to be done again when a seal or an event came between.
func (s *Store) tryBackdated(
	ctx context.Context, rows *record.Batch, res *PutBackdatedResult,
) (again bool, err error) {
	tombstones := s.tombstones.Load()
	var kept []uint32
	for i := range rows.Len() {
		if tombstones.Purged.Oldest(rows.Key(i)) == nil {
			kept = append(kept, uint32(i))
		}
	}
	res.Purged = rows.Len() - len(kept)
	if len(kept) == 0 {
		return false, nil
	}
	rows = selectRows(rows, kept)
	put := &putRequest{rows: rows.Len(), done: make(chan struct{}),
		byShard: splitByShard(rows, len(s.shards))}
	stampShardRows(put.byShard, rows, len(s.shards))
	heads, err := s.backdatedHeads(put)
	if err != nil {
		return false, err
	}
	var failed error
	err = s.onCommitter(ctx, func() {
		for i := range heads {
			again = again || heads[i].shard.State.Load().Head.Shards[0] != heads[i].old
		}
		if again = again || s.tombstones.Load() != tombstones; !again {
			res.PutNs, failed = s.commitBackdated(put, heads)
		}
	})
	if err = errors.Join(err, failed); err == nil && !again {
		res.Stored = rows.Len()
		return false, nil
	}
	for i := range heads {
		heads[i].head.Unpin()
	}
	return again, err
}

// backdatedHeads makes the heads that a put makes the present ones, or the caller unpins.
func (s *Store) backdatedHeads(put *putRequest) ([]backdatedHead, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	if s.closed.Load() {
		return nil, ErrClosed
	}
	var heads []backdatedHead
	for i := range put.byShard {
		rows := &put.byShard[i]
		p := backdatedHead{shard: s.shards[rows.shard].Backdated, rows: &rows.rows}
		state := p.shard.Pin()
		p.old = state.Head.Shards[0] // it is not divided
		p.head = shards.WithRows(p.old, p.rows)
		state.Unpin()
		heads = append(heads, p)
	}
	return heads, nil
}

// commitBackdated is the part of PutBackdated on the committer. The put has an acq of its own, as
// events have: from then on query results may differ from those before.
func (s *Store) commitBackdated(put *putRequest, heads []backdatedHead) (putNs int64, err error) {
	switch {
	case s.failed.Err() != nil:
		return 0, s.failed.Err()
	case s.oracle.IsCopy():
		return 0, ErrIsCopy
	}
	putNs = s.oracle.Reserve(1)
	entries := make([]wal.Entry, 0, len(heads))
	for _, p := range heads {
		e := p.shard.NextEntry()
		e.Data = segment.AppendRowsEntry(nil, &segment.RowsHeader{
			FirstAcqNs: p.rows.AcqNs[0], HasAcqs: true, EqualAcqs: true,
			BatchFirstAcqNs: putNs, BatchRecords: uint32(put.rows),
			BatchEntries: uint32(len(heads)),
		}, p.rows, nil)
		entries = append(entries, e)
	}
	began := time.Now()
	file, err := s.appendLog(entries)
	s.counters.logNs.Add(int64(time.Since(began)))
	s.counters.logAppends.Add(1)
	if err != nil {
		s.refuse([]*putRequest{put}, entries, fmt.Errorf("commit below the horizon: %w", err))
		return 0, put.err
	}
	s.recordLogFile(file, entries)
	grown := int64(0)
	s.backdatedSeq.Add(1)
	for _, p := range heads {
		p.shard.SetHead(p.head, p.rows, putNs)
		grown += p.head.GrowthSinceLastCall() - p.old.Bytes()
	}
	s.backdatedSeq.Add(1)
	for _, p := range heads {
		s.described.markRows(p.rows) // they are visible
	}
	s.headBudget.Add(grown)
	s.oracle.EndCommit()
	notifyFeeds(s.feeds, []*putRequest{put})
	s.counters.rows.Add(int64(put.rows))
	s.counters.backdatedRows.Add(int64(put.rows))
	s.counters.backdatedPuts.Add(1)
	s.rotateFull()
	s.throttle.Wait(put.rows, s.stop)
	return putNs, nil
}
