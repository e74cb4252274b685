package record

import (
	"fmt"

	"github.com/pentad-db/pentad/sdk/registry"
)

// WindowUnit is what calendar windows are counted in.
type WindowUnit uint8

// Units of windows. Those of minutes and hours begin again at every local midnight.
const (
	WindowNone   WindowUnit = 0
	WindowMinute WindowUnit = 1
	WindowHour   WindowUnit = 2
	WindowDay    WindowUnit = 3 // counted from 1970-01-01
	WindowWeek   WindowUnit = 4 // from Monday on, counted from the week of 1970-01-01
	WindowMonth  WindowUnit = 5 // counted from a January
	WindowYear   WindowUnit = 6 // counted from the year 0
)

// Window is a span of this many units of the calendar of a time zone. The zero value is none.
type Window struct {
	Unit WindowUnit
	N    uint32
	Zone string // "Europe/Berlin", a name of the IANA database; "UTC"; "+05:30"
}

// Most counts of units that a window has, by its unit.
const (
	maxWindowMinutes = 24 * 60
	maxWindowHours   = 24
	maxWindowUnits   = 10_000
)

// MaxZoneBytes is the longest name of a zone.
const MaxZoneBytes = 64

// String writes a window as people ask for it: "15m Europe/Berlin".
func (w Window) String() string {
	units := [...]string{"?", "m", "h", "d", "w", "mo", "y"}
	return fmt.Sprintf("%d%s %s", w.N, units[min(int(w.Unit), len(units)-1)], w.Zone)
}

// Validate checks all but whether there is a zone of that name. The error is an [*InvalidError].
func (w Window) Validate() error {
	most := uint32(maxWindowUnits)
	switch w.Unit {
	case WindowNone:
		if w != (Window{}) {
			return invalid("window", Inconsistent, "has a length or a zone and no unit")
		}
		return nil
	case WindowMinute:
		most = maxWindowMinutes
	case WindowHour:
		most = maxWindowHours
	case WindowDay, WindowWeek, WindowMonth, WindowYear:
	default:
		return invalid("window", OutOfRange, "%d is not a unit", w.Unit)
	}
	if w.N == 0 || w.N > most {
		return invalid("window", OutOfRange, "%d is not a length from 1 to %d; windows of minutes "+
			"and hours end at midnight, longer ones are counted in days", w.N, most)
	}
	if w.Zone == "" || len(w.Zone) > MaxZoneBytes || w.Zone == "Local" {
		return invalid("window", OutOfRange, "%q is not the name of a zone; write one as "+
			"Europe/Berlin, or UTC", clip(w.Zone))
	}
	for _, c := range []byte(w.Zone) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == '/' || c == '_' || c == '-' || c == '+' || c == ':') {
			return invalid("window", OutOfRange, "%q is not the name of a zone", clip(w.Zone))
		}
	}
	return nil
}

// ByCap reports whether groups have a time: a bucket or a window of cap.
func (g GroupBy) ByCap() bool { return g.CapBucketNs > 0 || g.Window != Window{} }

// BySeries groups by what tells the series of a normalized box apart.
func (g GroupBy) BySeries(x *Box) GroupBy {
	g.CID, g.MID, g.MOID = !x.Pins(CID), !x.Pins(MID), !x.Pins(MOID)
	return g
}

func (g GroupBy) validate(x *Box) error {
	if g.Key != "" {
		_, err := registry.ParseKeys(g.Key)
		switch {
		case err != nil:
			return invalid("group by", OutOfRange, "%v", err)
		case !x.Pins(CID):
			return invalid("group by", Inconsistent, "%s is of the devices of a tenant; choose "+
				"one by cid", g.Key)
		}
	}
	switch {
	case g.CapBucketNs < 0:
		return invalid("cap bucket", OutOfRange, "%d ns is negative", g.CapBucketNs)
	case g.CapBucketNs > 0 && g.Window != Window{}:
		return invalid("window", Inconsistent, "replaces a cap bucket; give one of them")
	}
	return g.Window.Validate()
}
