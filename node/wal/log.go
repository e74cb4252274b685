// Package wal owns the write-ahead log, which makes puts durable: appends of entries, appended to
// numbered files. FORMAT.md describes them.
//
// It knows nothing of shards, versions or rows: the data of an entry is opaque. Its main type is
// [Log]. It starts no goroutines.
package wal

import (
	"errors"
	"sync"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// Stats are sizes now.
type Stats struct {
	Files    int
	Bytes    int64
	Unsynced int // appends that wait for a sync
}

// Log is an append-only series of appends over numbered files. One goroutine at a time may
// append, write or roll, one at a time may remove; these, Sync and Stats may run beside one
// another.
type Log struct {
	dir    durable.Folder
	path   string // of dir, for errors
	opt    Options
	number uint64 // of the newest file
	size   int64  // of the newest file
	full   bool   // the newest file takes no more appends

	// syncing is held while the newest file is synced or gives way to the next, and before mu.
	syncing sync.Mutex
	newest  durable.File // changed under syncing and mu

	mu           sync.Mutex // guards what follows
	sizes        map[uint64]int64
	appendNumber uint64 // of the last append
	synced       uint64 // of the last append that is known to be durable
	failed       error  // once set, returned for ever: what a failed sync left on disk is unknown
	noSpace      error  // the lack of space that the last append met
	noSpaceBytes int64  // bytes of that append

	noSpaceSignal chan struct{} // see NoSpaceSignal
}

// Stats returns the present sizes.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := Stats{Files: len(l.sizes), Unsynced: int(l.appendNumber - l.synced)}
	for _, size := range l.sizes {
		st.Bytes += size
	}
	return st
}

// Close closes the newest file. What was written is as durable as before.
func (l *Log) Close() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if l.newest == nil {
		return nil
	}
	f := l.newest
	l.mu.Lock()
	l.newest = nil
	l.mu.Unlock()
	_ = l.fail(errors.New("it is closed"))
	return f.Close()
}
