package sealed

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/plugin/guest"
)

// maxLanes is more than payloads can have.
const maxLanes = 2048

// macBytes is the size of the MAC at the end of the prefix.
const macBytes = 16

// Layout is where payloads of a schema have what is added up.
type Layout struct {
	Schema Schema
	lanes  []lane
	trends int // lanes that are one
	end    int // of the lanes
}

// lane is one number of payloads.
type lane struct {
	width        int
	trend        bool
	origin, unit int64 // of the times of a trend
}

// ParseLayout reads a layout, SCHEMA:CHECK PREFIX FLAGS WIDTHS, as `pentad seal schema` prints it.
// It keeps nothing of text.
func ParseLayout(text []byte) (*Layout, error) {
	r := reader{rest: text}
	l := &Layout{Schema: r.schema(), end: HeaderBytes}
	for more := true; more && !r.bad && len(l.lanes) < maxLanes; more = r.next(',') {
		one := lane{width: int(r.number())}
		if one.width != 4 && one.width != 8 && one.width != 16 {
			r.bad = true
		}
		if one.trend = r.next('@'); one.trend { // ORIGIN/UNIT
			one.origin = r.number()
			r.want('/')
			one.unit = r.number()
			r.bad = r.bad || one.unit <= 0
			l.trends++
		}
		l.lanes = append(l.lanes, one)
		l.end += one.width
	}
	if r.bad || len(r.rest) > 0 || l.end+l.macBytes() > l.Schema.Prefix {
		return nil, invalid("layout must be SCHEMA:CHECK PREFIX FLAGS WIDTHS, as pentad seal " +
			"schema prints it")
	}
	return l, nil
}

func (l *Layout) hasMAC() bool { return l.Schema.Flags&FlagMAC != 0 }

// macBytes is how much of a payload the MAC takes.
func (l *Layout) macBytes() int {
	if l.hasMAC() {
		return macBytes
	}
	return 0
}

// Tag reports whether a tag of TagBytes can lie at a place in payloads.
func (l *Layout) Tag(at uint64) bool {
	end := l.Schema.Prefix - l.macBytes()
	return at%8 == 0 && at >= uint64(l.end) && end >= TagBytes && at <= uint64(end-TagBytes)
}

// Front is how many bytes at the front of payloads sums read, as [guest.Fronting] says it.
func (l *Layout) Front() int { return l.Schema.Prefix }

// wide is a number modulo 2^128.
type wide struct{ lo, hi uint64 }

func (w *wide) add(o wide) {
	lo := w.lo + o.lo
	w.hi += o.hi
	if lo < o.lo {
		w.hi++
	}
	w.lo = lo
}

// load reads a lane.
func load(p []byte, width int) wide {
	switch width {
	case 4:
		return wide{lo: uint64(binary.LittleEndian.Uint32(p))}
	case 8:
		return wide{lo: binary.LittleEndian.Uint64(p)}
	}
	return wide{binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])}
}

// append appends the lowest bytes.
func (w wide) append(dst []byte, width int) []byte {
	if width == 4 {
		return binary.LittleEndian.AppendUint32(dst, uint32(w.lo))
	}
	dst = binary.LittleEndian.AppendUint64(dst, w.lo)
	if width == 16 {
		dst = binary.LittleEndian.AppendUint64(dst, w.hi)
	}
	return dst
}

// units is a time in units of a trend, rounded down.
func (l *lane) units(capNs int64) int64 {
	ns := capNs - l.origin
	n := ns / l.unit
	if ns%l.unit < 0 {
		n--
	}
	return n
}

// Group returns the group of row i, where the batch has GID, or Runs; run is 0 at the first row.
func Group(b *guest.Batch, i int, run *int) uint32 {
	if b.Runs == nil {
		return b.GID[i]
	}
	for b.Runs[*run].End <= uint32(i) {
		*run++
	}
	return b.Runs[*run].GID
}
