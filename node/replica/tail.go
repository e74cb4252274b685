package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/sector"
	"github.com/pentad-db/pentad/sdk/crc32c"
)

// The files of the log vouch for each other, but for the newest: without it, or without its end,
// the others are a log that ended earlier. TAIL, FORMAT.md section 1, is a file beside them that
// names a flush which is durable.

const (
	tailName    = "TAIL"
	tailMagic   = 0x31545450 // "PTT1"
	tailVersion = 1
	// tailBytes is one sector, which a disk writes whole or not at all.
	tailBytes = sector.Size
)

// tail is a place that the log has reached: a flush of a file, both durable.
type tail struct {
	file uint32
	seq  uint64
}

func appendTail(dst []byte, t tail) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, tailMagic)
	dst = binary.LittleEndian.AppendUint16(dst, tailVersion)
	dst = append(dst, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, t.file)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, t.seq)
	dst = binary.LittleEndian.AppendUint32(dst, crc32c.Sum(dst[at:]))
	return append(dst, make([]byte, tailBytes-(len(dst)-at))...)
}

// parseTail parses a whole file; reason says why it cannot be read. One that is too short names no
// place: there was no space for its first write, or the process was killed before it.
func parseTail(src []byte) (t tail, reason string) {
	switch {
	case len(src) < tailBytes:
		return t, ""
	case len(src) > tailBytes:
		return t, fmt.Sprintf("it is longer than %d bytes", tailBytes)
	case binary.LittleEndian.Uint32(src) != tailMagic:
		return t, "it does not begin as this file does"
	case crc32c.Sum(src[:24]) != binary.LittleEndian.Uint32(src[24:]):
		return t, "the checksum differs"
	case binary.LittleEndian.Uint16(src[4:]) != tailVersion:
		return t, fmt.Sprintf("version %d is not known", binary.LittleEndian.Uint16(src[4:]))
	case src[6]|src[7] != 0 || !sector.IsZero(src[12:16]) || !sector.IsZero(src[28:]):
		return t, "bytes that should be zero are not"
	}
	return tail{binary.LittleEndian.Uint32(src[8:]), binary.LittleEndian.Uint64(src[16:])}, ""
}

// otherTail returns the error of a TAIL of another version, whose checksum holds; else nil.
func otherTail(src []byte) *formats.Error {
	if len(src) != tailBytes || binary.LittleEndian.Uint32(src) != tailMagic ||
		crc32c.Sum(src[:24]) != binary.LittleEndian.Uint32(src[24:]) {
		return nil
	}
	return formats.Of("", "", uint64(binary.LittleEndian.Uint16(src[4:])), tailVersion)
}

// lacks says in what a log that ends so falls short of the place, and in which file; "": in
// nothing.
func (t tail) lacks(end tail, empty bool) (file, reason string) {
	switch {
	case end.file < t.file:
		return journalName(t.file), "the file is missing: " + tailName + " names it"
	case end.seq >= t.seq:
		return "", ""
	case empty:
		return journalName(end.file), fmt.Sprintf("the file is empty: %s says that flush %d was "+
			"durable", tailName, t.seq)
	}
	return journalName(end.file), fmt.Sprintf("the log ends with flush %d: %s says that flush %d "+
		"was durable", end.seq, tailName, t.seq)
}

// checkTail reads TAIL and holds it against what was found, after all files were read. A log that
// was written by a program without TAIL has none.
func (o *opener) checkTail() error {
	f, err := o.l.dir.Open(tailName)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	o.l.tail = f
	size, err := f.Size()
	text := make([]byte, min(size, 2*tailBytes))
	if err == nil && len(text) > 0 {
		_, err = f.ReadAt(text, 0)
	}
	if err != nil {
		return fmt.Errorf("read log: %s: %w", tailName, err)
	}
	if e := otherTail(text); e != nil {
		return formats.In(tailName, e)
	}
	t, reason := parseTail(text)
	if reason != "" { // nothing is lost with it
		o.report.Damage = append(o.report.Damage, DamageError{Group: NoGroup,
			File: tailName, Reason: reason})
		if size > tailBytes {
			return o.l.dir.Truncate(tailName, tailBytes)
		}
		return nil
	}
	newest := o.l.files[o.l.number]
	empty := newest != nil && newest.size == 0
	if name, reason := t.lacks(tail{o.l.number, o.l.seq}, empty); reason != "" {
		o.damagedIn(name, 0, reason)
	}
	return nil
}

// writeTail notes in TAIL how far the log is durable: with the first flush of each file, and when
// the log is closed. Where there is no space, what it said before stays true.
func (l *journal) writeTail() error {
	err := l.openTail()
	if err == nil {
		_, err = l.tail.WriteAt(appendTail(nil, tail{l.number, l.seq}), 0)
	}
	if err != nil && noSpace(err) {
		return l.failed
	}
	if err == nil {
		err = l.tail.Sync()
	}
	if err != nil {
		l.failed = fmt.Errorf("%w: write %s: %w", ErrLogFailed, tailName, err)
	}
	return l.failed
}

func (l *journal) openTail() error {
	if l.tail != nil {
		return nil
	}
	f, err := l.dir.Open(tailName)
	if errors.Is(err, os.ErrNotExist) {
		f, err = l.dir.Create(tailName)
		if err == nil {
			if sync := l.dir.Sync(); sync != nil {
				return l.fail(sync)
			}
		}
	}
	if err == nil {
		l.tail = f
	}
	return err
}
