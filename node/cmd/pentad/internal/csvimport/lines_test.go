package csvimport

import (
	"encoding/csv"
	"io"
	"slices"
	"strings"
	"testing"
)

// splitAll reads a whole text, passing over blank lines as encoding/csv does.
func splitAll(t *testing.T, text string, separator byte) ([][]string, error) {
	t.Helper()
	lines := newLineReader(strings.NewReader(text))
	s := splitter{separator: separator}
	var all [][]string
	for {
		line, err := lines.next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if len(line) == 0 {
			continue
		}
		fields, _, err := s.record(line, lines)
		if err != nil {
			return all, err
		}
		row := make([]string, len(fields))
		for i, field := range fields {
			row[i] = string(field)
		}
		all = append(all, row)
	}
}

func TestSplit(t *testing.T) {
	f := func(text string, want ...[]string) {
		t.Helper()
		got, err := splitAll(t, text, ';')
		if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	f("a;b\n\n;\n", []string{"a", "b"}, []string{"", ""})
	f("a;\"b;\"\"c\"\"\";d", []string{"a", `b;"c"`, "d"})
	f("\"two\r\nlines\";x\r\nlast", []string{"two\r\nlines", "x"}, []string{"last"})
	f("\"\";\"\"\n", []string{"", ""})
	f("\"a\";\n", []string{"a", ""})

	open := "\"" + strings.Repeat("x\n", maxQuotedLines+10)
	if _, err := splitAll(t, open, ';'); err != errOpen {
		t.Errorf("open quote: %v", err)
	}
	for text, want := range map[string]error{"\"a\"b\n": errQuote, "5\" pipe;x\n": errStray,
		"x; \"a\"\n": errStray, "\"a\";b\"\n": errStray} {
		if _, err := splitAll(t, text, ';'); err != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

// FuzzSplit compares with encoding/csv, wherever that one takes the text. In quotes it turns \r\n
// into \n, which would change a text that pentad stored.
func FuzzSplit(f *testing.F) {
	f.Add("a,b\n\"c,\"\"d\",\n")
	f.Add("\"two\r\nlines\",x\r\nlast")
	f.Fuzz(func(t *testing.T, text string) {
		got, gotErr := splitAll(t, text, ',')
		reader := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\xef\xbb\xbf")))
		reader.FieldsPerRecord = -1
		want, err := reader.ReadAll()
		if err != nil || strings.Count(text, "\n") >= maxQuotedLines {
			return
		}
		for _, row := range got {
			for i := range row {
				row[i] = strings.ReplaceAll(row[i], "\r\n", "\n")
			}
		}
		if gotErr != nil || !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%q: %q, %v, want %q", text, got, gotErr, want)
		}
	})
}
