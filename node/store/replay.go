package store

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

// replay feeds log entries into the heads.
type replay struct {
	store         *Store
	report        *Report
	batch         record.Batch
	nextAcqNs     int64 // no acq below this may be allocated
	closedCleanly bool  // the last entry was that of a clean close
	applied       uint64
	manifestLines uint64 // that the manifest had when the log was written
	backdated     map[*shards.Shard]*replayedBackdated

	doneBytes, allBytes int64 // of the log; all: when the replay began
}

// logBytes returns the size of the log of a store, for progress only.
func logBytes(dir string) (bytes int64) {
	entries, _ := os.ReadDir(filepath.Join(dir, layout.LogDir)) // opening it says what is wrong
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// advance notes how far the log of a replica was applied.
func (r *replay) advance(at acqtime.Applied) {
	r.applied, r.nextAcqNs = max(r.applied, at.Index), max(r.nextAcqNs, at.NextNs)
}

func (r *replay) entry(file uint64, e wal.Entry) error {
	s := r.store
	r.report.ReplayedEntries++
	r.doneBytes += int64(len(e.Data))
	if s.opt.Replaying != nil {
		s.opt.Replaying(min(r.doneBytes, r.allBytes), r.allBytes)
	}
	switch e.Kind {
	case layout.EntryNextAcq:
		ns, closedCleanly, err := layout.ParseNextAcqEntry(e.Data)
		if err != nil {
			return err
		}
		if m := s.manifest.Copy; m == nil || file >= m.FirstLog {
			r.nextAcqNs = max(r.nextAcqNs, ns)
		}
		r.closedCleanly = closedCleanly
		s.recordLogFile(file, nil)
		return nil
	case layout.EntryRows:
		r.closedCleanly = false
		return r.rows(file, e)
	case layout.EntryApplied:
		var at acqtime.Applied
		var err error
		at.Index, at.NextNs, err = layout.ParseAppliedEntry(e.Data)
		if m := s.manifest.Copy; m != nil && file < m.FirstLog {
			at.NextNs = 0
		}
		r.advance(at)
		s.recordLogFile(file, nil)
		return err
	case layout.EntryManifestLines:
		n, err := layout.ParseManifestLinesEntry(e.Data)
		r.manifestLines = max(r.manifestLines, n)
		s.recordLogFile(file, nil)
		return err
	default:
		return fmt.Errorf("log entry of kind %d; this version knows 1 to 4; run the version that "+
			"wrote it", e.Kind)
	}
}

func (r *replay) rows(file uint64, e wal.Entry) error {
	s := r.store
	var h segment.RowsHeader
	if err := segment.ParseRowsEntry(e.Data, &h, &r.batch); err != nil {
		return err
	}
	if err := layout.CheckRowsEntry(&e, &h, len(s.shards)); err != nil {
		return err
	}
	s.recordLogFile(file, []wal.Entry{e})
	n := int64(r.batch.Len())
	r.nextAcqNs = max(r.nextAcqNs, layout.AllocatedUntil(&h, &r.batch))
	if h.Writer != ([16]byte{}) {
		id, a := WriterSeq{ID: h.Writer, Seq: h.Seq, Persistent: h.Persistent},
			writers.Result{Seq: h.Seq, FirstNs: h.BatchFirstAcqNs, Records: h.BatchRecords}
		if s.replicated {
			s.writers.RecordInOrder(id, a)
		} else {
			s.writers.Record(id, a)
		}
	}
	sh := s.allShards[e.Shard]
	if e.LSN <= sh.SealedUpTo() {
		return nil // a sealed segment holds it
	}
	if e.LSN != sh.LastLSN+1 {
		return fmt.Errorf("shard %d: log entry %d follows entry %d", e.Shard, e.LSN, sh.LastLSN)
	}
	sh.LastLSN = e.LSN
	r.report.ReplayedRows += int(n)
	if sh.IsBackdated() {
		r.addBackdated(sh, &h)
		return nil
	}
	p := shardRows{shard: int(e.Shard), rows: r.batch}
	p.divide(s.opt.HeadShards)
	s.insertRows(&p, -1)
	head := sh.State.Load().Head
	s.headBudget.Add(head.GrowthSinceLastCall())
	if s.isFull(head) { // many immutable heads may have been lost at once
		sh.Rotate()
	}
	return nil
}
