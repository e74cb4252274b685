package transfer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
)

// mappingFlags are the names of the flags of a mapping.
func mappingFlags() []string {
	return []string{"mapping", "lookup-file", "rejects", "strict", "cid", "mid", "moid", "cap",
		"value", "deleted", "time-format", "zone", "fold", "separator", "decimal", "thousands",
		"type", "skip", "no-quotes", "no-header", "skip-lines", "expect-fields", "seal",
		"keys"}
}

// build reads the mapping file, if there is one, and lets the flags go before it. Files of columns
// may have times of a clock on the wall, whose format they know themselves.
func (f *importFlags) build(c *cobra.Command, columns bool) (*csvimport.Mapping, error) {
	m := &csvimport.Mapping{}
	if f.mapping != "" {
		loaded, err := csvimport.LoadMapping(f.mapping)
		if err != nil {
			return nil, err
		}
		m = loaded
	}
	given := c.Flags().Changed
	for flag, path := range map[string]string{"separator": "separator", "decimal": "decimal",
		"thousands": "thousands", "deleted": "deleted", "cid": "cid", "mid": "mid",
		"moid": "moid", "value": "values", "cap": "cap.columns", "time-format": "cap.format",
		"zone": "cap.zone", "fold": "cap.fold"} {
		if given(flag) {
			m.Override(path)
		}
	}
	setIf(given("separator"), &m.Separator, f.separator)
	setIf(given("decimal"), &m.Decimal, f.decimal)
	setIf(given("thousands"), &m.Thousands, f.thousands)
	setIf(given("no-quotes"), &m.NoQuotes, f.noQuotes)
	setIf(given("type"), &m.Type, f.kind)
	setIf(given("deleted"), &m.Deleted, f.deleted)
	setIf(given("no-header"), &m.NoHeader, f.noHeader)
	setIf(given("skip-lines"), &m.SkipLines, f.skipLines)
	setIf(given("expect-fields"), &m.ExpectFields, f.expectFields)
	setIf(given("skip"), &m.Skip, f.skip)
	for _, p := range []struct {
		name, text string
		part       **csvimport.Part
	}{{"cid", f.cid, &m.CID}, {"mid", f.mid, &m.MID}, {"moid", f.moid, &m.MOID}} {
		if !given(p.name) {
			continue
		}
		part, err := parsePart(p.text)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", p.name, err)
		}
		*p.part = part
	}
	if err := f.buildCap(m, given); err != nil {
		return nil, err
	}
	if columns && m.Cap.Format == "" && m.Cap.Zone.IsSet() {
		m.Cap.Format = csvimport.WallClock
	}
	if given("value") {
		m.Values = nil
		for _, text := range f.values {
			value, err := parseValueFlag(text)
			if err != nil {
				return nil, fmt.Errorf("--value: %w", err)
			}
			m.Values = append(m.Values, value)
		}
	}
	return m, m.Check()
}

func (f *importFlags) buildCap(m *csvimport.Mapping, given func(string) bool) error {
	if m.Cap == nil {
		m.Cap = &csvimport.Cap{}
	}
	if given("cap") {
		pairs, err := parsePairs(f.cap, "column", "columns")
		if err != nil {
			return fmt.Errorf("--cap: %w", err)
		}
		columns, ok := pairs["columns"] // as for other parts of the key
		if !ok {
			columns = pairs["column"]
		}
		if len(pairs) > 1 {
			return fmt.Errorf("--cap: %q: use either column or columns", f.cap)
		}
		m.Cap.Columns = strings.Split(columns, "+")
	}
	setIf(given("time-format"), &m.Cap.Format, f.timeFormat)
	setIf(given("zone"), &m.Cap.Zone, csvimport.Zone{Name: f.zone})
	setIf(given("fold"), &m.Cap.Fold, f.fold)
	return nil
}

func setIf[T any](given bool, target *T, value T) {
	if given {
		*target = value
	}
}

// parsePart reads N, or column=NAME[,lookup=TABLE], or columns=A+B,lookup=TABLE.
func parsePart(text string) (*csvimport.Part, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return &csvimport.Part{Constant: &n}, nil
	}
	pairs, err := parsePairs(text, "column", "columns", "lookup")
	if err != nil {
		return nil, err
	}
	part := &csvimport.Part{Column: pairs["column"], Lookup: pairs["lookup"]}
	if columns, ok := pairs["columns"]; ok {
		part.Columns = strings.Split(columns, "+")
	}
	return part, nil
}

// parseValueFlag reads column=NAME or columns=A..=B, with moid=N and type=T or field=NAME.
func parseValueFlag(text string) (csvimport.Value, error) {
	pairs, err := parsePairs(text, "column", "columns", "moid", "type", "field")
	if err != nil {
		return csvimport.Value{}, err
	}
	v := csvimport.Value{Column: pairs["column"], Columns: pairs["columns"], Type: pairs["type"],
		Field: pairs["field"]}
	if moid, ok := pairs["moid"]; ok {
		n, err := strconv.ParseInt(moid, 10, 64)
		if err != nil {
			return v, fmt.Errorf("moid %q is not an integer", moid)
		}
		v.MOID = &n
	}
	return v, nil
}

// parsePairs reads name=value,... A column whose name has a comma needs a mapping file.
func parsePairs(text string, names ...string) (map[string]string, error) {
	if text != "" && !strings.Contains(text, "=") {
		if slices.Contains(names, "lookup") && strings.Contains(text, "+") {
			return nil, fmt.Errorf("%q: write columns=%s,lookup=TABLE", text, text)
		}
		return nil, fmt.Errorf("%q: write column=%s", text, text)
	}
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		known := false
		for _, n := range names {
			known = known || n == name
		}
		if _, twice := pairs[name]; !ok || !known || twice || value == "" {
			return nil, fmt.Errorf("%q: malformed; use %s=..., separated by commas, each once",
				text, strings.Join(names, "=, "))
		}
		pairs[name] = value
	}
	return pairs, nil
}
