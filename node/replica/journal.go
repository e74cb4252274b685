package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
	pb "go.etcd.io/raft/v3/raftpb"
)

const (
	// fileBytes is the size from which on a new file is started: small enough that files go soon.
	fileBytes = 64 << 20
	// maxRewriteBytes bounds what is written once more for a group that keeps an old file: what a
	// leader may have uncommitted fits.
	maxRewriteBytes = 96 << 20
	// maxKeptBytes bounds the buffer that is kept between flushes: a full one fits.
	maxKeptBytes = maxFlushPart + maxFlushPart/4

	journalSuffix = ".log"
)

func journalName(number uint32) string { return fmt.Sprintf("%010d%s", number, journalSuffix) }

// record is a frame that is to be written; entries bring theirs.
type record struct {
	group *groupLog
	frame frame
	entry *pb.Entry
	again bool // the entry is there already, in an older file
}

// journal is the shared log: one sequence of flushes for all groups. One goroutine writes; what
// groups have in it is read by theirs.
type journal struct {
	dir        durable.Folder
	newest     durable.File
	tail       durable.File // nil before it is opened or made
	number     uint32       // of the newest file; changed under mu, as extent reads it
	size       int64        // of the newest file
	seq        uint64       // of the last flush
	failed     error        // once set, returned for ever: what a failed sync left is unknown
	buf        []byte
	fileBytes  int64
	cacheBytes int   // of one group
	keepBytes  int64 // above it, groups that pin the oldest file are written again
	loosened   bool  // a file may be needed no more
	// lost is why the log must fail: a file of it has lost its name.
	lost atomic.Pointer[error]

	mu     sync.Mutex // guards groups and files
	groups map[GroupID]*groupLog
	files  map[uint32]*journalFile
}

type journalFile struct {
	file  durable.File
	size  int64
	going bool // it is being removed
}

func (l *journal) lookup(group GroupID) *groupLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.groups[group]
}

// add makes space for a group that has no frame yet.
func (l *journal) add(group GroupID) *groupLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[group]
	if g == nil {
		g = &groupLog{journal: l, group: group, first: 1}
		g.id.config.state = &pb.ConfState{}
		l.groups[group] = g
	}
	return g
}

func (l *journal) all() []*groupLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Collect(maps.Values(l.groups))
	slices.SortFunc(out, func(a, b *groupLog) int { return int(int64(a.group) - int64(b.group)) })
	return out
}

// write makes the records durable, as one flush and in order, and then visible.
//
// Errors: durable.ErrNoSpace when there is no space, and the log is as it was; after any other
// failed write or sync the same error, an ErrLogFailed, for ever.
func (l *journal) write(records []record) error {
	if lost := l.lost.Load(); lost != nil && l.failed == nil {
		l.failed = *lost
	}
	if l.failed != nil {
		return l.failed
	}
	if l.newest == nil || l.size >= l.fileBytes {
		if err := l.roll(); err != nil {
			return err
		}
	}
	first := l.size == 0 // also where there was no space for the first flush before
	if first {
		records = append(l.checkpoints(), records...)
	}
	positions := make([]position, len(records))
	l.buf = append(slices.Grow(l.buf[:0], flushSize(records)), make([]byte, flushHeaderBytes)...)
	for i := range records {
		r := &records[i]
		r.group.number++
		r.frame.number = r.group.number
		positions[i] = position{file: l.number, offset: uint32(l.size) + uint32(len(l.buf))}
		if e := r.entry; e != nil {
			r.frame = frame{group: r.group.group, kind: kindEntry, number: r.frame.number,
				term: e.GetTerm(), index: e.GetIndex(), payload: e.Data}
			l.buf = appendFrame(l.buf, &r.frame, byte(e.GetType()), true)
		} else {
			r.frame.group = r.group.group
			l.buf = appendFrame(l.buf, &r.frame, 0, false)
		}
		positions[i].size = uint32(l.size) + uint32(len(l.buf)) - positions[i].offset
	}
	l.buf = sealFlush(l.buf,
		flush{seq: l.seq + 1, start: uint64(l.size), frames: uint32(len(records))})
	if err := l.put(); err != nil {
		for i := range records {
			records[i].group.number--
		}
		return err
	}
	l.publish(records, positions)
	if first {
		return l.writeTail()
	}
	return nil
}

// flushSize returns how many bytes a flush of some records takes at most.
func flushSize(records []record) int {
	size := flushHeaderBytes + sector.Size
	for i := range records {
		size += frameHeaderBytes + 1 + len(records[i].frame.payload)
		if e := records[i].entry; e != nil {
			size += len(e.GetData())
		}
	}
	return size
}

// put writes the buffer at the end of the newest file and syncs it.
func (l *journal) put() error {
	if len(l.buf) > maxFlushBytes {
		return l.fail(fmt.Errorf("BUG: a flush of %d bytes", len(l.buf)))
	}
	if _, err := l.newest.WriteAt(l.buf, l.size); err != nil {
		return l.undo(err)
	}
	if err := l.newest.Sync(); err != nil {
		return l.fail(err)
	}
	l.seq++
	l.size += int64(len(l.buf))
	l.mu.Lock()
	l.files[l.number].size = l.size
	l.mu.Unlock()
	if cap(l.buf) > maxKeptBytes {
		l.buf = nil
	}
	return nil
}

func (l *journal) publish(records []record, positions []position) {
	for i := range records {
		r := &records[i]
		r.group.mu.Lock()
		var err error
		if r.entry != nil {
			at := positions[i]
			at.term, at.conf = r.frame.term, r.entry.GetType() != pb.EntryNormal
			if r.again {
				r.group.move(r.frame.index, at)
			} else {
				l.loosened = l.loosened || r.frame.index <= r.group.last() // it replaces others
				r.group.append(r.frame.index, at)
				r.group.remember(r.entry, l.cacheBytes)
			}
		} else {
			err = r.group.note(&r.frame, positions[i])
			l.loosened = l.loosened || r.frame.kind != kindHardState &&
				r.frame.kind != kindPromised
		}
		r.group.mu.Unlock()
		if err != nil {
			panic(fmt.Sprintf("BUG: group %d wrote what it does not read: %v", r.group.group, err))
		}
	}
}

func (l *journal) fail(err error) error {
	l.failed = fmt.Errorf("%w: write %s: %w", ErrLogFailed, journalName(l.number), err)
	return l.failed
}

// undo cuts off what was written of a flush that the disk has no space for, and syncs the cut: the
// log then ends with its last flush and may go on.
func (l *journal) undo(cause error) error {
	if !noSpace(cause) {
		return l.fail(cause)
	}
	if err := l.dir.Truncate(journalName(l.number), l.size); err != nil {
		return l.fail(errors.Join(cause, err))
	}
	return durable.NoSpace("write", journalName(l.number), cause)
}

// roll starts the next file; the old one was synced with its last flush.
func (l *journal) roll() error {
	name := journalName(l.number + 1)
	f, err := l.dir.Create(name)
	if err != nil && noSpace(err) {
		return durable.NoSpace("make", name, err)
	}
	if err == nil {
		err = l.dir.Sync()
	}
	if err != nil {
		return l.fail(err)
	}
	l.newest, l.size, l.loosened = f, 0, true
	l.mu.Lock()
	l.number++
	l.files[l.number] = &journalFile{file: f}
	l.mu.Unlock()
	return nil
}

// checkpoints returns what each file begins with: all that is known of every group, so that older
// files are needed for their entries alone. What pins the oldest file, in a log that has grown
// too large, is written once more.
func (l *journal) checkpoints() []record {
	var out []record
	oldest, total := l.extent()
	for _, g := range l.all() {
		g.mu.Lock()
		if g.number > 0 {
			out = append(out, g.checkpoint()...)
		}
		pinned := len(g.entries) > 0 && g.entries[0].file == oldest && g.damage == nil
		rewrite := pinned && total > l.keepBytes && g.bytes <= maxRewriteBytes
		first, last := g.cutIndex+1, g.last()
		g.mu.Unlock()
		if !rewrite {
			continue
		}
		entries, err := g.Entries(first, last+1, maxRewriteBytes)
		if err != nil || uint64(len(entries)) != last+1-first {
			continue // it pins the file until it is truncated; a read that failed will be met again
		}
		for _, e := range entries {
			out = append(out, record{group: g, entry: e, again: true})
		}
		total -= fileBytes // one group a file: a flush stays small
	}
	return out
}

func (g *groupLog) checkpoint() []record {
	rec := func(kind uint8, term, index uint64, payload []byte) record {
		return record{group: g,
			frame: frame{kind: kind, term: term, index: index, payload: payload}}
	}
	if g.dropped {
		replica := binary.LittleEndian.AppendUint64(nil, g.id.replica)
		return []record{rec(kindDropped, 0, 0, replica)}
	}
	out := []record{rec(kindCheckpoint, g.cutTerm, g.cutIndex, appendIdentity(nil, &g.id))}
	if g.installing != nil {
		out = append(out, rec(kindInstalling, g.installing.term, g.installing.index,
			g.installing.payload))
	}
	if g.damage != nil {
		out = append(out, rec(kindQuarantined, 0, 0, []byte(g.damage.Error())))
	}
	if len(g.promises) > 0 {
		out = append(out, rec(kindPromised, 0, 0, appendPromises(nil, g.promises)))
	}
	if g.fenced != nil {
		out = append(out, rec(kindFenced, 0, 0, []byte(g.fenced.Error())))
	}
	return out
}

// extent returns the number of the oldest file and the bytes of all.
func (l *journal) extent() (oldest uint32, total int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest = l.number
	for number, f := range l.files {
		oldest = min(oldest, number)
		total += f.size
	}
	return oldest, total
}

// removeUnneeded removes the files that no group has entries in. Oldest first and synced one by
// one: a crash must not leave a gap in the numbers.
func (l *journal) removeUnneeded() error {
	if !l.loosened {
		return nil
	}
	needed := l.number
	for _, g := range l.all() {
		g.mu.Lock()
		if len(g.entries) > 0 && g.damage == nil {
			needed = min(needed, g.entries[0].file)
		}
		g.mu.Unlock()
	}
	for {
		oldest, _ := l.extent()
		if oldest >= needed {
			l.loosened = false
			return nil
		}
		l.mu.Lock()
		f := l.files[oldest]
		f.going = true
		l.mu.Unlock()
		if err := l.dir.Remove(journalName(oldest)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove log file: %w", err)
		}
		if err := l.dir.Sync(); err != nil {
			return l.fail(fmt.Errorf("remove %s: sync: %w", journalName(oldest), err))
		}
		l.mu.Lock()
		delete(l.files, oldest)
		l.mu.Unlock()
		if err := f.file.Close(); err != nil {
			return fmt.Errorf("close log file %s: %w", journalName(oldest), err)
		}
	}
}

// read returns an entry from its file, checked.
func (l *journal) read(group GroupID, index uint64, at position) (*pb.Entry, error) {
	l.mu.Lock()
	f := l.files[at.file]
	l.mu.Unlock()
	damaged := func(reason string) error {
		return &DamageError{Group: group, File: journalName(at.file), Offset: int64(at.offset),
			Reason: reason}
	}
	if f == nil {
		return nil, damaged("the file is gone")
	}
	buf := make([]byte, at.size)
	if _, err := f.file.ReadAt(buf, int64(at.offset)); err != nil {
		return nil, damaged(err.Error())
	}
	sector.MaskFrom(buf, int64(at.offset-flushHeaderBytes))
	fr, _, reason := parseFrame(buf)
	if reason == "" && (fr.group != group || fr.index != index || fr.term != at.term ||
		fr.kind != kindEntry || len(fr.payload) == 0) {
		reason = "another frame lies here"
	}
	if reason != "" {
		return nil, damaged(reason)
	}
	return &pb.Entry{Type: pb.EntryType(fr.payload[0]).Enum(), Term: proto.Uint64(fr.term),
		Index: proto.Uint64(fr.index), Data: fr.payload[1:]}, nil
}

func (l *journal) close() error {
	var errs []error
	if l.failed == nil && l.size > 0 {
		errs = append(errs, l.writeTail())
	}
	if l.failed == nil {
		l.failed = ErrClosed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files {
		errs = append(errs, f.file.Close())
	}
	if l.tail != nil {
		errs = append(errs, l.tail.Close())
	}
	clear(l.files)
	return errors.Join(errs...)
}
