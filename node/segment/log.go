package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
)

// Layout of a log file, FORMAT.md section 1.
const (
	flushMagic       = 0x314c5450 // "PTL1"
	flushVersion     = 2          // 1: first; 2: whole sectors, masked; a checksum of the header
	flushHeaderBytes = 48         // magic u32, version u16, unsynced u16, sequence u64, start
	//                               u64, bytes u64, frames u32, weak u32, crc u32 of what follows
	//                               the header, crc u32 of the header before it
	frameHeaderBytes = 28 // bytes u32, shard u32, term u64, index u64, kind u8, zero [3]

	logSuffix = ".log"
)

const (
	// maxFlushBytes bounds one flush: some of the largest batches at once. A larger length in a
	// file is damage.
	maxFlushBytes = 1 << 30
	// defaultLogFileBytes is small enough that sealed rows soon free a whole file.
	defaultLogFileBytes = 64 << 20
	// maxKeptBytes bounds the memory that a log keeps between flushes: a group of the store.
	maxKeptBytes = 16 << 20
	// maxUnsynced bounds the flushes that wait for a sync: the header of a flush counts them.
	maxUnsynced = math.MaxUint16
)

// Entry is one frame of the log. Data is opaque; what Append gets stays the caller's, what replay
// hands out is valid during the call.
type Entry struct {
	Shard uint32
	Term  uint64
	Index uint64
	Kind  uint8
	Data  []byte
	Rest  []byte // of the data, for Append: what lies elsewhere; replay hands out none
}

func (e *Entry) size() int { return frameHeaderBytes + len(e.Data) + len(e.Rest) }

// LogOptions of a log. The zero value works.
type LogOptions struct {
	// FileBytes is the size from which on a new file is started; default 64 MiB.
	FileBytes int64
	// Durable is the sequence of a flush that is known to have been synced; 0: none is. A log that
	// ends before it is damaged.
	Durable uint64
	// Oldest is the number of a file before which nothing is needed any more; 0: not known. A log
	// whose first file has a greater number is damaged.
	Oldest uint64
}

// LogReport says what OpenLog found and mended.
type LogReport struct {
	Files      int
	Flushes    int
	Entries    int
	TornFile   string // path of the file whose torn tail was cut, empty when none was
	TornAt     int64  // offset of the cut
	TornSize   int64  // bytes cut
	TornReason string
}

// LogStats are sizes now.
type LogStats struct {
	Files    int
	Bytes    int64
	Unsynced int // flushes that wait for a sync
}

// Log is an append-only sequence of flushes over numbered files. One goroutine at a time may
// append, write or roll, one at a time may remove; these, Sync and Stats may run beside one
// another.
type Log struct {
	dir    durable.Folder
	path   string // of dir, for errors
	opt    LogOptions
	number uint64 // of the newest file
	size   int64  // of the newest file
	full   bool   // the newest file takes no more flushes

	// syncing is held while the newest file is synced or gives way to the next, and before mu.
	syncing sync.Mutex
	newest  durable.File // changed under syncing and mu

	mu           sync.Mutex // guards what follows
	sizes        map[uint64]int64
	seq          uint64 // of the last flush
	synced       uint64 // of the last flush that is known to be durable
	failed       error  // once set, returned for ever: what a failed sync left on disk is unknown
	noSpace      error  // the lack of space that the last flush met
	noSpaceBytes int64  // bytes of that flush

	noSpaceSignal chan struct{} // see NoSpaceSignal
}

// flushMemories is where flushes are put together; the many logs of a node share what is in the
// caches of its processors.
var flushMemories = sync.Pool{New: func() any { return new([]byte) }}

func logName(number uint64) string { return fmt.Sprintf("%010d%s", number, logSuffix) }

func (l *Log) setSize(number uint64, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes[number] = size
}

// OpenLog opens or starts the log in a directory and replays every whole flush in order. A torn
// tail of the last file, which is what a crash leaves of a flush that was never acknowledged, is
// cut off and reported.
//
// Errors: *durable.CorruptError for damage: also for a last flush that was written whole and does
// not match its checksum; an error of replay, wrapped.
func OpenLog(
	dir string, opt LogOptions, replay func(fileSeq uint64, e Entry) error,
) (*Log, LogReport, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, LogReport{}, fmt.Errorf("open log: %w", err)
	}
	return openLog(durable.Dir(dir), dir, opt, replay)
}

// Append writes the entries as one flush and syncs it: after a return without error they are all
// durable; after a crash before that, all of them are there or none. It returns the number of the
// file that holds them.
//
// Errors: ErrNoSpace when there is no space, and the log is as it was; after any other failed write
// or sync the same error, an ErrLogFailed, for ever.
func (l *Log) Append(entries []Entry) (fileSeq uint64, err error) {
	if fileSeq, err = l.Write(entries); err == nil {
		err = l.Sync()
	}
	return fileSeq, err
}

// Write writes the entries as one flush and leaves it to the next Sync, Append or new file to make
// it durable. After a crash before that, some of what was written since is there: a flush whole or
// not at all, and none without all that came before it.
//
// Errors: as of Append.
func (l *Log) Write(entries []Entry) (fileSeq uint64, err error) {
	size := uint64(0)
	for i := range entries {
		size += uint64(entries[i].size())
	}
	if size > maxFlushBytes || len(entries) > math.MaxInt32 {
		return 0, fmt.Errorf("append to log: a flush of %d bytes, at most %d", size, maxFlushBytes)
	}
	seq, unsynced, err := l.state()
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
	memory := flushMemories.Get().(*[]byte)
	defer flushMemories.Put(memory)
	flush := appendFlush((*memory)[:0], seq+1, unsynced, uint64(l.size), entries, int(size))
	if *memory = flush; cap(flush) > maxKeptBytes {
		*memory = nil
	}
	if _, err := l.newest.WriteAt(flush, l.size); err != nil {
		return 0, l.NoteNoSpace(l.undo(err), int64(len(flush)))
	}
	l.size += int64(len(flush))
	l.mu.Lock()
	l.seq++
	l.noSpace, l.noSpaceBytes = nil, 0
	l.sizes[l.number] = l.size
	l.mu.Unlock()
	return l.number, nil
}

// Sync makes every flush durable that was written before the call.
//
// Errors: ErrLogFailed, for ever.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	return l.syncNewest()
}

// syncNewest is Sync for a caller that holds syncing.
func (l *Log) syncNewest() error {
	seq, unsynced, err := l.state()
	if err != nil || unsynced == 0 {
		return err
	}
	if err := l.newest.Sync(); err != nil {
		return l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = seq
	return nil
}

// state returns the number of the last flush, and how many up to it wait for a sync.
func (l *Log) state() (seq, unsynced uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq, l.seq - l.synced, l.failed
}

// appendFlush appends a flush that starts at an offset of its file; unsynced flushes before it wait
// for a sync, and size is that of its frames.
func appendFlush(
	dst []byte, seq, unsynced, start uint64, entries []Entry, size int,
) []byte {
	at := len(dst)
	whole := int(sector.Round(flushHeaderBytes + uint64(size)))
	dst = slices.Grow(dst, whole)
	dst = dst[:at+flushHeaderBytes]
	for i := range entries {
		e := &entries[i]
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(e.Data)+len(e.Rest)))
		dst = binary.LittleEndian.AppendUint32(dst, e.Shard)
		dst = binary.LittleEndian.AppendUint64(dst, e.Term)
		dst = binary.LittleEndian.AppendUint64(dst, e.Index)
		dst = append(dst, e.Kind, 0, 0, 0)
		dst = append(append(dst, e.Data...), e.Rest...)
	}
	end := len(dst)
	dst = dst[:at+whole]
	clear(dst[end:])
	head, body := dst[at:at+flushHeaderBytes], dst[at+flushHeaderBytes:]
	sector.Mask(body)
	binary.LittleEndian.PutUint32(head, flushMagic)
	binary.LittleEndian.PutUint16(head[4:], flushVersion)
	binary.LittleEndian.PutUint16(head[6:], uint16(unsynced))
	binary.LittleEndian.PutUint64(head[8:], seq)
	binary.LittleEndian.PutUint64(head[16:], start)
	binary.LittleEndian.PutUint64(head[24:], uint64(end-at-flushHeaderBytes))
	binary.LittleEndian.PutUint32(head[32:], uint32(len(entries)))
	binary.LittleEndian.PutUint32(head[36:], sector.Weak(dst[at+sector.Size:]))
	binary.LittleEndian.PutUint32(head[40:], checksum(body))
	binary.LittleEndian.PutUint32(head[44:], checksum(head[:44]))
	return dst
}

// fail makes the log fail for good; of several errors the first one stays.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = fmt.Errorf("%w: write %s: %w", ErrLogFailed, l.Path(l.number), err)
	}
	return l.failed
}

// NoteNoSpace remembers a lack of space until a flush finds space: for a flush of some bytes, or
// for what must be written elsewhere before it. It returns the error; others are not noted.
func (l *Log) NoteNoSpace(err error, size int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if durable.IsNoSpace(err) && l.failed == nil {
		l.noSpace, l.noSpaceBytes = err, size
		select {
		case l.noSpaceSignal <- struct{}{}:
		default:
		}
	}
	return err
}

// Failure returns the error that every call returns for ever, an ErrLogFailed; nil for none.
func (l *Log) Failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// NoSpace returns the ErrNoSpace that the last flush met and how many bytes it had; nil when there
// was space for it.
func (l *Log) NoSpace() (flushBytes int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.noSpaceBytes, l.noSpace
}

// NoSpaceSignal delivers when a flush has met a lack of space since it was last received from.
func (l *Log) NoSpaceSignal() <-chan struct{} { return l.noSpaceSignal }

// Roll lets the next flush begin a new file, so that Remove can delete what is there now.
func (l *Log) Roll() { l.full = l.full || l.size > 0 }

// undo cuts off what was written of a flush that the disk has no space for, and syncs the cut: the
// log then ends with its last flush and may go on. After any other error, or when the cut fails,
// it may not.
func (l *Log) undo(cause error) error {
	if !durable.IsNoSpace(cause) {
		return l.fail(cause)
	}
	if err := l.dir.Truncate(logName(l.number), l.size); err != nil {
		return l.fail(errors.Join(cause, err))
	}
	return fmt.Errorf("%w: write %s: %w", durable.ErrNoSpace, l.Path(l.number), cause)
}

// roll starts the next file, once the old one is synced.
func (l *Log) roll() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.syncNewest(); err != nil {
		return err
	}
	f, err := l.dir.Create(logName(l.number + 1))
	if durable.IsNoSpace(err) {
		return fmt.Errorf("%w: make %s: %w", durable.ErrNoSpace, l.Path(l.number+1), err)
	}
	if err != nil {
		return l.fail(err)
	}
	old := l.newest
	l.number++
	l.size, l.full = 0, false
	l.mu.Lock()
	l.newest, l.sizes[l.number] = f, 0
	l.mu.Unlock()
	err = l.dir.Sync()
	if old != nil {
		err = errors.Join(err, old.Close())
	}
	if err != nil {
		return l.fail(err)
	}
	return nil
}

// Remove deletes the files numbered below belowFileSeq, but never the newest. What it could not
// delete it tries again the next time.
func (l *Log) Remove(belowFileSeq uint64) error {
	l.mu.Lock()
	numbers := slices.Sorted(maps.Keys(l.sizes))
	l.mu.Unlock()
	for i, number := range numbers {
		if number >= belowFileSeq || i == len(numbers)-1 {
			break
		}
		if err := l.dir.Remove(logName(number)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove log file: %w", err)
		}
		// Oldest first and synced one by one: a crash must not leave a gap in the numbers.
		if err := l.dir.Sync(); err != nil {
			return fmt.Errorf("remove log file: sync %s: %w", l.path, err)
		}
		l.mu.Lock()
		delete(l.sizes, number)
		l.mu.Unlock()
	}
	return nil
}

// Files returns the bytes of each file that hold whole flushes, by its number.
func (l *Log) Files() map[uint64]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.sizes)
}

// Path returns the name of a file of the log.
func (l *Log) Path(number uint64) string { return filepath.Join(l.path, logName(number)) }

// LastSynced returns the sequence of the last flush that is known to be durable.
func (l *Log) LastSynced() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.synced
}

// Stats returns the present sizes.
func (l *Log) Stats() LogStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := LogStats{Files: len(l.sizes), Unsynced: int(l.seq - l.synced)}
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
