package csvimport

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// title is how errors call a column: by its name in the header, or by its number from 1.
func (h *header) title(index int) string {
	name := h.name(index)
	if name == "" {
		return fmt.Sprintf("column %d", index+1)
	}
	name = excerpt.Of(name, 40)
	if h.index[h.names[index]] < 0 {
		return fmt.Sprintf("column %d (%q)", index+1, name)
	}
	return fmt.Sprintf("column %q", name)
}

func (p *plan) column(index int) string { return p.header.title(index) }

// cell reads what is to be stored of a cell; skipped says that it is nothing.
func (p *plan) cell(fields [][]byte, v *valuePlan) (skipped bool, bad *problem) {
	cell := fields[v.column]
	trimmed := bytes.TrimSpace(cell)
	empty := p.nulls && cell == nil || p.skips(trimmed)
	switch {
	case p.tomb && len(trimmed) > 0 && !empty:
		return false, p.valueOfDeleted(v, cell)
	case p.tomb:
		return false, nil
	case empty:
		return true, nil
	}
	if q := p.structOf(fields, v); q != nil && bytes.HasPrefix(trimmed, []byte{'{'}) {
		return false, p.object(trimmed, v, q)
	}
	p.kind = p.kindOf(fields, v)
	if p.kind != quantity.Text {
		cell = trimmed
	}
	if bad = p.value(cell, v, p.kind); bad == nil {
		return false, nil
	}
	if v.byMOID {
		moid, _ := p.moid.value(fields, v.label, 0)
		bad.reason += quantity.Because(p.im.opt.Types, int32(moid))
	}
	bad.reason += p.im.mapping.wayOut(string(trimmed))
	return false, bad
}

// structOf returns the quantity of a value if it is a struct, which get shows as its fields.
func (p *plan) structOf(fields [][]byte, v *valuePlan) *plugin.Quantity {
	if !v.byMOID {
		return nil
	}
	moid, _ := p.moid.value(fields, v.label, 0) // a bad one is found with the key
	return quantity.Struct(p.im.opt.Types, int32(moid))
}

// object appends the payload of a struct.
func (p *plan) object(cell []byte, v *valuePlan, q *plugin.Quantity) *problem {
	payloads, err := quantity.AppendObject(p.payloads, q, cell)
	if err != nil {
		return &problem{"value", fmt.Sprintf("%s: %v", p.column(v.column), err)}
	}
	p.payloads = payloads
	return nil
}

func (p *plan) skips(cell []byte) bool {
	for _, skip := range p.im.mapping.Skip {
		if string(cell) == skip {
			return true
		}
	}
	return false
}

// value appends the payload of a cell.
func (p *plan) value(cell []byte, v *valuePlan, kind quantity.Type) *problem {
	m := p.im.mapping
	text := string(cell)
	if kind != quantity.Text && (p.typed == nil || !p.typed[v.column]) {
		number, why := m.number(text)
		if why != "" {
			return &problem{"value", fmt.Sprintf("%s: %q %s", p.column(v.column), clip(cell), why)}
		}
		text = number
	}
	from := len(p.payloads)
	if m.Own {
		kind, text = rawCell(kind, text)
	}
	payloads, err := kind.Append(p.payloads, text)
	if err != nil && text != string(cell) && !m.Own { // quote the file
		if _, asWritten := kind.Append(nil, string(cell)); asWritten != nil {
			err = asWritten
		}
	}
	if err != nil {
		return &problem{"value", fmt.Sprintf("%s: %v", p.column(v.column), err)}
	}
	if !finite(kind.Decode(payloads[from:])) {
		return &problem{"value", fmt.Sprintf("%s: %q is not a finite number", p.column(v.column),
			clip(cell))}
	}
	p.payloads = payloads
	return nil
}

// finite reports whether a value is not a float that JSON does not have.
func finite(value any) bool {
	f, ok := value.(float64)
	if single, is := value.(float32); is {
		f, ok = float64(single), true
	}
	return !ok || !math.IsNaN(f) && !math.IsInf(f, 0)
}

// rawCell reads the prefix of a payload that get did not write as a value.
func rawCell(kind quantity.Type, text string) (quantity.Type, string) {
	name, raw, ok := strings.Cut(text, ":")
	if t, known := quantity.Parse(name); ok && known && t.Raw() &&
		kind != quantity.Text {
		return t, raw
	}
	return kind, text
}

// number returns a number as it is read everywhere: with a point, and without separators of
// thousands. Why says what is wrong with it.
func (m *Mapping) number(text string) (number, why string) {
	if m.Decimal == "." && m.Thousands == "" {
		return text, ""
	}
	if m.Decimal == "," && m.Thousands != "." && strings.Contains(text, ".") {
		return "", `has a point, but the decimal separator is ","; if points separate thousands, ` +
			`set thousands: "." (--thousands .)`
	}
	whole, fraction, point := strings.Cut(text, m.Decimal)
	if m.Thousands == " " {
		whole = otherSpaces.Replace(whole)
	}
	if m.Thousands != "" {
		if strings.Contains(fraction, m.Thousands) || !m.grouped(whole) {
			return "", fmt.Sprintf("is not grouped in thousands by %q", m.Thousands)
		}
		whole = strings.ReplaceAll(whole, m.Thousands, "")
	}
	if point {
		whole += "."
	}
	return whole + fraction, ""
}

// otherSpaces are the spaces of other widths that separate thousands.
var otherSpaces = strings.NewReplacer("\u00a0", " ", "\u202f", " ", "\u2009", " ")

// grouped reports whether the digits of a whole number are grouped in thousands, or not grouped.
func (m *Mapping) grouped(whole string) bool {
	groups := strings.Split(strings.TrimLeft(whole, "+-"), m.Thousands)
	if len(groups) == 1 {
		return true
	}
	for i, group := range groups {
		if len(group) > 3 || len(group) < 3 && (i > 0 || group == "") ||
			strings.Trim(group, "0123456789") != "" {
			return false
		}
	}
	return true
}

// wayOut is what a mapping can say about a cell that is not a number, "" for nothing.
func (m *Mapping) wayOut(cell string) string {
	if m.Own { // put has no mapping
		return ""
	}
	if missingValue.MatchString(cell) {
		texts := append(slices.Clone(m.Skip), cell)
		quoted := make([]string, len(texts))
		for i, text := range texts {
			quoted[i] = strconv.Quote(text)
		}
		return fmt.Sprintf("; if it means no value, skip it: skip: [%s] (--skip '%s')",
			strings.Join(quoted, ", "), strings.Join(texts, "' --skip '"))
	}
	if m.Decimal == "." && m.Thousands == "" && commaNumber.MatchString(cell) {
		return `; set decimal: "," (--decimal ,) for a decimal comma, or thousands: "," ` +
			`(--thousands ,)`
	}
	return ""
}

var (
	// missingValue are the ways in which files say that there is no value.
	missingValue = regexp.MustCompile(`(?i)^(|#?n/?a\.?|n\.a\.?|[-+]?nan|[-+]?inf(inity)?|null|` +
		`none|nil|-+|\?|\.+|missing|#nv|\\n|#value!|#ref!|#div/0!)$`)
	commaNumber = regexp.MustCompile(`^[-+]?[0-9][0-9,]*,[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?$`)
)
