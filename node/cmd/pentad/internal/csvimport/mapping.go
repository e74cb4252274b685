package csvimport

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/timeparse"
)

// Mapping declares how lines become records. Its YAML form has the same names in lower case;
// keys that it does not know are errors.
type Mapping struct {
	Separator    string   `yaml:"separator"`     // one ASCII character or "tab"; default ","
	NoQuotes     bool     `yaml:"no_quotes"`     // quotes are text; default: those of RFC 4180
	NoHeader     bool     `yaml:"no_header"`     // the first line is data
	SkipLines    int      `yaml:"skip_lines"`    // lines before the header (or the data)
	ExpectFields int      `yaml:"expect_fields"` // default: as many as the first line has
	Skip         []string `yaml:"skip"`          // cells that are no values; default: empty ones
	Type         string   `yaml:"type"`          // f64 (default), i64 or text
	Decimal      string   `yaml:"decimal"`       // "," reads 1,5 as 1.5; default "."
	Thousands    string   `yaml:"thousands"`     // "." reads 1.234,5 as 1234.5; default: none

	CID    *Part   `yaml:"cid"`
	MID    *Part   `yaml:"mid"`
	MOID   *Part   `yaml:"moid"` // default of values without their own
	Cap    *Cap    `yaml:"cap"`
	Values []Value `yaml:"values"`

	// Deleted is a column of true and false, or nothing for false: true deletes the readings of the
	// line, whose values must be empty.
	Deleted string `yaml:"deleted"`

	// Columns returns the values of a file by its header, in place of Values.
	Columns func(header []string) ([]Value, error) `yaml:"-" json:"-"`

	untyped bool // Type is the default
	places  places

	// Own is a file that pentad wrote: cells may be hex or base64 too, and the column Deleted may
	// be missing.
	Own bool `yaml:"-"`
}

// Part makes one whole number of the key: a constant, or the text of a column, which may be
// replaced through a join and then given an id by a lookup. The texts of several columns are joined
// to one name, as [AppendNamePart] says.
//
// A column is a name of the header or a number from 1 (the name wins), "@label": the header of
// the value's own column, "@header N": cell N of the header line, or "@file": the file's name.
type Part struct {
	Constant *int64 `yaml:"constant"`
	Column   string `yaml:"column"`
	Join     *Join  `yaml:"join"`
	Lookup   string `yaml:"lookup"` // name of a table in the lookup file

	Columns []string `yaml:"columns" json:",omitempty"`
	// Types are those of the values of a moid, by the name that it is the id of.
	Types texts `yaml:"types" json:",omitempty"`
}

func (p *Part) references() []string { return references(p.Column, p.Columns) }

func references(column string, columns []string) []string {
	if column != "" {
		return []string{column}
	}
	return columns
}

// Cap makes the capture time: the texts of the columns, joined by one space, read by a format in
// a zone.
type Cap struct {
	Columns []string `yaml:"columns"`
	Format  string   `yaml:"format"` // of timeparse.Compile
	Zone    Zone     `yaml:"zone"`   // needed unless the format names the offset
	Fold    string   `yaml:"fold"`   // first (default), second, both-as-versions

	// Constant is that of all records, in place of columns.
	Constant *int64 `yaml:"-" json:",omitempty"`
}

// Value is a column of values, or with Columns a range of them (2..=25).
type Value struct {
	Column  string `yaml:"column"`
	Columns string `yaml:"columns"`
	MOID    *int64 `yaml:"moid"`
	Type    string `yaml:"type"`
	// Field is that of a reading of several values, by [Options]; default: the one that the header
	// names.
	Field string `yaml:"field" json:",omitempty"`

	// ByMOID is a type that each line takes from the quantity of its moid, by [Options].
	ByMOID bool `yaml:"-" json:",omitempty"`

	assumed bool // the mapping has no type for it
}

// Fold rules, for local times that occur twice when clocks are set back.
const (
	FoldFirst  = "first"
	FoldSecond = "second"
	FoldBoth   = "both-as-versions"
)

// maxMappingBytes bounds a mapping file: it is written by hand.
const maxMappingBytes = 1 << 20

// LoadMapping reads a mapping file. Errors name the line.
func LoadMapping(path string) (*Mapping, error) {
	m := &Mapping{}
	p, err := loadYAML(path, m)
	if err != nil {
		return nil, err
	}
	m.places = p
	m.places.file = path
	return m, nil
}

// LoadYAML reads a mapping file of another kind: into is a pointer to a struct with yaml tags.
// Errors name the line.
func LoadYAML(path string, into any) error {
	_, err := loadYAML(path, into)
	return err
}

func loadYAML(path string, into any) (p places, err error) {
	f, err := os.Open(path)
	if err != nil {
		return p, fmt.Errorf("read mapping: %w", err)
	}
	defer f.Close()
	source, err := io.ReadAll(io.LimitReader(f, maxMappingBytes+1))
	if err != nil {
		return p, fmt.Errorf("read mapping: %w", err)
	}
	if len(source) > maxMappingBytes {
		return p, fmt.Errorf("mapping %s has more than %d bytes", path, maxMappingBytes)
	}
	p, err = parseYAML(source, into)
	if place := (*placeError)(nil); errors.As(err, &place) {
		place.file = path
		return p, place
	}
	if err != nil {
		return p, fmt.Errorf("mapping %s: %w", path, err)
	}
	return p, nil
}

// ParseMapping reads the YAML form of a mapping; it does not check that the mapping is complete.
func ParseMapping(source []byte) (*Mapping, error) {
	m := &Mapping{}
	var err error
	if m.places, err = parseYAML(source, m); err != nil {
		return nil, err
	}
	return m, nil
}

// parseYAML reads a mapping into a struct, and notes the lines of its parts.
func parseYAML(source []byte, into any) (p places, err error) {
	if p, err = readPlaces(source, reflect.TypeOf(into).Elem()); err != nil {
		return p, err
	}
	if err := yaml.UnmarshalWithOptions(source, into, yaml.Strict()); err != nil {
		return p, plainError(err)
	}
	return p, nil
}

// plainError turns the library's report, "[3:1] unknown field "x"" and an excerpt, into one line.
func plainError(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if rest, ok := strings.CutPrefix(text, "["); ok {
		if at, message, ok := strings.Cut(rest, "] "); ok {
			number, _, _ := strings.Cut(at, ":")
			if line, err := strconv.Atoi(number); err == nil {
				return &placeError{line: line, err: errors.New(message)}
			}
		}
	}
	return errors.New(text)
}

// Check fills in defaults and reports what is missing or contradicts itself.
func (m *Mapping) Check() error {
	if err := m.checkForm(); err != nil {
		return err
	}
	if err := m.checkCap(); err != nil {
		return err
	}
	for _, p := range []struct {
		name string
		part *Part
	}{{"cid", m.CID}, {"mid", m.MID}, {"moid", m.MOID}} {
		if p.part == nil && p.name != "moid" {
			return m.places.missing(fmt.Errorf("%s: missing; give a constant or a column", p.name))
		}
		if p.part != nil {
			err := p.part.check()
			if err == nil {
				err = p.part.checkTypes(p.name)
			}
			if err != nil {
				return m.places.at(p.name, fmt.Errorf("%s: %w", p.name, err))
			}
		}
	}
	if len(m.Values) == 0 && m.Columns == nil {
		return m.places.missing(
			errors.New("values: missing; name at least one column of values"))
	}
	for i := range m.Values {
		if err := m.checkValue(&m.Values[i]); err != nil {
			return m.places.at(fmt.Sprintf("values.%d", i+1), fmt.Errorf("value %d: %w", i+1, err))
		}
	}
	return nil
}

func (m *Mapping) checkForm() error {
	switch {
	case m.Separator == "":
		m.Separator = ","
	case m.Separator == "tab" || m.Separator == `\t`:
		m.Separator = "\t"
	case len(m.Separator) != 1 || m.Separator[0] >= 0x80 || strings.Contains("\"\r\n", m.Separator):
		return m.places.at("separator",
			fmt.Errorf("separator %q is not one ASCII character", m.Separator))
	}
	if m.SkipLines < 0 || m.ExpectFields < 0 {
		return errors.New("skip_lines and expect_fields must not be negative")
	}
	if m.Skip == nil {
		m.Skip = []string{""}
	}
	if m.Type == "" {
		m.Type, m.untyped = "f64", true
	}
	switch m.Decimal {
	case "":
		m.Decimal = "."
	case ".", ",":
	default:
		return m.places.at("decimal",
			fmt.Errorf("decimal %q: write \".\" or \",\"", m.Decimal))
	}
	return m.checkThousands()
}

func (m *Mapping) checkThousands() error {
	switch m.Thousands {
	case "", ".", ",", " ", "'":
	default:
		return m.places.at("thousands", fmt.Errorf("thousands %q: write \".\", \",\", \" \" or "+
			"\"'\"", m.Thousands))
	}
	if m.Thousands == m.Decimal {
		return m.places.at("thousands",
			fmt.Errorf("thousands %q: the decimal separator is the same", m.Thousands))
	}
	return nil
}

func (m *Mapping) checkCap() error {
	if m.Cap != nil && m.Cap.Constant != nil {
		return nil
	}
	if m.Cap == nil || len(m.Cap.Columns) == 0 {
		return m.places.missing(
			errors.New("cap: missing; name the columns of the time, e.g. " +
				"cap: {columns: [date, hour]} or --cap column=date+hour"))
	}
	layout, err := timeparse.Compile(m.Cap.Format)
	if err != nil {
		return m.places.at("cap.format", fmt.Errorf("cap: %w", err))
	}
	switch {
	case !layout.Absolute() && !m.Cap.Zone.IsSet():
		return m.places.at("cap", fmt.Errorf("cap: times like %q have no UTC offset; set the "+
			"zone, e.g. Europe/Berlin, +08:00 or UTC", m.Cap.Format))
	case layout.Absolute() && m.Cap.Zone.IsSet():
		return m.places.at("cap.zone", errors.New("cap: the format has a UTC offset; leave out "+
			"the zone, or use a format without an offset"))
	}
	if err := m.Cap.Zone.check(); err != nil {
		return m.places.at("cap.zone", fmt.Errorf("cap: %w", err))
	}
	switch m.Cap.Fold {
	case "":
		m.Cap.Fold = FoldFirst
	case FoldFirst, FoldSecond, FoldBoth:
	default:
		return m.places.at("cap.fold", fmt.Errorf("cap: fold %q is unknown; use first, second or "+
			"both-as-versions", m.Cap.Fold))
	}
	return nil
}

func (p *Part) check() error {
	switch {
	case p.Column != "" && len(p.Columns) > 0:
		return errors.New("give either column or columns")
	case (p.Constant == nil) == (len(p.references()) == 0):
		return errors.New("give either a constant or a column")
	case len(p.Columns) > 1 && p.Lookup == "" && p.Join == nil:
		return errors.New("several columns make a name; add a lookup, which gives it an id")
	case p.Constant != nil && (p.Join != nil || p.Lookup != ""):
		return errors.New("a constant needs neither join nor lookup")
	case p.Join != nil:
		return p.Join.check()
	}
	return nil
}

func (m *Mapping) checkValue(v *Value) error {
	switch {
	case (v.Column == "") == (v.Columns == ""):
		return errors.New("give either column or columns")
	case v.MOID == nil && m.MOID == nil:
		return errors.New("moid: missing; set it for the value or for the mapping")
	}
	if v.Type == "" {
		v.Type, v.assumed = m.Type, m.untyped
	}
	kind, err := output.ParsePayloadType(v.Type)
	if err != nil {
		return err
	}
	if !m.Own && kind.Raw() {
		return fmt.Errorf("type %q: cells are f64, f32, i64, i32, u32 or text", v.Type)
	}
	if v.Columns != "" {
		_, _, err = parseColumns(v.Columns)
	}
	return err
}

// parseColumns reads a..b or a..=b, counted from 1.
func parseColumns(text string) (from, to int, err error) {
	left, right, ok := strings.Cut(text, "..")
	right, included := strings.CutPrefix(right, "=")
	from, errFrom := strconv.Atoi(left)
	to, errTo := strconv.Atoi(right)
	if included {
		to++
	}
	if !ok || errFrom != nil || errTo != nil || from < 1 || to <= from || to > maxLineBytes {
		return 0, 0, fmt.Errorf("columns %q: malformed; use e.g. 2..=25 (with 25) or 2..26", text)
	}
	return from, to, nil
}

// parts returns the parts that are there.
func (m *Mapping) parts() []*Part {
	var parts []*Part
	for _, p := range []*Part{m.CID, m.MID, m.MOID} {
		if p != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

// joins returns the tables of other files that the mapping names.
func (m *Mapping) joins() []*Join {
	var joins []*Join
	for _, p := range m.parts() {
		if p.Join != nil {
			joins = append(joins, p.Join)
		}
	}
	if m.Cap != nil && m.Cap.Zone.Join != nil {
		joins = append(joins, m.Cap.Zone.Join)
	}
	return joins
}

func (m *Mapping) UsesLookups() bool {
	for _, p := range m.parts() {
		if p.Lookup != "" {
			return true
		}
	}
	return false
}
