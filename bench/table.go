package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is text in columns, for people: the first is set to the left and cut, the others to the
// right.
type table [][]string

// maxLabel is how many characters the first column has at most.
const maxLabel = 44

func (t *table) add(cells ...string) { *t = append(*t, cells) }

func (t table) write(w io.Writer) error {
	var widths []int
	for _, row := range t {
		row[0] = cut(row[0], maxLabel)
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out bytes.Buffer
	for _, row := range t {
		line := ""
		for i, cell := range row {
			if i == 0 {
				line = fmt.Sprintf("%-*s", widths[0], cell)
				continue
			}
			line += fmt.Sprintf("  %*s", widths[i], cell)
		}
		fmt.Fprintln(&out, strings.TrimRight(line, " "))
	}
	_, err := w.Write(out.Bytes())
	return err
}

// cut shortens text to this many characters.
func cut(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return strings.TrimRight(string(runes[:most-1]), " ,;:") + "…"
}
