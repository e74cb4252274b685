package segment

import (
	"encoding/binary"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Layout of a log file, FORMAT.md section 1.
const (
	logMagic         = 0x314c5450 // "PTL1"
	logHeaderBytes   = 16         // magic u32, version u16, zero u16, file sequence u64
	logVersion       = 1          // 1: first
	flushMagic       = 0x46544c50 // "PLTF"
	flushHeaderBytes = 32         // magic u32, crc u32, sequence u64, previous end u64, bytes u64
	frameHeaderBytes = 32         // bytes u32, shard u32, term u64, index u64, kind u8, zero [7]

	logSuffix = ".log"
)

// maxFlushBytes bounds one flush: some of the largest batches at once. A larger length in a file
// is damage.
const maxFlushBytes = 1 << 30

const defaultLogFileBytes = 64 << 20

// Entry is one frame of the log. Data is opaque; what Append gets stays the caller's, what replay
// hands out is valid during the call.
type Entry struct {
	Shard uint32
	Term  uint64
	Index uint64
	Kind  uint8
	Data  []byte
}

// LogOptions of a log. The zero value works.
type LogOptions struct {
	FileBytes int64 // size after which a new file is started; default 64 MiB
}

// LogReport says what OpenLog found and mended.
type LogReport struct {
	Files    int
	Flushes  int
	TornFile string // file whose torn tail was cut, empty when none was
	TornAt   int64  // offset of the cut
	TornSize int64  // bytes cut
}

// LogStats are sizes now.
type LogStats struct {
	Files int
	Bytes int64
}

// Log is an append-only sequence of flushes over numbered files. One goroutine at a time may
// append; Remove and Stats may run beside it.
type Log struct {
	dir     logDir
	name    string // directory, for errors
	opt     LogOptions
	file    logFile
	fileSeq uint64
	size    int64 // bytes of the newest file
	seq     uint64
	failed  error
	buf     []byte

	mu    sync.Mutex // guards sizes
	sizes map[uint64]int64
}

func (l *Log) setSize(file uint64, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes[file] = size
}

func logName(seq uint64) string { return fmt.Sprintf("%010d%s", seq, logSuffix) }

// OpenLog opens or starts the log in an existing directory and replays every whole flush in
// order. A torn tail of the last file, which is what a crash leaves of a flush that was never
// acknowledged, is cut off and reported.
//
// Errors: *CorruptError for damage anywhere else; what replay returns.
func OpenLog(
	dir string, opt LogOptions, replay func(fileSeq uint64, e Entry) error,
) (*Log, LogReport, error) {
	return openLog(osDir(dir), dir, opt, replay)
}

func openLog(
	dir logDir, name string, opt LogOptions, replay func(uint64, Entry) error,
) (*Log, LogReport, error) {
	if opt.FileBytes <= 0 {
		opt.FileBytes = defaultLogFileBytes
	}
	l := &Log{dir: dir, name: name, opt: opt, sizes: map[uint64]int64{}}
	var report LogReport
	seqs, err := l.list()
	if err != nil {
		return nil, report, err
	}
	for i, seq := range seqs {
		if err := l.replayFile(seq, i == len(seqs)-1, replay, &report); err != nil {
			return nil, report, err
		}
	}
	report.Files = len(l.sizes)
	if len(l.sizes) == 0 {
		return l, report, l.roll()
	}
	if l.file, err = dir.Append(logName(l.fileSeq)); err != nil {
		return nil, report, fmt.Errorf("open log: %w", err)
	}
	return l, report, nil
}

func (l *Log) list() ([]uint64, error) {
	names, err := l.dir.Names()
	if err != nil {
		return nil, fmt.Errorf("list log: %w", err)
	}
	var seqs []uint64
	for _, name := range names {
		seq, err := strconv.ParseUint(strings.TrimSuffix(name, logSuffix), 10, 64)
		if err != nil || logName(seq) != name {
			return nil, fmt.Errorf("list log: %s is not a log file; move it away", l.path(name))
		}
		if n := len(seqs); n > 0 && seqs[n-1]+1 != seq {
			return nil, l.corrupt(seq, 0, fmt.Sprintf("follows file %d: files are missing", seqs[n-1]))
		}
		seqs = append(seqs, seq)
	}
	return seqs, nil
}

func (l *Log) path(name string) string { return filepath.Join(l.name, name) }

func (l *Log) corrupt(file uint64, offset int64, reason string) *CorruptError {
	return &CorruptError{File: l.path(logName(file)), Offset: offset, Reason: reason}
}

func (l *Log) replayFile(
	file uint64, last bool, replay func(uint64, Entry) error, report *LogReport,
) error {
	data, err := l.dir.Read(logName(file))
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	good, reason := l.checkHeader(file, data)
	for reason == "" && good < int64(len(data)) {
		var body []byte
		if body, reason = l.checkFlush(data, good); reason != "" {
			break
		}
		if err := l.replayFlush(file, good, body, replay); err != nil {
			return err
		}
		l.seq++
		report.Flushes++
		good += flushHeaderBytes + int64(len(body))
	}
	if reason != "" {
		if !last || l.flushFollows(data, good) {
			return l.corrupt(file, good, reason)
		}
		if err := l.cut(file, good, int64(len(data)), report); err != nil {
			return err
		}
		if good < logHeaderBytes {
			return nil
		}
	}
	l.fileSeq, l.size = file, good
	l.setSize(file, good)
	return nil
}

// cut removes a torn tail. A file without a whole header was just being made: it goes.
func (l *Log) cut(file uint64, good, size int64, report *LogReport) error {
	report.TornFile, report.TornAt, report.TornSize = logName(file), good, size-good
	if good >= logHeaderBytes {
		if err := l.dir.Truncate(logName(file), good); err != nil {
			return fmt.Errorf("cut torn tail of log: %w", err)
		}
		return nil
	}
	l.fileSeq = file - 1
	if err := l.dir.Remove(logName(file)); err != nil {
		return fmt.Errorf("remove torn log file: %w", err)
	}
	return l.dir.SyncDir()
}

func (l *Log) checkHeader(file uint64, data []byte) (good int64, reason string) {
	switch {
	case len(data) < logHeaderBytes:
		return 0, "file ends inside its header"
	case binary.LittleEndian.Uint32(data) != logMagic:
		return 0, "not a log file"
	case binary.LittleEndian.Uint16(data[4:]) != logVersion:
		return 0, fmt.Sprintf("version %d; this program reads version %d",
			binary.LittleEndian.Uint16(data[4:]), logVersion)
	case binary.LittleEndian.Uint16(data[6:]) != 0:
		return 0, "reserved bytes of the header are not zero"
	case binary.LittleEndian.Uint64(data[8:]) != file:
		return 0, "header is of another file"
	}
	return logHeaderBytes, ""
}

// checkFlush checks the flush at an offset and returns its frames.
func (l *Log) checkFlush(data []byte, offset int64) (body []byte, reason string) {
	rest := data[offset:]
	if len(rest) < flushHeaderBytes {
		return nil, "ends inside a flush header"
	}
	size := binary.LittleEndian.Uint64(rest[24:])
	switch {
	case binary.LittleEndian.Uint32(rest) != flushMagic:
		return nil, "no flush starts here"
	case size > maxFlushBytes || size > uint64(len(rest)-flushHeaderBytes):
		return nil, "ends inside a flush"
	case binary.LittleEndian.Uint64(rest[16:]) != uint64(offset):
		return nil, "flush is of another place"
	case checksum(rest[8:flushHeaderBytes+size]) != binary.LittleEndian.Uint32(rest[4:]):
		return nil, "checksum of a flush differs"
	}
	if seq := binary.LittleEndian.Uint64(rest[8:]); l.seq != 0 && seq != l.seq+1 {
		return nil, fmt.Sprintf("flush %d follows flush %d", seq, l.seq)
	} else if l.seq == 0 {
		l.seq = seq - 1
	}
	return rest[flushHeaderBytes : flushHeaderBytes+size], ""
}

// flushFollows reports whether a whole flush stands anywhere after an offset: then the bytes
// before it are damage and not a torn tail.
func (l *Log) flushFollows(data []byte, offset int64) bool {
	var probe Log
	for at := offset + 1; at+flushHeaderBytes <= int64(len(data)); at++ {
		if binary.LittleEndian.Uint32(data[at:]) != flushMagic {
			continue
		}
		if _, reason := probe.checkFlush(data, at); reason == "" {
			return true
		}
	}
	return false
}

func (l *Log) replayFlush(
	file uint64, offset int64, body []byte, replay func(uint64, Entry) error,
) error {
	at := offset + flushHeaderBytes
	for len(body) > 0 {
		e, rest, reason := parseFrame(body)
		if reason != "" {
			return l.corrupt(file, at, reason)
		}
		if err := replay(file, e); err != nil {
			return &CorruptError{File: l.path(logName(file)), Offset: at, Reason: "entry", Err: err}
		}
		at += int64(len(body) - len(rest))
		body = rest
	}
	return nil
}

func parseFrame(src []byte) (e Entry, rest []byte, reason string) {
	if len(src) < frameHeaderBytes {
		return e, nil, "flush ends inside a frame header"
	}
	size := binary.LittleEndian.Uint32(src)
	if uint64(size) > uint64(len(src)-frameHeaderBytes) {
		return e, nil, "frame is longer than its flush"
	}
	e = Entry{
		Shard: binary.LittleEndian.Uint32(src[4:]), Term: binary.LittleEndian.Uint64(src[8:]),
		Index: binary.LittleEndian.Uint64(src[16:]), Kind: src[24],
		Data: src[frameHeaderBytes : frameHeaderBytes+size : frameHeaderBytes+size],
	}
	for _, b := range src[25:frameHeaderBytes] {
		if b != 0 {
			return e, nil, "reserved bytes of a frame are not zero"
		}
	}
	return e, src[frameHeaderBytes+size:], ""
}

// Append writes the entries as one flush and syncs it: after an error-free return they are all
// durable, after a crash before that either all or none of them are there. It returns the number
// of the file that holds them.
//
// Errors: after a failed write or sync the log returns ErrLogFailed for ever.
func (l *Log) Append(entries []Entry) (fileSeq uint64, err error) {
	if l.failed != nil {
		return 0, l.failed
	}
	if l.size >= l.opt.FileBytes {
		if err := l.roll(); err != nil {
			return 0, l.fail(err)
		}
	}
	l.buf = append(l.buf[:0], make([]byte, flushHeaderBytes)...)
	for i := range entries {
		l.buf = appendFrame(l.buf, &entries[i])
	}
	size := uint64(len(l.buf) - flushHeaderBytes)
	if size > maxFlushBytes {
		return 0, fmt.Errorf("append to log: a flush of %d bytes, at most %d", size, maxFlushBytes)
	}
	binary.LittleEndian.PutUint32(l.buf, flushMagic)
	binary.LittleEndian.PutUint64(l.buf[8:], l.seq+1)
	binary.LittleEndian.PutUint64(l.buf[16:], uint64(l.size))
	binary.LittleEndian.PutUint64(l.buf[24:], size)
	binary.LittleEndian.PutUint32(l.buf[4:], checksum(l.buf[8:]))
	if _, err := l.file.Write(l.buf); err != nil {
		return 0, l.fail(err)
	}
	if err := l.file.Sync(); err != nil {
		return 0, l.fail(err)
	}
	l.seq++
	l.size += int64(len(l.buf))
	l.setSize(l.fileSeq, l.size)
	if cap(l.buf) > 64<<20 {
		l.buf = nil
	}
	return l.fileSeq, nil
}

func appendFrame(dst []byte, e *Entry) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(e.Data)))
	dst = binary.LittleEndian.AppendUint32(dst, e.Shard)
	dst = binary.LittleEndian.AppendUint64(dst, e.Term)
	dst = binary.LittleEndian.AppendUint64(dst, e.Index)
	dst = append(dst, e.Kind, 0, 0, 0, 0, 0, 0, 0)
	return append(dst, e.Data...)
}

func (l *Log) fail(err error) error {
	l.failed = fmt.Errorf("%w: write %s: %w", ErrLogFailed, l.path(logName(l.fileSeq)), err)
	return l.failed
}

// roll starts the next file. The old one was synced with its last flush.
func (l *Log) roll() error {
	if l.file != nil {
		if err := l.file.Close(); err != nil {
			return err
		}
		l.file = nil
	}
	seq := l.fileSeq + 1
	f, err := l.dir.Create(logName(seq))
	if err != nil {
		return err
	}
	l.file, l.fileSeq = f, seq
	header := binary.LittleEndian.AppendUint32(nil, logMagic)
	header = binary.LittleEndian.AppendUint16(header, logVersion)
	header = binary.LittleEndian.AppendUint16(header, 0)
	header = binary.LittleEndian.AppendUint64(header, seq)
	if _, err := f.Write(header); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := l.dir.SyncDir(); err != nil {
		return err
	}
	l.size = logHeaderBytes
	l.setSize(seq, l.size)
	return nil
}

// Remove deletes all files numbered below a file; never the newest.
func (l *Log) Remove(belowFileSeq uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	seqs := slices.Sorted(maps.Keys(l.sizes))
	for _, seq := range seqs[:len(seqs)-1] { // oldest first, so that a crash leaves no gap
		if seq >= belowFileSeq {
			break
		}
		if err := l.dir.Remove(logName(seq)); err != nil {
			return fmt.Errorf("remove log file: %w", err)
		}
		delete(l.sizes, seq)
	}
	return l.dir.SyncDir()
}

// Stats returns the present sizes.
func (l *Log) Stats() LogStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := LogStats{Files: len(l.sizes)}
	for _, size := range l.sizes {
		st.Bytes += size
	}
	return st
}

// Close closes the file; everything appended is durable already.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
