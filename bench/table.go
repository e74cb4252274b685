package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is text in columns, for people: the first is set to the left, the others to the right.
type table [][]string

func (t *table) add(cells ...string) { *t = append(*t, cells) }

func (t table) write(w io.Writer) error {
	var widths []int
	for _, row := range t {
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
