package csvimport

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/internal/timeparse"
)

// source is where a text comes from: a cell of the line, the header of the value's column, or
// something that is fixed for the whole file.
type source struct {
	column int
	label  bool
	fixed  []byte
}

func newSource(reference string, h *header, fieldCount int, fileName string) (source, error) {
	if _, named := h.index[reference]; !named && strings.HasPrefix(reference, "@") {
		return newSpecialSource(reference, h, fileName)
	}
	column, err := h.column(reference, fieldCount)
	return source{column: column}, err
}

func newSpecialSource(reference string, h *header, fileName string) (source, error) {
	cell, isHeader := strings.CutPrefix(reference, "@header ")
	switch {
	case reference == "@label":
		if len(h.names) == 0 {
			return source{}, fmt.Errorf("column @label: there is no header line")
		}
		return source{label: true}, nil
	case reference == "@file":
		return source{fixed: []byte(fileName)}, nil
	case isHeader:
		n, err := strconv.Atoi(cell)
		if err != nil || n < 1 || n > len(h.names) {
			return source{}, fmt.Errorf("column %q: the header has cells 1 to %d", reference,
				len(h.names))
		}
		return source{fixed: []byte(h.names[n-1])}, nil
	}
	return source{}, fmt.Errorf("column %q is unknown; there are @label, @header N and @file",
		reference)
}

// text returns the text, without spaces around it; it is valid as long as the fields are.
func (s *source) text(fields [][]byte, label string) []byte {
	switch {
	case s.label:
		return []byte(label)
	case s.fixed != nil:
		return s.fixed
	}
	return bytes.TrimSpace(fields[s.column])
}

// capPlan makes the capture time.
type capPlan struct {
	constant *int64 // nil: there are sources
	sources  []source
	layout   *timeparse.Layout
	zone     zonePlan
	fold     string
	joined   []byte              // reused
	epoch    string              // the first time that is ns, and looks like another unit
	usual    []*timeparse.Layout // for errors, if the mapping could declare a format and does not
}

// labelled reports whether the time depends on the value's column.
func (c *capPlan) labelled() bool {
	for i := range c.sources {
		if c.sources[i].label {
			return true
		}
	}
	return c.zone.source.labelled()
}

// example is the format of the time that could not be read, or the flags that declare it if it is
// not a usual one.
func (c *capPlan) example(err error) string {
	for _, layout := range c.usual {
		if _, err := layout.Parse(c.joined); err == nil {
			return fmt.Sprintf(", e.g. format: %q, zone: Europe/Berlin (--time-format %q --zone "+
				"Europe/Berlin)", layout, layout)
		}
	}
	if errors.Is(err, timeparse.ErrNeedsFormat) {
		return " (--time-format, --zone)"
	}
	return ""
}

// usualLayouts are time formats of many files.
func usualLayouts() (layouts []*timeparse.Layout) {
	for _, format := range []string{"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M",
		"%Y-%m-%dT%H:%M", "%Y-%m-%d", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y",
		"%Y %m %d %H:%M", "%Y %m %d %H", "%Y %m %d", "%Y-%m-%d %H"} {
		layout, err := timeparse.Compile(format)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		layouts = append(layouts, layout)
	}
	return layouts
}

// value returns the moment, and whether its local time occurs twice.
//
// first and both-as-versions take the earlier of the two moments, second the later one. A local
// time that clocks never showed is a problem, whatever the rule.
func (c *capPlan) value(fields [][]byte, label string) (ns int64, folded bool, bad *problem) {
	if c.constant != nil {
		return *c.constant, false, nil
	}
	c.joined = c.joined[:0]
	for i := range c.sources {
		if i > 0 {
			c.joined = append(c.joined, ' ')
		}
		c.joined = append(c.joined, c.sources[i].text(fields, label)...)
	}
	if len(bytes.TrimSpace(c.joined)) == 0 {
		return 0, false, &problem{"time", "the time is empty"}
	}
	wall, err := c.layout.Parse(c.joined)
	if err != nil {
		return 0, false, &problem{"time", err.Error() + c.example(err)}
	}
	if c.usual != nil && c.epoch == "" && timeparse.CheckUnit(string(c.joined)) != nil {
		c.epoch = string(c.joined)
	}
	if wall == math.MaxInt64 {
		return 0, false, &problem{"time", "time is the reserved maximum"}
	}
	if c.layout.Absolute() {
		return wall, false, nil
	}
	zone, bad := c.zone.of(fields, label)
	if bad != nil {
		return 0, false, bad
	}
	first, second, count := zone.Moments(wall)
	switch {
	case count == 0:
		return 0, false, &problem{"time", fmt.Sprintf("local time %q does not exist in %s: clocks "+
			"are set forward over it", clip(c.joined), zone)}
	case count > 1 && c.fold == FoldSecond:
		return second, true, nil
	}
	return first, count > 1, nil
}
