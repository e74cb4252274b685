package timeparse

import (
	"fmt"
	"strings"
	"time"
)

// place is a zone whose clocks show an abbreviation, and the offset that it stands for.
type place struct{ zone, offset string }

// abbreviations are those that people write in place of a zone and that are not names of zones, as
// EST and CET are. The place that most people mean is the first.
var abbreviations = map[string][]place{
	"PST":  {{"America/Los_Angeles", "-08:00"}},
	"PDT":  {{"America/Los_Angeles", "-07:00"}},
	"MDT":  {{"America/Denver", "-06:00"}},
	"CST":  {{"America/Chicago", "-06:00"}, {"Asia/Shanghai", "+08:00"}},
	"CDT":  {{"America/Chicago", "-05:00"}},
	"EDT":  {{"America/New_York", "-04:00"}},
	"AST":  {{"America/Halifax", "-04:00"}, {"Asia/Riyadh", "+03:00"}},
	"ADT":  {{"America/Halifax", "-03:00"}},
	"NST":  {{"America/St_Johns", "-03:30"}},
	"NDT":  {{"America/St_Johns", "-02:30"}},
	"AKST": {{"America/Anchorage", "-09:00"}},
	"AKDT": {{"America/Anchorage", "-08:00"}},
	"BRT":  {{"America/Sao_Paulo", "-03:00"}},
	"ART":  {{"America/Argentina/Buenos_Aires", "-03:00"}},
	"BST":  {{"Europe/London", "+01:00"}, {"Asia/Dhaka", "+06:00"}},
	"WEST": {{"Europe/Lisbon", "+01:00"}},
	"CEST": {{"Europe/Berlin", "+02:00"}},
	"MEZ":  {{"Europe/Berlin", "+01:00"}},
	"MESZ": {{"Europe/Berlin", "+02:00"}},
	"EEST": {{"Europe/Helsinki", "+03:00"}},
	"MSK":  {{"Europe/Moscow", "+03:00"}},
	"TRT":  {{"Europe/Istanbul", "+03:00"}},
	"WAT":  {{"Africa/Lagos", "+01:00"}},
	"CAT":  {{"Africa/Maputo", "+02:00"}},
	"SAST": {{"Africa/Johannesburg", "+02:00"}},
	"EAT":  {{"Africa/Nairobi", "+03:00"}},
	"IST": {{"Asia/Kolkata", "+05:30"}, {"Europe/Dublin", "+01:00"},
		{"Asia/Jerusalem", "+02:00"}},
	"IDT":  {{"Asia/Jerusalem", "+03:00"}},
	"GST":  {{"Asia/Dubai", "+04:00"}},
	"PKT":  {{"Asia/Karachi", "+05:00"}},
	"NPT":  {{"Asia/Kathmandu", "+05:45"}},
	"ICT":  {{"Asia/Bangkok", "+07:00"}},
	"WIB":  {{"Asia/Jakarta", "+07:00"}},
	"SGT":  {{"Asia/Singapore", "+08:00"}},
	"HKT":  {{"Asia/Hong_Kong", "+08:00"}},
	"PHT":  {{"Asia/Manila", "+08:00"}},
	"JST":  {{"Asia/Tokyo", "+09:00"}},
	"KST":  {{"Asia/Seoul", "+09:00"}},
	"AWST": {{"Australia/Perth", "+08:00"}},
	"ACST": {{"Australia/Adelaide", "+09:30"}, {"Australia/Darwin", "+09:30"}},
	"ACDT": {{"Australia/Adelaide", "+10:30"}},
	"AEST": {{"Australia/Sydney", "+10:00"}, {"Australia/Brisbane", "+10:00"}},
	"AEDT": {{"Australia/Sydney", "+11:00"}},
	"NZST": {{"Pacific/Auckland", "+12:00"}},
	"NZDT": {{"Pacific/Auckland", "+13:00"}},
}

// abbreviated says what to write in place of an abbreviation, "" if the name is none.
func abbreviated(name string) string {
	places := abbreviations[strings.ToUpper(name)]
	if len(places) == 0 {
		return ""
	}
	first := places[0]
	if len(places) == 1 && !changesClocks(first.zone) {
		return fmt.Sprintf(": an abbreviation; use %s or %s", first.zone, first.offset)
	}
	if len(places) == 1 {
		return fmt.Sprintf(": an abbreviation, used for a part of the year; use %s, whose "+
			"offset changes, or %s for the whole year", first.zone, first.offset)
	}
	named := make([]string, len(places))
	for i, p := range places {
		named[i] = fmt.Sprintf("%s (%s)", p.zone, p.offset)
	}
	last := len(named) - 1
	return fmt.Sprintf(": an abbreviation that several zones share; use %s or %s, or an offset "+
		"for the whole year", strings.Join(named[:last], ", "), named[last])
}

// changesClocks reports whether the clocks of a zone are set forward in summer.
func changesClocks(zone string) bool {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return false
	}
	const year = 2026 // any of today's rules
	_, january := time.Date(year, time.January, 1, 0, 0, 0, 0, loc).Zone()
	_, july := time.Date(year, time.July, 1, 0, 0, 0, 0, loc).Zone()
	return january != july
}
