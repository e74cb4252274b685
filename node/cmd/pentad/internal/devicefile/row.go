package devicefile

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/registry"
)

// newTimes returns how the times of a mapping are read. Rows without one have defaultNs.
func newTimes(m *Mapping, now time.Time, defaultNs int64) (t times, err error) {
	t.defaultNs = defaultNs
	zone := m.Zone
	if zone == "" {
		zone = "UTC"
	}
	if t.zone, err = timeparse.LoadZone(zone); err != nil {
		return t, fmt.Errorf("zone: %w", err)
	}
	loc, err := timeparse.Location(zone)
	if err != nil {
		return t, fmt.Errorf("zone: %w", err)
	}
	if t.now = now.In(loc); m.TimeFormat == "" {
		return t, nil
	}
	if t.layout, err = timeparse.Compile(m.TimeFormat); err != nil {
		return t, fmt.Errorf("time_format: %w", err)
	}
	return t, nil
}

// read returns the time of a text.
func (t *times) read(text string) (ns int64, err error) {
	if text == "" {
		return t.defaultNs, nil
	}
	if ns, err = t.parse(text); err != nil {
		return 0, fmt.Errorf("from: %w", err)
	}
	if ns > t.now.UnixNano() {
		return 0, fmt.Errorf("from: %s is in the future, and a description holds at once",
			excerpt.Of(text, 60))
	}
	return ns, nil
}

func (t *times) parse(text string) (int64, error) {
	if t.layout == nil {
		span, err := timeparse.ParseDated(text, t.now)
		return span.FromNs, err
	}
	wall, err := t.layout.Parse([]byte(text))
	if err != nil || t.layout.Absolute() {
		return wall, err
	}
	first, _, count := t.zone.Moments(wall)
	switch count {
	case 2:
		return 0, fmt.Errorf("local time %q occurs twice in %s, as clocks are set back: give its "+
			"offset, with %%z in the format, or another time", excerpt.Of(text, 60), t.zone)
	case 0:
		return 0, fmt.Errorf("local time %q does not exist in %s: clocks are set forward over it",
			excerpt.Of(text, 60), t.zone)
	}
	return first, nil
}

// change makes the change of a row of cells, nil for those without a text.
func (p *plan) change(cells [][]byte) (c client.DeviceChange, err error) {
	if c.Name = p.name.name(cells); c.Name == "" {
		return c, errors.New("name: the name is empty")
	}
	from := ""
	if p.from != nil {
		from = p.from.text(cells)
	}
	if c.FromNs, err = p.times.read(from); err != nil {
		return c, err
	}
	for _, x := range []struct {
		t  *template
		to **string
	}{{p.kind, &c.Type}, {p.group, &c.Group}, {p.metadata, &c.Metadata}} {
		if x.t != nil {
			text := x.t.text(cells)
			*x.to = &text
		}
	}
	if p.retired != nil {
		if c.Retired, err = parseRetired(p.retired.text(cells)); err != nil {
			return c, err
		}
	}
	if p.place != nil {
		if c.Place, err = p.placeOf(cells); err != nil {
			return c, err
		}
		c.NoPlace = c.Place == nil
	}
	if len(p.keys) > 0 {
		c.Attributes = make(map[string]registry.Value, len(p.keys))
	}
	for i, key := range p.keys {
		c.Attributes[key] = p.value(p.attributes[i].text(cells))
	}
	return c, check(&c)
}

// check says what is wrong with a change by itself.
func check(c *client.DeviceChange) error {
	if err := registry.CheckName(c.Name); err != nil {
		return err
	}
	return c.Check(c.Name)
}

func parseRetired(text string) (*bool, error) {
	is := false
	switch text {
	case "true":
		is = true
	case "false", "":
	default:
		return nil, fmt.Errorf("retired: %q is neither true nor false", excerpt.Of(text, 60))
	}
	return &is, nil
}

// placeOf returns the place of a row, nil if there is none.
func (p *plan) placeOf(cells [][]byte) (*registry.Place, error) {
	texts := make([]string, len(p.place))
	for i, t := range p.place {
		if texts[i] = t.text(cells); p.decimal == "," {
			texts[i] = strings.Replace(texts[i], ",", ".", 1)
		}
	}
	return ParsePlace(texts)
}

// ParsePlace reads latitude, longitude, and an altitude if there is a third text. Texts that are
// empty are no place, or no altitude.
func ParsePlace(texts []string) (*registry.Place, error) {
	if texts[0] == "" && texts[1] == "" {
		return nil, nil
	}
	var place registry.Place
	place.HasAlt = len(texts) == 3 && texts[2] != ""
	to := []*float64{&place.Lat, &place.Lon, &place.Alt}
	for i, what := range []string{"latitude", "longitude", "altitude"}[:len(texts)] {
		if i == 2 && !place.HasAlt {
			break
		}
		v := registry.ParseValue(texts[i])
		if v.Kind() != registry.KindNumber {
			return nil, fmt.Errorf("place: the %s %q is not a number of %s", what,
				excerpt.Of(texts[i], 60), []string{"degrees", "degrees", "metres"}[i])
		}
		*to[i] = v.Number()
	}
	return &place, nil
}

// value is what a text means as an attribute: none if it is empty.
func (p *plan) value(text string) registry.Value {
	if text == "" {
		return registry.Value{}
	}
	v := registry.ParseValue(text)
	if p.decimal == "," && v.Kind() == registry.KindText {
		number := registry.ParseValue(strings.Replace(text, ",", ".", 1))
		if number.Kind() == registry.KindNumber {
			return number
		}
	}
	return v
}
