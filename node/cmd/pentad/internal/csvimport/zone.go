package csvimport

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/excerpt"
)

// Zone is the zone of times that have no offset from UTC: one for all rows by its name, or that of
// each row by the text of a column or of several, which a map or a join may replace.
type Zone struct {
	Name    string   `yaml:"-"`
	Column  string   `yaml:"column"`
	Columns []string `yaml:"columns"` // joined to one name
	Map     texts    `yaml:"map"`
	Join    *Join    `yaml:"join"`
}

// IsSet reports whether the mapping names a zone.
func (z *Zone) IsSet() bool { return z.Name != "" || z.perRow() }

// perRow reports whether each row has a zone of its own.
func (z *Zone) perRow() bool {
	return z.Column != "" || z.Columns != nil || z.Map != nil || z.Join != nil
}

func (z *Zone) references() []string { return references(z.Column, z.Columns) }

// MarshalJSON writes one zone for all rows as its name: the identity of an import has it so.
func (z Zone) MarshalJSON() ([]byte, error) {
	if !z.perRow() {
		return json.Marshal(z.Name)
	}
	type plain Zone
	return json.Marshal(plain(z))
}

// UnmarshalYAML takes a name, or the keys of a zone per row.
func (z *Zone) UnmarshalYAML(node ast.Node) error {
	if _, isMap := node.(ast.MapNode); !isMap {
		return yaml.NodeToValue(node, &z.Name)
	}
	type plain Zone
	return yaml.NodeToValue(node, (*plain)(z), yaml.Strict())
}

func (z *Zone) check() error {
	if !z.perRow() {
		_, err := timeparse.LoadZone(z.Name)
		return err
	}
	switch {
	case (z.Column == "") == (len(z.Columns) == 0):
		return errors.New("zone: give either column or columns")
	case z.Map != nil && z.Join != nil:
		return errors.New("zone: give either map or join")
	case len(z.Columns) > 1 && z.Map == nil && z.Join == nil:
		return errors.New("zone: several columns need a map or a join, which has the zone")
	}
	if z.Join != nil {
		if err := z.Join.check(); err != nil {
			return fmt.Errorf("zone: %w", err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(z.Map)) {
		if _, err := loadZone(z.Map[key]); err != nil {
			return fmt.Errorf("zone: map: %q: %w", key, err)
		}
	}
	return nil
}

// maxRowZones bounds the texts that a plan remembers the zones of: the series of a large file.
const maxRowZones = 20_000

// rowZone is what the text of a row means.
type rowZone struct {
	zone   *timeparse.Zone
	reason string // why there is none
}

// zonePlan finds the zone of a row.
type zonePlan struct {
	zone   *Zone
	fixed  *timeparse.Zone // of all rows; nil: each has its own
	source nameSource
	join   map[string]string
	known  map[string]rowZone
	named  map[string]*timeparse.Zone
}

func newZonePlan(im *Importer, h *header, fieldCount int, fileName string) (zonePlan, error) {
	z := &im.mapping.Cap.Zone
	p := zonePlan{zone: z, known: map[string]rowZone{},
		named: map[string]*timeparse.Zone{}}
	var err error
	if !z.perRow() {
		p.fixed, err = timeparse.LoadZone(z.Name)
		return p, err
	}
	p.join = z.Map
	if z.Join != nil {
		p.join = im.joins[z.Join]
	}
	p.source, err = newNameSource(z.references(), h, fieldCount, fileName)
	if err != nil {
		err = fmt.Errorf("zone: %w", err)
	}
	return p, err
}

// of returns the zone of a row.
func (p *zonePlan) of(fields [][]byte, label string) (*timeparse.Zone, *problem) {
	if p.fixed != nil {
		return p.fixed, nil
	}
	text, missing := p.source.text(fields, label)
	if missing == "" && len(text) == 0 {
		missing = p.source.references[0]
	}
	if missing != "" {
		return nil, &problem{"time", fmt.Sprintf("zone: column %q is empty", missing)}
	}
	known, ok := p.known[string(text)]
	if !ok {
		known = p.find(text)
		if len(p.known) < maxRowZones {
			p.known[string(text)] = known
		}
	}
	if known.reason != "" {
		return nil, &problem{"time", known.reason}
	}
	return known.zone, nil
}

// find looks for the zone of a text, which takes long if there is none.
func (p *zonePlan) find(text []byte) (found rowZone) {
	name := string(text)
	if p.join != nil {
		var ok bool
		if name, ok = p.join[name]; !ok {
			return rowZone{reason: p.unknown(text)}
		}
	}
	if known, ok := p.named[name]; ok { // its clock changes take kilobytes
		return rowZone{zone: known}
	}
	zone, err := loadZone(name)
	if err != nil {
		return rowZone{reason: err.Error()}
	}
	if len(p.named) < maxRowZones {
		p.named[name] = zone
	}
	return rowZone{zone: zone}
}

// unknown says that a map or a join has no zone for a text.
func (p *zonePlan) unknown(text []byte) string {
	if p.zone.Join != nil {
		return fmt.Sprintf("zone: %q is not in %s", clip(text), p.zone.Join.File)
	}
	return fmt.Sprintf("zone: %q is not in the map%s", clip(text),
		excerpt.DidYouMean(string(text), slices.Sorted(maps.Keys(p.join))))
}

// loadZone is the zone of a text in a file.
func loadZone(text string) (*timeparse.Zone, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("the zone is empty")
	}
	return timeparse.LoadZone(text)
}
