package timeparse

import (
	"cmp"
	_ "embed" // of the names of zones
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// Zone turns wall-clock times of one place into moments. It remembers the last period without a
// clock change, so it is cheap for sorted times and not safe for concurrent use.
type Zone struct {
	name string
	loc  *time.Location

	// The period [fromNs, toNs) with one offset from UTC that was used last.
	fromNs, toNs, offsetNs int64
}

// maxOffsetNs is more than any offset from UTC that a zone has had, and less than the distance
// from the first and last year that a Layout accepts to the ends of int64.
const maxOffsetNs = int64(26 * time.Hour)

// LoadZone returns a zone by what [ZoneName] reads: an IANA name, "UTC", or a fixed offset such as
// "+08:00" or "-8"; "" is UTC.
func LoadZone(name string) (*Zone, error) {
	if name = ZoneName(name); name == "" {
		name = "UTC"
	}
	loc, err := Location(name)
	if err != nil {
		return nil, err
	}
	return &Zone{name: name, loc: loc}, nil
}

// Location returns a place by its IANA name, by "UTC", or by a fixed offset such as "+08:00". The
// error of an unknown one quotes it, and names those that are near.
func Location(name string) (*time.Location, error) {
	if t, err := time.Parse("-07:00", name); err == nil {
		_, seconds := t.Zone()
		return time.FixedZone(name, seconds), nil
	}
	if strings.EqualFold(name, "Local") {
		return nil, fmt.Errorf("zone %q differs between machines; write its name, e.g. "+
			"Europe/Berlin", name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil || name == "" {
		return nil, fmt.Errorf("unknown time zone %.80q%s", name, cmp.Or(nearZone(name),
			"; write an IANA name (Europe/Berlin), UTC or an offset (+08:00)"))
	}
	return loc, nil
}

// ZoneName returns the name by which [Location] knows the zone that a text means. Offsets may be
// written as people do: -8, +5:30, +0530 and UTC-8, and whole hours without a sign; Z is UTC. Any
// other text is returned as it is.
func ZoneName(text string) string {
	const mostHours = 18 // of the offsets that RFC 3339 and the IANA database have
	if text == "Z" || strings.EqualFold(text, "UTC") {
		return "UTC"
	}
	digits, utc := strings.CutPrefix(text, "UTC")
	sign := "+"
	if signed := digits != "" && (digits[0] == '-' || digits[0] == '+'); signed {
		sign, digits = digits[:1], digits[1:]
	} else if utc || len(digits) > 2 {
		return text
	}
	hours, minutes, hasMinutes := strings.Cut(digits, ":")
	if !hasMinutes && len(digits) == 4 {
		hours, minutes, hasMinutes = digits[:2], digits[2:], true
	}
	if !hasMinutes {
		minutes = "00"
	}
	h, errHours := strconv.ParseUint(hours, 10, 8)
	m, errMinutes := strconv.ParseUint(minutes, 10, 8)
	if errHours != nil || errMinutes != nil || len(hours) > 2 || len(minutes) != 2 ||
		h > mostHours || m >= 60 {
		return text
	}
	return fmt.Sprintf("%s%02d:%02d", sign, h, m)
}

// zoneNames are the names of the IANA database, one a line, for suggestions only.
//
//go:embed zones.txt
var zoneNames string

// ZoneNames returns the names of zones in order.
func ZoneNames() []string { return strings.Fields(zoneNames) }

// nearZone says which zone an unknown name may mean: that of an abbreviation, of a city, or one of
// similar spelling. GMT-8 is -08:00 to most people and +08:00 to POSIX, so it is not read.
func nearZone(name string) string {
	if hint := abbreviated(name); hint != "" {
		return hint
	}
	if offset, ok := strings.CutPrefix(name, "GMT"); ok && ZoneName(offset) != offset {
		return "; write the offset alone: " + ZoneName(offset)
	}
	names := ZoneNames()
	city := "/" + strings.ReplaceAll(strings.ToLower(name), " ", "_")
	for _, zone := range names {
		if strings.EqualFold(zone, name) ||
			strings.HasSuffix(strings.ToLower(zone), city) && name != "" {
			return "; did you mean " + zone + "?"
		}
	}
	return excerpt.DidYouMean(name, names)
}

// String returns the name that the zone was loaded by.
func (z *Zone) String() string { return z.name }

// Moments returns how many moments show wallNs on the clocks of the zone, and the first and the
// second of them: 0 in the hour that a spring change leaves out, 2 in the hour that an autumn
// change repeats. wallNs is the wall clock read as if it were UTC, as [Layout.Parse] returns it.
func (z *Zone) Moments(wallNs int64) (first, second int64, count int) {
	if z.fromNs < z.toNs && wallNs-maxOffsetNs >= z.fromNs && wallNs+maxOffsetNs < z.toNs {
		return wallNs - z.offsetNs, 0, 1
	}
	for at := wallNs - maxOffsetNs; at <= wallNs+maxOffsetNs; {
		fromNs, toNs, offsetNs := z.offsetPeriod(at)
		if moment := wallNs - offsetNs; fromNs <= moment && moment < toNs {
			if count == 0 {
				first = moment
			} else if count == 1 {
				second = moment
			}
			count++
		}
		if at = toNs; toNs == math.MaxInt64 {
			break
		}
	}
	z.fromNs, z.toNs, z.offsetNs = z.offsetPeriod(wallNs)
	return first, second, count
}

// offsetPeriod returns the period around a moment in which the offset does not change.
func (z *Zone) offsetPeriod(atNs int64) (fromNs, toNs, offsetNs int64) {
	t := time.Unix(0, atNs).In(z.loc)
	_, seconds := t.Zone()
	from, to := t.ZoneBounds()
	fromNs, toNs = math.MinInt64, math.MaxInt64
	if !from.IsZero() && from.Year() >= minYear {
		fromNs = from.UnixNano()
	}
	if !to.IsZero() && to.Year() <= maxYear {
		toNs = to.UnixNano()
	}
	return fromNs, toNs, int64(seconds) * int64(time.Second)
}
