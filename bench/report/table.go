package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	tableColumns = 148 // of a terminal on half a wide screen
	blockPeers   = 7   // more beside one another are not compared by eye
	labelColumns = 34
)

// grid is the headline table: per row a label, how many rows come back, and a cell per system.
type grid struct {
	head  []string
	rows  [][]string
	notes []string // why cells are empty, and who was left out
}

// grid makes the table; label names a query.
func (r *Result) grid(label func(q *Query) string) grid {
	g := grid{head: []string{"", "rows"}}
	ingest, size := []string{"ingest, M records/s", ""}, []string{"bytes/record", ""}
	ready := []string{"until ready for queries", ""}
	settled := 0.0
	for _, s := range r.Systems {
		g.head = append(g.head, s.label())
		cell := number(s.Ingest)
		if m := mark(s.DurabilityClass); m != "" {
			cell += " " + m
			if note := m + " " + about(s.DurabilityClass); !slices.Contains(g.notes, note) {
				g.notes = append(g.notes, note)
			}
		}
		ready, size = append(ready, number(s.Settled)), append(size, weight(s.BytesPerRecord))
		ingest, settled = append(ingest, cell), settled+s.Settled
	}
	g.rows = [][]string{ingest, ready, size}
	if settled == 0 { // not known of any
		g.rows = [][]string{ingest, size}
	}
	var reasons []string
	for i := range r.Queries {
		q := &r.Queries[i]
		row := []string{label(q), "-"}
		if q.Rows > 0 {
			row[1] = count(q.Rows)
		}
		for s, t := range q.Times {
			cell := Duration(t.MedianUs)
			switch {
			case t.Unsupported != "":
				reason := r.Systems[s].Name + ": " + t.Unsupported
				at := slices.Index(reasons, reason)
				if at < 0 {
					at = len(reasons)
					reasons = append(reasons, reason)
				}
				cell = fmt.Sprintf("- [%d]", at+1)
			case s > 0 && t.Ratio.Median > 0 && t.MedianUs == 0:
				cell = Times(t.Ratio.Median)
			case s > 0 && t.Ratio.Median > 0:
				cell += " (" + Times(t.Ratio.Median) + ")"
			}
			row = append(row, cell)
		}
		g.rows = append(g.rows, row)
	}
	for i, reason := range reasons {
		g.notes = append(g.notes, fmt.Sprintf("[%d] %s", i+1, reason))
	}
	for _, reason := range r.LeftOut {
		g.notes = append(g.notes, "left out: "+reason)
	}
	return g
}

// Table writes the results for a terminal: medians, and in brackets how many times as long as the
// first system. When there are many systems it writes several blocks, each with the first.
func (r *Run) Table(w io.Writer) error {
	var out bytes.Buffer
	for i, x := range r.clean().Results {
		if i > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintln(&out, x.heading())
		g := x.grid(func(q *Query) string { return cut(q.Name+" "+q.About, labelColumns) })
		g.text(&out)
		for _, note := range g.notes {
			fmt.Fprintln(&out, strings.Join(Wrap(note, tableColumns), "\n    "))
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

// heading says which result it is and how big.
func (r *Result) heading() string {
	text := fmt.Sprintf("%s: %s records", r.Title(), count(float64(r.Records)))
	if r.Series > 0 {
		text += fmt.Sprintf(" of %s series", count(float64(r.Series)))
	}
	return text
}

// text writes the blocks.
func (g grid) text(out *bytes.Buffer) {
	widths := make([]int, len(g.head))
	for _, row := range append([][]string{g.head}, g.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for b, peers := range g.blocks(widths) {
		if b > 0 {
			out.WriteByte('\n')
		}
		columns := append([]int{0, 1, 2}[:min(3, len(g.head))], peers...)
		for _, row := range append([][]string{g.head}, g.rows...) {
			line := fmt.Sprintf("%-*s", widths[0], row[0])
			for _, c := range columns[1:] {
				line += fmt.Sprintf("  %*s", widths[c], row[c])
			}
			fmt.Fprintln(out, strings.TrimRight(line, " "))
		}
	}
}

// blocks deals the columns of the peers into blocks of about the same size whose lines fit.
func (g grid) blocks(widths []int) [][]int {
	const firstPeer = 3
	if len(widths) <= firstPeer {
		return [][]int{nil}
	}
	fixed, widest := 0, slices.Max(widths[firstPeer:])+2
	for _, w := range widths[:firstPeer] {
		fixed += w + 2
	}
	fit := min(blockPeers, max(1, (tableColumns-fixed)/widest))
	peers := len(widths) - firstPeer
	blocks := (peers + fit - 1) / fit
	var out [][]int
	for b := range blocks {
		var columns []int
		for c := b * peers / blocks; c < (b+1)*peers/blocks; c++ {
			columns = append(columns, firstPeer+c)
		}
		out = append(out, columns)
	}
	return out
}

// count writes a number of things with thousands apart.
func count(n float64) string {
	digits := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// number writes a quantity with three digits that count.
func number(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v >= 100:
		return count(v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.2g", v)
	}
}

// weight writes bytes.
func weight(bytes float64) string {
	if bytes == 0 || bytes >= 100 {
		return number(bytes)
	}
	return fmt.Sprintf("%.1f", bytes)
}

// cut shortens text to this many characters.
func cut(text string, columns int) string {
	runes := []rune(text)
	if len(runes) <= columns {
		return text
	}
	return strings.TrimRight(string(runes[:columns-1]), " ,;:") + "…"
}

// Wrap breaks text into lines of that many characters at most, between words.
func Wrap(text string, columns int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, cmp.Or(line, " "))
}

// The classes of durability that a system can be of.
const (
	classSynced   = "synced"
	classWritten  = "written"
	classBuffered = "buffered"
)

// mark is what a rate is marked with that was reached by promising less than others.
func mark(class string) string {
	switch class {
	case classWritten:
		return "*"
	case classBuffered:
		return "**"
	}
	return ""
}

// about says what a class of durability means.
func about(class string) string {
	switch class {
	case classSynced:
		return "acknowledged when the disk has it: survives a power failure"
	case classWritten:
		return "acknowledged when the kernel has it: survives the end of the process, not a " +
			"power failure"
	case classBuffered:
		return "acknowledged when the process has it: some seconds are lost at its sudden end"
	case "":
		return "durability not stated"
	}
	return class
}
