package replica

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/sector"
)

// Report says what was found when the shared log was opened.
type Report struct {
	Files   int
	Flushes int
	Entries int
	// TornFile names the file whose end was cut off: what a crash leaves of a flush that was never
	// acknowledged.
	TornFile   string
	TornAt     int64
	TornReason string
	// Damage lists places that cannot be read although they were synced once.
	Damage []DamageError
	// Quarantined are the groups that may have lost something there. Their replicas must not take
	// part again: drop them, and let the group replace them by replicas with new ids.
	Quarantined map[GroupID]error
}

// opener reads the files of a log.
type opener struct {
	l       *journal
	report  Report
	number  uint32
	newest  bool
	jump    bool                // damage explains why the next flush does not follow the last
	lossy   bool                // frames may have been lost
	suspect map[*groupLog]error // groups that may have lost something
	data    []byte              // a file, in the memory of the one before
	last    []byte              // the last flush of the file, aliasing data
	lastAt  int64
}

// openJournal reads the log and starts a new file in it, so that no file is ever written on that
// was there before.
func openJournal(dir durable.Folder, l *journal) (*journal, Report, error) {
	l.dir, l.groups, l.files = dir, map[GroupID]*groupLog{}, map[uint32]*journalFile{}
	o := opener{l: l, suspect: map[*groupLog]error{},
		report: Report{Quarantined: map[GroupID]error{}}}
	names, err := dir.Names()
	if err != nil {
		return nil, o.report, fmt.Errorf("list log: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == tailName })
	for i, name := range names {
		o.newest = i == len(names)-1
		if err := o.file(name); err != nil {
			return nil, o.report, errors.Join(err, l.close())
		}
	}
	if err := o.checkTail(); err != nil {
		return nil, o.report, errors.Join(err, l.close())
	}
	for g, err := range o.suspect {
		g.damage = err
	}
	for _, g := range l.all() {
		if err := g.checkWhole(); err != nil && g.damage == nil {
			g.damage = err
		}
		if g.damage != nil {
			o.report.Quarantined[g.group] = &DamageError{Group: g.group, File: "log",
				Reason: g.damage.Error()}
		}
	}
	l.newest = nil
	if err := l.write(nil); err != nil {
		return nil, o.report, errors.Join(fmt.Errorf("start log: %w", err), l.close())
	}
	return l, o.report, nil
}

// damaged notes a place that cannot be read. Each group may have lost something there; one whose
// next frame follows upon its last has not.
func (o *opener) damaged(at int64, reason string) {
	o.damagedIn(journalName(o.number), at, reason)
}

func (o *opener) damagedIn(file string, at int64, reason string) {
	d := DamageError{Group: NoGroup, File: file, Offset: at, Reason: reason}
	o.report.Damage, o.lossy = append(o.report.Damage, d), true
	for _, g := range o.l.all() {
		if g.damage == nil && !g.dropped {
			o.suspect[g] = fmt.Errorf("its frames after %d may be lost: %s at offset %d: %s",
				g.number, d.File, at, reason)
		}
	}
}

func (o *opener) file(name string) error {
	number, err := strconv.ParseUint(strings.TrimSuffix(name, journalSuffix), 10, 32)
	if err != nil || journalName(uint32(number)) != name {
		return fmt.Errorf("open log: %s is not a file of it; move it away", name)
	}
	if o.number != 0 && uint32(number) != o.number+1 {
		o.number++
		o.damaged(0, "the file is missing")
		o.jump = true
	}
	o.number = uint32(number)
	f, err := o.l.dir.Open(name)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	o.l.number = o.number
	entry := &journalFile{file: f}
	o.l.files[o.number] = entry
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("open log: %s: %w", name, err)
	}
	if int64(cap(o.data)) < size { // the first touch of memory can take longer than the file
		o.data = make([]byte, size+size/4)
	}
	o.data = o.data[:size]
	if size > 0 {
		if _, err := f.ReadAt(o.data, 0); err != nil {
			return fmt.Errorf("read log: %s: %w", name, err)
		}
	}
	o.last = nil
	end, err := o.flushes(o.data)
	if err != nil {
		return err
	}
	entry.size = end
	o.report.Files++
	if !o.newest {
		return nil
	}
	// A process that was killed may have left the last flush in the memory of the kernel, and one
	// whose sync failed lost it: it is written once more, for what was read must last. So must the
	// names of files, also of an empty one: the next would come behind a gap.
	if o.last != nil {
		sector.Mask(o.last[flushHeaderBytes:])
		if _, err = f.WriteAt(o.last, o.lastAt); err == nil {
			err = f.Sync()
		}
	}
	if err == nil {
		err = o.l.dir.Sync()
	}
	if err != nil {
		return fmt.Errorf("sync log: %s: %w", name, err)
	}
	return nil
}

// flushes takes in a file and returns where its last flush ends.
func (o *opener) flushes(data []byte) (end int64, err error) {
	at := uint64(0)
	for at < uint64(len(data)) {
		p := parsePlace(data, at)
		if p.other != nil {
			return int64(at), formats.In(journalName(o.number), p.other)
		}
		next, found := p.next, p.whole
		if !p.whole {
			next, found = flushAfter(data, next, o.l.seq)
		}
		if !found && o.newest && p.torn {
			return int64(at), o.cut(at, p.reason)
		}
		if p.whole && o.l.seq != 0 && p.head.seq != o.l.seq+1 && !o.jump {
			o.damaged(int64(at), fmt.Sprintf("flush %d follows flush %d", p.head.seq, o.l.seq))
		}
		if p.readable { // of a damaged flush, what comes before the damage is taken
			o.l.seq = max(o.l.seq, p.head.seq)
			sector.Mask(p.body)
			o.frames(p.body, p.head, at+flushHeaderBytes)
		}
		if !p.whole {
			o.damaged(int64(at), p.reason)
		} else if p.reason != "" { // nothing is lost with it
			o.report.Damage = append(o.report.Damage, DamageError{Group: NoGroup,
				File: journalName(o.number), Offset: int64(at), Reason: p.reason})
		}
		o.jump = !p.whole
		if p.whole {
			o.last, o.lastAt = data[at:next], int64(at)
		} else if !found {
			return int64(at), nil
		}
		at = next
		o.report.Flushes++
	}
	return int64(at), nil
}

// place is what is at an offset of a file.
type place struct {
	head     flush
	body     []byte // what follows the header, masked; it may end early
	readable bool   // the header can be read
	whole    bool   // and all frames
	torn     bool   // a part of it never reached the disk
	reason   string // why it is not whole; of one that is, what is wrong with its padding
	other    *formats.Error
	next     uint64 // where the next flush is, or where to look for one
}

func parsePlace(data []byte, at uint64) place {
	p := place{next: at + sector.Size}
	p.head, p.reason, p.torn = parseFlush(data[at:], at)
	p.other = formats.Of("", "", uint64(p.head.version), flushVersion)
	if p.readable = p.reason == ""; !p.readable {
		return p
	}
	p.next = p.head.end()
	p.body = data[at+flushHeaderBytes : min(p.next, uint64(len(data)))]
	if p.next > uint64(len(data)) {
		p.reason, p.torn = "the file ends inside a flush", true
		return p
	}
	zero := sector.Zero(data[min(at+sector.Size, p.next):p.next])
	sector.Mask(p.body)
	p.reason, p.whole = checkFrames(p.body, p.head)
	if p.whole && !sector.IsZero(p.body[p.head.size:]) {
		p.reason = "the padding of a flush is not zero"
	}
	sector.Mask(p.body)
	if !p.whole && zero > p.head.nearZero {
		p.reason, p.torn = fmt.Sprintf("%d of the sectors of a flush are not written",
			zero-p.head.nearZero), true
	}
	return p
}

func (o *opener) cut(at uint64, reason string) error {
	name := journalName(o.number)
	o.report.TornFile, o.report.TornAt, o.report.TornReason = name, int64(at), reason
	if err := o.l.dir.Truncate(name, int64(at)); err != nil {
		return fmt.Errorf("cut torn tail of %s: %w", name, err)
	}
	return nil
}

// checkFrames reports whether all frames of a flush can be read.
func checkFrames(src []byte, head flush) (reason string, whole bool) {
	if uint64(head.size) > uint64(len(src)) {
		return "the file ends inside a flush", false
	}
	src = src[:head.size]
	for range head.frames {
		_, rest, reason := parseFrame(src)
		if reason != "" {
			return reason, false
		}
		src = rest
	}
	if len(src) > 0 {
		return "bytes follow the last frame of a flush", false
	}
	return "", true
}

// flushAfter looks for a flush of this log that was written after the one numbered seq.
func flushAfter(data []byte, from, seq uint64) (at uint64, found bool) {
	for at = from; at < uint64(len(data)); at += sector.Size {
		if p := parsePlace(data, at); p.whole && p.head.seq > seq {
			return at, true
		}
	}
	return 0, false
}

// frames takes in the frames of a flush up to the first that cannot be read.
func (o *opener) frames(src []byte, head flush, at uint64) {
	src = src[:min(uint64(head.size), uint64(len(src)))]
	for range head.frames {
		f, rest, reason := parseFrame(src)
		if reason != "" {
			return
		}
		size := uint64(len(src) - len(rest))
		o.frame(&f, position{file: o.number, offset: uint32(at), size: uint32(size)})
		at += size
		src = rest
	}
}

func (o *opener) frame(f *frame, at position) {
	g := o.l.groups[f.group]
	fresh := g == nil
	if fresh {
		g = o.l.add(f.group)
		g.number = f.number - 1
		first := f.kind == kindCreated && f.number == 1 ||
			!o.lossy && (f.kind == kindCheckpoint || f.kind == kindDropped)
		if !first {
			g.damage = errors.New("the log does not say how it began")
		}
	}
	if f.number != g.number+1 {
		g.damage = fmt.Errorf("frames %d to %d are lost", g.number+1, f.number-1)
	}
	delete(o.suspect, g)
	g.number = f.number
	if f.kind == kindEntry {
		o.report.Entries++
	}
	if err := g.note(f, at); err != nil && g.damage == nil {
		g.damage = err
	}
}
