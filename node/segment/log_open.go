package segment

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/sector"
)

func openLog(
	dir durable.Folder, path string, opt LogOptions, replay func(uint64, Entry) error,
) (*Log, LogReport, error) {
	if opt.FileBytes <= 0 {
		opt.FileBytes = defaultLogFileBytes
	}
	l := &Log{dir: dir, path: path, opt: opt, sizes: map[uint64]int64{},
		noSpaceSignal: make(chan struct{}, 1)}
	r := logReader{log: l, replay: replay}
	if err := r.files(); err != nil {
		return nil, r.report, err
	}
	if l.number == 0 {
		if err := l.roll(); err != nil {
			return nil, r.report, fmt.Errorf("start log in %s: %w", path, err)
		}
		return l, r.report, nil
	}
	var err error
	if l.newest, err = dir.Open(logName(l.number)); err != nil {
		return nil, r.report, fmt.Errorf("open log: %w", err)
	}
	if err = r.secure(); err == nil {
		l.synced = l.seq
		err = dir.Sync() // the name of the file, too, may not have been synced yet
	}
	if err != nil {
		err = errors.Join(err, l.newest.Close())
		return nil, r.report, fmt.Errorf("sync %s: %w", l.Path(l.number), err)
	}
	return l, r.report, nil
}

// logReader replays the files of a log that is being opened.
type logReader struct {
	log    *Log
	replay func(uint64, Entry) error
	report LogReport
	number uint64  // of the file being read
	buf    []byte  // the file
	starts []int64 // offsets of its flushes
	loose  uint64  // flushes at its end that its last one does not prove to be synced
}

// secure writes the last flush again and syncs it, and the flushes before it that it does not prove
// to be durable. They were replayed, but a process that was killed may have left them in the page
// cache, and one whose sync failed may have lost them there.
func (r *logReader) secure() error {
	n := uint64(len(r.starts))
	loose := r.starts[n-min(n, r.loose):]
	from := r.log.size
	for i, start := range loose {
		end := r.log.size
		if i+1 < len(loose) {
			end = loose[i+1]
		}
		from = min(from, start)
		sector.Mask(r.buf[start+flushHeaderBytes : end])
	}
	if _, err := r.log.newest.WriteAt(r.buf[from:r.log.size], from); err != nil {
		return err
	}
	return r.log.newest.Sync()
}

func (r *logReader) corrupt(offset int64, reason string) *durable.CorruptError {
	return &durable.CorruptError{File: r.log.Path(r.number), Offset: offset, Reason: reason}
}

func (r *logReader) files() error {
	names, err := r.log.dir.Names()
	if err != nil {
		return fmt.Errorf("list log: %w", err)
	}
	for i, name := range names {
		number, ok := ParseLogName(name)
		if !ok {
			return fmt.Errorf("list log: %s in %s is not a log file; move it away",
				name, r.log.path)
		}
		if oldest := r.log.opt.Oldest; r.number == 0 && oldest != 0 && number > oldest {
			r.number = oldest
			return r.corrupt(0, "the file is missing, but there are newer ones")
		}
		if r.number != 0 && number != r.number+1 {
			r.number++
			return r.corrupt(0, "the file is missing, but there are older and newer ones")
		}
		r.number = number
		if err := r.file(i == len(names)-1); err != nil {
			return err
		}
	}
	if r.log.seq < r.log.opt.Durable {
		r.number = max(r.number, 1)
		return r.corrupt(r.log.size, fmt.Sprintf("the log ends at flush %d, and flush %d was "+
			"durable: its newest files or the end of this one are missing", r.log.seq,
			r.log.opt.Durable))
	}
	return nil
}

// file replays one file and mends its end.
func (r *logReader) file(last bool) error {
	data, err := durable.Read(r.log.dir, logName(r.number), r.buf)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	r.buf, r.starts = data, r.starts[:0]
	if len(data) == 0 && !last {
		return r.corrupt(0, "the file is empty, but there is a newer one")
	}
	at := uint64(0)
	for at < uint64(len(data)) {
		f, err := parseFlush(data, at)
		if err == nil && r.log.seq != 0 && f.seq != r.log.seq+1 {
			return r.corrupt(int64(at), fmt.Sprintf("flush %d follows flush %d", f.seq, r.log.seq))
		}
		if err != nil {
			if err := r.mend(data, at, last, err); err != nil {
				return err
			}
			break
		}
		if err := r.flush(&f, at); err != nil {
			return err
		}
		r.log.seq = f.seq
		r.starts, r.loose = append(r.starts, int64(at)), f.unsynced+1
		at += f.bytes
	}
	r.report.Files++
	r.log.number, r.log.size = r.number, int64(at)
	r.log.setSize(r.number, int64(at))
	return nil
}

// mend decides what a flush is that cannot be read: a torn tail, which it cuts, or damage: what a
// good flush behind it says was synced.
func (r *logReader) mend(data []byte, at uint64, last bool, cause *flushError) error {
	if err := cause.of(r.log.Path(r.number)); err != nil {
		return err
	}
	if !last || !cause.torn || r.log.seq < r.log.opt.Durable {
		return r.corrupt(int64(at), cause.reason)
	}
	if next, found := proofAfter(data, at, r.log.seq); found {
		return r.corrupt(int64(at), fmt.Sprintf("%s, but a good flush follows at offset %d",
			cause.reason, next))
	}
	if err := r.log.dir.Truncate(logName(r.number), int64(at)); err != nil {
		return fmt.Errorf("cut torn tail of log: %w", err)
	}
	r.report.TornFile, r.report.TornReason = r.log.Path(r.number), cause.reason
	r.report.TornAt, r.report.TornSize = int64(at), int64(uint64(len(data))-at)
	return nil
}

func (r *logReader) flush(f *flush, at uint64) error {
	r.report.Flushes++
	at += flushHeaderBytes
	src := f.unmask()
	for range f.entries {
		e, rest, reason := parseFrame(src)
		if reason != "" {
			return r.corrupt(int64(at), reason)
		}
		if err := r.replay(r.number, e); err != nil {
			if formats.Is(err) {
				return formats.In(r.log.Path(r.number), err)
			}
			return fmt.Errorf("replay %s: entry at offset %d: %w", r.log.Path(r.number), at, err)
		}
		r.report.Entries++
		at += uint64(len(src) - len(rest))
		src = rest
	}
	if len(src) > 0 {
		return r.corrupt(int64(at), "bytes follow the last frame of a flush")
	}
	return nil
}

// flush is a flush whose checksums hold; body aliases the file.
type flush struct {
	seq      uint64
	unsynced uint64 // flushes just before it that were not known to be synced
	entries  uint32
	size     uint64 // of the frames
	bytes    uint64 // of the flush in the file
	body     []byte // masked frames and padding, until unmask
}

// unmask returns the frames. It changes the bytes that were parsed, so it is called once.
func (f *flush) unmask() []byte {
	sector.Mask(f.body)
	return f.body[:f.size]
}

// flushError says why no flush can be read at an offset. Torn: a part of it never reached the disk,
// so the write was not acknowledged, unless a later flush says that this one was synced.
type flushError struct {
	reason string
	torn   bool
	other  *formats.Error // it is whole, and of another version; nil: it is not
}

// of returns the error of a flush of another version in a file; nil of damage.
func (e *flushError) of(file string) error {
	if e.other == nil {
		return nil
	}
	return formats.In(file, e.other)
}

func parseFlush(data []byte, at uint64) (flush, *flushError) {
	src := data[at:]
	damaged := func(format string, args ...any) (flush, *flushError) {
		return flush{}, &flushError{reason: fmt.Sprintf(format, args...)}
	}
	torn := func(format string, args ...any) (flush, *flushError) {
		return flush{}, &flushError{torn: true, reason: fmt.Sprintf(format, args...)}
	}
	if sector.IsZero(src[:min(sector.Size, len(src))]) {
		return torn("the first sector of a flush is not written")
	}
	if len(src) < flushHeaderBytes {
		return torn("the file ends inside the header of a flush")
	}
	if binary.LittleEndian.Uint32(src) != flushMagic {
		return damaged("no flush starts here")
	}
	if isVersion1(src) {
		return flush{}, &flushError{reason: "flush of version 1",
			other: formats.Of("", "", 1, flushVersion)}
	}
	if checksum(src[:44]) != binary.LittleEndian.Uint32(src[44:]) {
		return damaged("the checksum of the header of a flush differs")
	}
	if v := binary.LittleEndian.Uint16(src[4:]); v != flushVersion {
		return flush{}, &flushError{reason: fmt.Sprintf("flush of version %d; this program reads "+
			"version %d", v, flushVersion), other: formats.Of("", "", uint64(v), flushVersion)}
	}
	if binary.LittleEndian.Uint64(src[16:]) != at {
		return damaged("the flush belongs to another place")
	}
	f := flush{seq: binary.LittleEndian.Uint64(src[8:]),
		unsynced: uint64(binary.LittleEndian.Uint16(src[6:])),
		entries:  binary.LittleEndian.Uint32(src[32:]), size: binary.LittleEndian.Uint64(src[24:])}
	if f.size > maxFlushBytes {
		return damaged("a flush of %d bytes, at most %d", f.size, maxFlushBytes)
	}
	if f.unsynced >= f.seq {
		return damaged("flush %d cannot follow %d that were not synced", f.seq, f.unsynced)
	}
	f.bytes = sector.Round(flushHeaderBytes + f.size)
	if f.bytes > uint64(len(src)) {
		return torn("the file ends inside a flush")
	}
	f.body = src[flushHeaderBytes:f.bytes:f.bytes]
	if checksum(f.body) == binary.LittleEndian.Uint32(src[40:]) {
		return f, nil
	}
	blank := sector.Blank(src[sector.Size:f.bytes])
	if nearZeroSectors := binary.LittleEndian.Uint32(src[36:]); blank > nearZeroSectors {
		return torn("%d of the %d sectors of a flush are not written", blank-nearZeroSectors,
			f.bytes/sector.Size)
	}
	return damaged("the checksum of a flush differs, although all of its sectors were written")
}

// isVersion1 reports whether a whole flush of version 1 starts here, which had one checksum for a
// header of 40 bytes and its frames. From version 2 on, the first 48 bytes are those of the header
// and their checksum in every version.
func isVersion1(src []byte) bool {
	const header = 40
	if binary.LittleEndian.Uint16(src[4:]) != 1 {
		return false
	}
	size := binary.LittleEndian.Uint64(src[24:])
	return size <= uint64(len(src)-header) && checksum2(src[:header-4], src[header:header+size]) ==
		binary.LittleEndian.Uint32(src[header-4:])
}

func parseFrame(src []byte) (e Entry, rest []byte, reason string) {
	if len(src) < frameHeaderBytes {
		return e, nil, "a flush ends inside the header of a frame"
	}
	size := uint64(binary.LittleEndian.Uint32(src))
	if size > uint64(len(src)-frameHeaderBytes) {
		return e, nil, "a frame is longer than its flush"
	}
	if src[25]|src[26]|src[27] != 0 {
		return e, nil, "reserved bytes of a frame are not zero"
	}
	return Entry{
		Shard: binary.LittleEndian.Uint32(src[4:]), Term: binary.LittleEndian.Uint64(src[8:]),
		Index: binary.LittleEndian.Uint64(src[16:]), Kind: src[24],
		Data: src[frameHeaderBytes : frameHeaderBytes+size : frameHeaderBytes+size],
	}, src[frameHeaderBytes+size:], ""
}
