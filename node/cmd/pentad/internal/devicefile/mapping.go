// Package devicefile reads and writes files of devices: separated values and JSON by a mapping, and
// GeoJSON.
//
// It owns the mapping, which makes changes of descriptions of rows, and the forms of files. Package
// csvimport reads lines and rejects them with their numbers. It knows nothing of flags, terminals
// or the network: changes leave through a function that its caller hands in. It starts no
// goroutines.
package devicefile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Mapping declares how rows become changes of descriptions: each text is a template with {COLUMN}
// for the text of a column. What it does not name stays as it was, and what is empty in a row is
// removed. The zero value takes columns, or members of JSON, by their names: name, type, group,
// lat, lon, alt, metadata, retired and from; all others are attributes.
type Mapping struct {
	Name     string `yaml:"name"`
	Type     string `yaml:"type"`
	Group    string `yaml:"group"`
	Place    string `yaml:"place"` // latitude,longitude[,altitude]
	Metadata string `yaml:"metadata"`
	Retired  string `yaml:"retired"` // true or false
	From     string `yaml:"from"`    // when it holds from
	// Attributes are by key; a text that spells a number or a boolean is one, unless it is in
	// double quotes.
	Attributes map[string]string `yaml:"attributes"`

	TimeFormat string `yaml:"time_format"` // of From, by timeparse.Compile; default: the usual ones
	Zone       string `yaml:"zone"`        // of times without an offset; default: UTC

	// The form of the lines, as in a csvimport.Mapping.
	Separator    string   `yaml:"separator"`
	NoQuotes     bool     `yaml:"no_quotes"`
	NoHeader     bool     `yaml:"no_header"`
	SkipLines    int      `yaml:"skip_lines"`
	ExpectFields int      `yaml:"expect_fields"`
	Skip         []string `yaml:"skip"`
	Decimal      string   `yaml:"decimal"`
}

// LoadMapping reads a mapping file. Errors name the line.
func LoadMapping(path string) (*Mapping, error) {
	m := &Mapping{}
	return m, csvimport.LoadYAML(path, m)
}

// byNames reports whether the mapping takes columns by their names.
func (m *Mapping) byNames() bool {
	return m.Name == "" && m.Type == "" && m.Group == "" && m.Place == "" && m.Metadata == "" &&
		m.Retired == "" && m.From == "" && m.Attributes == nil
}

// namesOf makes a mapping of a header. It returns the columns that are no keys of attributes.
func (m *Mapping) namesOf(header []string) (left []string, err error) {
	var place [3]string
	to := map[string]*string{"name": &m.Name, "type": &m.Type, "group": &m.Group,
		"metadata": &m.Metadata, "retired": &m.Retired, "from": &m.From,
		"lat": &place[0], "latitude": &place[0], "lon": &place[1], "longitude": &place[1],
		"alt": &place[2], "altitude": &place[2]}
	m.Attributes = map[string]string{}
	for _, column := range header {
		key, text := registry.AttributeOf(column), "{"+column+"}"
		switch set := to[column]; {
		case set != nil && *set != "":
			return nil, fmt.Errorf("column %q: another column says the same", column)
		case set != nil:
			*set = text
		case registry.CheckKey(key) != nil:
			left = append(left, column)
		default:
			m.Attributes[key] = text
		}
	}
	switch {
	case (place[0] == "") != (place[1] == ""):
		return nil, errors.New("a place needs the columns lat and lon")
	case place[0] != "":
		m.Place = place[0] + "," + place[1]
		if place[2] != "" {
			m.Place += "," + place[2]
		}
	}
	if m.Name == "" {
		return nil, fmt.Errorf("there is no column %q; name that of the devices with a template, "+
			"e.g. --name '{%s}'", "name", header[0])
	}
	return left, nil
}

// plan is a mapping whose templates were read.
type plan struct {
	columns []string // that it asks for

	name, kind, group, metadata, retired, from *template // nil: not named
	place                                      []*template
	keys                                       []string
	attributes                                 []*template

	decimal string
	times   times
}

func (m *Mapping) plan(t times) (*plan, error) {
	p := &plan{decimal: m.Decimal, times: t}
	for _, x := range []struct {
		what, text string
		to         **template
	}{{"name", m.Name, &p.name}, {"type", m.Type, &p.kind}, {"group", m.Group, &p.group},
		{"metadata", m.Metadata, &p.metadata}, {"retired", m.Retired, &p.retired},
		{"from", m.From, &p.from}} {
		if x.text == "" {
			continue
		}
		var err error
		if *x.to, err = p.parse(x.text); err != nil {
			return nil, fmt.Errorf("%s: %w", x.what, err)
		}
	}
	if p.name == nil || len(p.name.columns) == 0 {
		return nil, errors.New("name: missing; write a template with a column, e.g. " +
			"--name 'oulu/{id}'")
	}
	for _, key := range slices.Sorted(maps.Keys(m.Attributes)) {
		if err := registry.CheckKey(key); err != nil {
			return nil, err
		}
		t, err := p.parse(m.Attributes[key])
		if err != nil {
			return nil, fmt.Errorf("attributes: %s: %w", key, err)
		}
		p.keys, p.attributes = append(p.keys, key), append(p.attributes, t)
	}
	return p, p.planPlace(m.Place)
}

// planPlace reads the templates of a place, which commas divide.
func (p *plan) planPlace(text string) error {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		t, err := p.parse(part)
		if err != nil {
			return fmt.Errorf("place: %w", err)
		}
		p.place = append(p.place, t)
	}
	if n := len(p.place); n != 2 && n != 3 {
		return fmt.Errorf("place %q: write latitude,longitude or latitude,longitude,altitude, "+
			"e.g. '{lat},{lon}'", text)
	}
	return nil
}

// times reads the times from which descriptions hold.
type times struct {
	layout *timeparse.Layout // nil: the usual forms
	zone   *timeparse.Zone
	now    time.Time // when the import began, in the zone
	// defaultNs is the time of rows that have none.
	defaultNs int64
}
