package wal

import (
	"errors"
	"fmt"
	"os"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/sector"
)

// Options of a log. The zero value works.
type Options struct {
	// FileBytes is the size from which on a new file is started; default 64 MiB.
	FileBytes int64
	// Durable is the number of an append that is known to have been synced; 0: none is. A log
	// that ends before it is damaged.
	Durable uint64
	// Oldest is the number of a file before which nothing is needed any more; 0: not known. A log
	// whose first file has a greater number is damaged.
	Oldest uint64
}

// Report says what Open found and mended.
type Report struct {
	Files      int
	Appends    int
	Entries    int
	TornFile   string // path of the file whose torn tail was cut, empty when none was
	TornAt     int64  // offset of the cut
	TornSize   int64  // bytes cut
	TornReason string
}

// Open opens or starts the log in a directory and replays every whole append in order. A torn
// tail of the last file, which is what a crash leaves of an append that was never acknowledged, is
// cut off and reported.
//
// Errors: *durable.CorruptError for damage: also for a last append that was written whole and does
// not match its checksum; an error of replay, wrapped.
func Open(
	dir string, opt Options, replay func(fileSeq uint64, e Entry) error,
) (*Log, Report, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, Report{}, fmt.Errorf("open log: %w", err)
	}
	return openFolder(durable.Dir(dir), dir, opt, replay)
}

func openFolder(
	dir durable.Folder, path string, opt Options, replay func(uint64, Entry) error,
) (*Log, Report, error) {
	if opt.FileBytes <= 0 {
		opt.FileBytes = defaultFileBytes
	}
	l := &Log{dir: dir, path: path, opt: opt, sizes: map[uint64]int64{},
		noSpaceSignal: make(chan struct{}, 1)}
	o := opener{log: l, replay: replay}
	if err := o.files(); err != nil {
		return nil, o.report, err
	}
	if l.number == 0 {
		if err := l.roll(); err != nil {
			return nil, o.report, fmt.Errorf("start log in %s: %w", path, err)
		}
		return l, o.report, nil
	}
	var err error
	if l.newest, err = dir.Open(fileName(l.number)); err != nil {
		return nil, o.report, fmt.Errorf("open log: %w", err)
	}
	if err = o.resyncTail(); err == nil {
		l.synced = l.appendNumber
		err = dir.Sync() // the name of the file, too, may not have been synced yet
	}
	if err != nil {
		err = errors.Join(err, l.newest.Close())
		return nil, o.report, fmt.Errorf("sync %s: %w", l.Path(l.number), err)
	}
	return l, o.report, nil
}

// opener replays the files of a log that is being opened.
type opener struct {
	log          *Log
	replay       func(uint64, Entry) error
	report       Report
	number       uint64  // of the file being read
	buf          []byte  // the file
	starts       []int64 // offsets of its appends
	unsyncedTail uint64  // appends at its end that its last one does not prove to be synced
}

// resyncTail writes the last append again and syncs it, and the appends before it that it does not
// prove to be durable. They were replayed, but a process that was killed may have left them in the
// page cache, and one whose sync failed may have lost them there.
func (o *opener) resyncTail() error {
	n := uint64(len(o.starts))
	starts := o.starts[n-min(n, o.unsyncedTail):]
	from := o.log.size
	for i, start := range starts {
		end := o.log.size
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		from = min(from, start)
		sector.Mask(o.buf[start+headerBytes : end])
	}
	if _, err := o.log.newest.WriteAt(o.buf[from:o.log.size], from); err != nil {
		return err
	}
	return o.log.newest.Sync()
}

func (o *opener) corrupt(offset int64, reason string) *durable.CorruptError {
	return &durable.CorruptError{File: o.log.Path(o.number), Offset: offset, Reason: reason}
}

func (o *opener) files() error {
	names, err := o.log.dir.Names()
	if err != nil {
		return fmt.Errorf("list log: %w", err)
	}
	for i, name := range names {
		number, ok := ParseName(name)
		if !ok {
			return fmt.Errorf("list log: %s in %s is not a log file; move it away",
				name, o.log.path)
		}
		if oldest := o.log.opt.Oldest; o.number == 0 && oldest != 0 && number > oldest {
			o.number = oldest
			return o.corrupt(0, "the file is missing, but there are newer ones")
		}
		if o.number != 0 && number != o.number+1 {
			o.number++
			return o.corrupt(0, "the file is missing, but there are older and newer ones")
		}
		o.number = number
		if err := o.file(i == len(names)-1); err != nil {
			return err
		}
	}
	if o.log.appendNumber < o.log.opt.Durable {
		o.number = max(o.number, 1)
		return o.corrupt(o.log.size, fmt.Sprintf("the log ends at append %d, and append %d was "+
			"durable: its newest files or the end of this one are missing", o.log.appendNumber,
			o.log.opt.Durable))
	}
	return nil
}

// file replays one file and mends its end.
func (o *opener) file(last bool) error {
	data, err := durable.Read(o.log.dir, fileName(o.number), o.buf)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	o.buf, o.starts = data, o.starts[:0]
	if len(data) == 0 && !last {
		return o.corrupt(0, "the file is empty, but there is a newer one")
	}
	at := uint64(0)
	for at < uint64(len(data)) {
		a, err := parseAppend(data, at)
		if err == nil && o.log.appendNumber != 0 && a.number != o.log.appendNumber+1 {
			return o.corrupt(int64(at),
				fmt.Sprintf("append %d follows append %d", a.number, o.log.appendNumber))
		}
		if err != nil {
			if err := o.mend(data, at, last, err); err != nil {
				return err
			}
			break
		}
		if err := o.replayAppend(&a, at); err != nil {
			return err
		}
		o.log.appendNumber = a.number
		o.starts, o.unsyncedTail = append(o.starts, int64(at)), a.unsynced+1
		at += a.bytes
	}
	o.report.Files++
	o.log.number, o.log.size = o.number, int64(at)
	o.log.setSize(o.number, int64(at))
	return nil
}

// mend decides what an append is that cannot be read: a torn tail, which it cuts, or damage: what a
// good append behind it says was synced.
func (o *opener) mend(data []byte, at uint64, last bool, cause *appendError) error {
	if err := cause.of(o.log.Path(o.number)); err != nil {
		return err
	}
	if !last || !cause.torn || o.log.appendNumber < o.log.opt.Durable {
		return o.corrupt(int64(at), cause.reason)
	}
	if next, found := proofAfter(data, at, o.log.appendNumber); found {
		return o.corrupt(int64(at), fmt.Sprintf("%s, but a good append follows at offset %d",
			cause.reason, next))
	}
	if err := o.log.dir.Truncate(fileName(o.number), int64(at)); err != nil {
		return fmt.Errorf("cut torn tail of log: %w", err)
	}
	o.report.TornFile, o.report.TornReason = o.log.Path(o.number), cause.reason
	o.report.TornAt, o.report.TornSize = int64(at), int64(uint64(len(data))-at)
	return nil
}

func (o *opener) replayAppend(a *rawAppend, at uint64) error {
	o.report.Appends++
	at += headerBytes
	src := a.unmask()
	for range a.entries {
		e, rest, reason := parseEntry(src)
		if reason != "" {
			return o.corrupt(int64(at), reason)
		}
		if err := o.replay(o.number, e); err != nil {
			if formats.Is(err) {
				return formats.In(o.log.Path(o.number), err)
			}
			return fmt.Errorf("replay %s: entry at offset %d: %w", o.log.Path(o.number), at, err)
		}
		o.report.Entries++
		at += uint64(len(src) - len(rest))
		src = rest
	}
	if len(src) > 0 {
		return o.corrupt(int64(at), "bytes follow the last entry of an append")
	}
	return nil
}
