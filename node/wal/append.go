package wal

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// maxKeptBytes bounds each of the buffers that are kept between appends.
const maxKeptBytes = 16 << 20

// appendBuffers is where appends are put together; the many logs of a node share what is in the
// caches of its processors.
var appendBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Append writes the entries as one append and syncs it: after a return without error they are all
// durable; after a crash before that, all of them are there or none. It returns the number of the
// file that holds them.
//
// Errors: ErrNoSpace when there is no space, and the log is as it was; after any other failed write
// or sync the same error, an ErrFailed, for ever.
func (l *Log) Append(entries []Entry) (fileNumber uint64, err error) {
	if fileNumber, err = l.Write(entries); err == nil {
		err = l.Sync()
	}
	return fileNumber, err
}

// Write writes the entries as one append and leaves it to the next Sync, Append or new file to make
// it durable. After a crash before that, some of what was written since is there: an append whole
// or not at all, and none without all that came before it.
//
// Errors: as of Append.
func (l *Log) Write(entries []Entry) (fileNumber uint64, err error) {
	size := uint64(0)
	for i := range entries {
		size += uint64(entries[i].size())
	}
	if size > maxAppendBytes || len(entries) > math.MaxInt32 {
		return 0, fmt.Errorf("append to log: %d bytes at once, at most %d", size,
			maxAppendBytes)
	}
	number, unsynced, err := l.state()
	if err == nil && unsynced >= maxUnsynced {
		err = l.Sync()
	}
	if err == nil && (l.size >= l.opt.FileBytes || l.full) {
		err = l.roll()
	}
	if err != nil {
		return 0, l.NoteNoSpace(err, int64(size))
	}
	_, unsynced, _ = l.state()
	memory := appendBuffers.Get().(*[]byte)
	defer appendBuffers.Put(memory)
	encoded := encodeAppend((*memory)[:0], number+1, unsynced, uint64(l.size), entries, int(size))
	if *memory = encoded; cap(encoded) > maxKeptBytes {
		*memory = nil
	}
	if _, err := l.newest.WriteAt(encoded, l.size); err != nil {
		return 0, l.NoteNoSpace(l.undo(err), int64(len(encoded)))
	}
	l.size += int64(len(encoded))
	l.mu.Lock()
	l.appendNumber++
	l.noSpace, l.noSpaceBytes = nil, 0
	l.sizes[l.number] = l.size
	l.mu.Unlock()
	return l.number, nil
}

// Sync makes every append durable that was written before the call.
//
// Errors: ErrFailed, for ever.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	return l.syncNewest()
}

// syncNewest is Sync for a caller that holds syncing.
func (l *Log) syncNewest() error {
	number, unsynced, err := l.state()
	if err != nil || unsynced == 0 {
		return err
	}
	if err := l.newest.Sync(); err != nil {
		return l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = number
	return nil
}

// LastSynced returns the number of the last append that is known to be durable.
func (l *Log) LastSynced() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.synced
}

// state returns the number of the last append, and how many up to it wait for a sync.
func (l *Log) state() (number, unsynced uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appendNumber, l.appendNumber - l.synced, l.failed
}

// undo cuts off what was written of an append that the disk has no space for, and syncs the cut:
// the log then ends with its last append and may go on. After any other error, or when the cut
// fails, it may not.
func (l *Log) undo(cause error) error {
	if !durable.IsNoSpace(cause) {
		return l.fail(cause)
	}
	if err := l.dir.Truncate(fileName(l.number), l.size); err != nil {
		return l.fail(errors.Join(cause, err))
	}
	return durable.NoSpace("write", l.Path(l.number), cause)
}
