package layout

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

// Kinds of log entries.
const (
	// EntryRows is rows of one batch and shard.
	EntryRows = 1
	// EntryNextAcq is i64 ns: no acq below is allocated any more; u8 1 after a clean close.
	EntryNextAcq = 2
	// EntryApplied is the entry with which each append of a replicated store ends: u64 index of the
	// last command that was applied, i64 ns the least acq that the next one may allocate.
	EntryApplied = 3
	// EntryManifestLines says how many lines the manifest had when the append was written, u64: a
	// manifest with fewer has lost its end.
	EntryManifestLines = 4
)

// NextAcqEntry says below which acq none is allocated any more. It is shard 0's by convention, has
// no LSN, and no seal covers it: MANIFEST has the next acq before its file is deleted.
func NextAcqEntry(ns int64, closedCleanly bool) wal.Entry {
	data := binary.LittleEndian.AppendUint64(nil, uint64(ns))
	if closedCleanly {
		return wal.Entry{Kind: EntryNextAcq, Data: append(data, 1)}
	}
	return wal.Entry{Kind: EntryNextAcq, Data: append(data, 0)}
}

// ParseNextAcqEntry reads the data of an EntryNextAcq.
func ParseNextAcqEntry(data []byte) (ns int64, closedCleanly bool, err error) {
	if len(data) != 9 || data[8] > 1 {
		return 0, false, errors.New("clock entry is not 8 bytes and a flag")
	}
	return int64(binary.LittleEndian.Uint64(data)), data[8] == 1, nil
}

// AppliedEntry says how far the log of a replica was applied.
func AppliedEntry(index uint64, nextNs int64) wal.Entry {
	data := binary.LittleEndian.AppendUint64(nil, index)
	return wal.Entry{Kind: EntryApplied,
		Data: binary.LittleEndian.AppendUint64(data, uint64(nextNs))}
}

// ParseAppliedEntry reads the data of an EntryApplied.
func ParseAppliedEntry(data []byte) (index uint64, nextNs int64, err error) {
	if len(data) != 16 {
		return 0, 0, fmt.Errorf("applied entry of %d bytes; it has 16", len(data))
	}
	return binary.LittleEndian.Uint64(data), int64(binary.LittleEndian.Uint64(data[8:])), nil
}

// ManifestLinesEntry says how many lines the manifest has.
func ManifestLinesEntry(n uint64) wal.Entry {
	return wal.Entry{Kind: EntryManifestLines, Data: binary.LittleEndian.AppendUint64(nil, n)}
}

// ParseManifestLinesEntry reads the data of an EntryManifestLines.
func ParseManifestLinesEntry(data []byte) (uint64, error) {
	if len(data) != 8 {
		return 0, errors.New("entry of the lines of the manifest is not 8 bytes")
	}
	return binary.LittleEndian.Uint64(data), nil
}

// CheckRowsEntry checks that rows of the log name a shard, and a backdated one if they must.
func CheckRowsEntry(e *wal.Entry, h *segment.RowsHeader, shards int) error {
	if int64(e.Shard) >= 2*int64(shards) {
		return fmt.Errorf("log entry of shard %d of %d", e.Shard, shards)
	}
	if backdated := int64(e.Shard) >= int64(shards); backdated != h.EqualAcqs {
		return fmt.Errorf("log entry of shard %d of %d, rows that may share acqs: %v", e.Shard,
			shards, h.EqualAcqs)
	}
	return nil
}

// AllocatedUntil returns the acq below which all acqs are that were allocated to an entry of rows.
// It is never above the next acq of the oracle: a copy that ends with the entry lacks what was
// allocated from there on.
func AllocatedUntil(h *segment.RowsHeader, rows *record.Batch) int64 {
	if h.EqualAcqs { // backdated rows: one acq was allocated to the put, and theirs are below it
		return h.BatchFirstAcqNs + 1
	}
	until := max(h.BatchFirstAcqNs+int64(h.BatchRecords), h.FirstAcqNs+int64(rows.Len()))
	if n := rows.Len(); h.HasAcqs && n > 0 {
		until = max(until, rows.AcqNs[n-1]+1)
	}
	return until
}
