package devicefile

import (
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
)

// template makes a text of the cells of a row: what is not in braces is as it is, {COLUMN} is a
// cell, {{ is a brace.
type template struct {
	literals []string // one more than columns: the first is before the first column
	columns  []int    // numbers in what the plan asks for
}

// parse reads a template, and asks the plan for its columns.
func (p *plan) parse(text string) (*template, error) {
	t := &template{}
	var literal strings.Builder
	for rest := text; ; {
		i := strings.IndexByte(rest, '{')
		if i < 0 {
			literal.WriteString(rest)
			t.literals = append(t.literals, literal.String())
			return t, nil
		}
		literal.WriteString(rest[:i])
		if rest = rest[i+1:]; strings.HasPrefix(rest, "{") {
			literal.WriteByte('{')
			rest = rest[1:]
			continue
		}
		column, after, ok := strings.Cut(rest, "}")
		if column = strings.TrimSpace(column); !ok || column == "" {
			return nil, fmt.Errorf("%q: write {COLUMN} for the text of a column, and {{ for a "+
				"brace", text)
		}
		t.literals = append(t.literals, literal.String())
		t.columns = append(t.columns, p.column(column))
		literal.Reset()
		rest = after
	}
}

// column returns the number of a column, by its name or number in the file.
func (p *plan) column(reference string) int {
	for i, known := range p.columns {
		if known == reference {
			return i
		}
	}
	p.columns = append(p.columns, reference)
	return len(p.columns) - 1
}

// text returns the text for a row. A column without a text makes all of it empty.
func (t *template) text(cells [][]byte) string {
	return t.join(cells, func(dst []byte, cell string) []byte { return append(dst, cell...) })
}

// name returns the text for a row as the name of a device: of several columns, a slash in one of
// them is not one between them, as in names that csv imports make.
func (t *template) name(cells [][]byte) string {
	if len(t.columns) < 2 {
		return t.text(cells)
	}
	return t.join(cells, csvimport.AppendNamePart[string])
}

func (t *template) join(cells [][]byte, add func([]byte, string) []byte) string {
	if len(t.columns) == 0 {
		return t.literals[0]
	}
	if len(t.columns) == 1 && t.literals[0] == "" && t.literals[1] == "" {
		return strings.TrimSpace(string(cells[t.columns[0]]))
	}
	var out []byte
	for i, column := range t.columns {
		cell := strings.TrimSpace(string(cells[column]))
		if cell == "" {
			return ""
		}
		out = add(append(out, t.literals[i]...), cell)
	}
	return string(append(out, t.literals[len(t.columns)]...))
}
