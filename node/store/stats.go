package store

import "sync/atomic"

type counters struct {
	rows, logAppends, logNs      atomic.Int64
	seals, sealedRows, sealNs    atomic.Int64
	merges, mergedRows, mergeNs  atomic.Int64
	purgedRows                   atomic.Int64
	backdatedRows, backdatedPuts atomic.Int64
	scans, blocksScanned         atomic.Int64
	scrubBytes, scrubDamages     atomic.Int64
	scrubPasses                  atomic.Int64
}

// Counts are of a store since Open.
type Counts struct {
	RowsPut       int64 // rows acknowledged
	LogAppends    int64 // appends to the log that held rows
	LogNs         int64 // time spent on them: writing, and syncing but in a replica
	PutsDelayed   int64 // puts that waited for space in the heads
	Seals         int64 // heads sealed
	SealedRows    int64 // rows sealed
	SealNs        int64 // time spent sealing
	Merges        int64 // merges of segments
	MergedRows    int64 // rows merged
	MergeNs       int64 // time spent merging
	PurgedRows    int64 // rows that were removed because they were purged or had expired
	BackdatedPuts int64 // puts of rows with acqs below the horizon
	BackdatedRows int64 // rows that they stored
	ThrottledNs   int64 // time by which commits were slowed down because merges were behind
	Scans         int64 // scans started
	Blocks        int64 // blocks opened by scans

	ScrubBytes   int64 // bytes of files read in search of damage
	ScrubDamages int64 // damaged places that this found, each in every pass
	ScrubPasses  int64 // passes over all files
}

// Stats are counts since Open, and sizes now.
type Stats struct {
	Counts

	MergeErr     error // why a merge that is due was not done, nil when there is none
	Shards       int   // shards of the directory
	Writers      int   // writers whose results are remembered
	Rows         int64 // rows stored, all versions
	HeadRows     int64 // of these, rows in heads
	HeadBytes    int64 // memory of the heads
	Segments     int   // sealed segments
	SegmentBytes int64 // their files
	IndexBytes   int64 // of these, what is not blocks of rows
	LogFiles     int   // files of the log
	LogBytes     int64 // their bytes
	LogUnsynced  int   // appends of a replica that wait for a sync

	DescriptionBytes int64 // memory of the index of descriptions of devices

	ScrubPassBytes int64 // bytes of segments read in the present pass in search of damage
	ScrubLastNs    int64 // when the last pass ended, of several stores the oldest; 0: none has
}

// Add adds the counts of another store.
func (c *Counts) Add(o *Counts) {
	c.RowsPut += o.RowsPut
	c.LogAppends += o.LogAppends
	c.LogNs += o.LogNs
	c.PutsDelayed += o.PutsDelayed
	c.Seals += o.Seals
	c.SealedRows += o.SealedRows
	c.SealNs += o.SealNs
	c.Merges += o.Merges
	c.MergedRows += o.MergedRows
	c.MergeNs += o.MergeNs
	c.PurgedRows += o.PurgedRows
	c.BackdatedPuts += o.BackdatedPuts
	c.BackdatedRows += o.BackdatedRows
	c.ThrottledNs += o.ThrottledNs
	c.Scans += o.Scans
	c.Blocks += o.Blocks
	c.ScrubBytes += o.ScrubBytes
	c.ScrubDamages += o.ScrubDamages
	c.ScrubPasses += o.ScrubPasses
}

// Add adds the figures of another store.
func (s *Stats) Add(o *Stats) {
	s.Counts.Add(&o.Counts)
	if s.MergeErr == nil {
		s.MergeErr = o.MergeErr
	}
	s.Shards += o.Shards
	s.Writers += o.Writers
	s.Rows += o.Rows
	s.HeadRows += o.HeadRows
	s.HeadBytes += o.HeadBytes
	s.DescriptionBytes += o.DescriptionBytes
	s.Segments += o.Segments
	s.SegmentBytes += o.SegmentBytes
	s.IndexBytes += o.IndexBytes
	s.LogFiles += o.LogFiles
	s.LogBytes += o.LogBytes
	s.LogUnsynced += o.LogUnsynced
	s.ScrubPassBytes += o.ScrubPassBytes
	if s.ScrubLastNs == 0 || o.ScrubLastNs != 0 && o.ScrubLastNs < s.ScrubLastNs {
		s.ScrubLastNs = o.ScrubLastNs
	}
}

// Stats returns the present figures. Cost: a few microseconds per segment.
func (s *Store) Stats() Stats {
	st := Stats{Counts: Counts{
		RowsPut: s.counters.rows.Load(), LogAppends: s.counters.logAppends.Load(),
		LogNs: s.counters.logNs.Load(), PutsDelayed: s.headBudget.Delayed(),
		Seals: s.counters.seals.Load(), SealedRows: s.counters.sealedRows.Load(),
		SealNs: s.counters.sealNs.Load(), Merges: s.counters.merges.Load(),
		MergedRows: s.counters.mergedRows.Load(), MergeNs: s.counters.mergeNs.Load(),
		ThrottledNs: s.throttle.DelayedNs(), PurgedRows: s.counters.purgedRows.Load(),
		BackdatedPuts: s.counters.backdatedPuts.Load(),
		BackdatedRows: s.counters.backdatedRows.Load(),
		Scans:         s.counters.scans.Load(),
		Blocks:        s.counters.blocksScanned.Load(), ScrubBytes: s.counters.scrubBytes.Load(),
		ScrubDamages: s.counters.scrubDamages.Load(), ScrubPasses: s.counters.scrubPasses.Load(),
	}, MergeErr: s.mergeErr.Err(), Shards: len(s.shards), Writers: s.writers.Count(),
		DescriptionBytes: s.described.bytes.Load(),
		ScrubPassBytes:   s.scrubPassBytes.Load(), ScrubLastNs: s.scrubLastNs.Load()}
	for _, sh := range s.allShards {
		state := sh.State.Load()
		for _, seg := range state.Sealed {
			st.Rows += int64(seg.Meta.Rows)
			st.SegmentBytes += seg.File.Size()
			st.IndexBytes += seg.File.IndexBytes()
		}
		st.Segments += len(state.Sealed)
		for _, immutable := range state.Immutable {
			st.HeadRows += int64(immutable.Head.Rows())
			st.HeadBytes += immutable.Head.Bytes()
		}
		st.HeadRows += int64(state.Head.Rows())
		st.HeadBytes += state.Head.Bytes()
	}
	st.Rows += st.HeadRows
	log := s.log.Stats()
	st.LogFiles, st.LogBytes, st.LogUnsynced = log.Files, log.Bytes, log.Unsynced
	return st
}
