package report

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Markdown writes where a run comes from and its tables: those of the results, of the systems, and
// of the figures.
func (r *Run) Markdown(w io.Writer) error {
	r = r.clean()
	var out bytes.Buffer
	r.origin(&out)
	if len(r.Results) > 0 {
		out.WriteString("\nMedians. In brackets, or alone where the time is unknown: how many " +
			"times as long as the first\nsystem, the median over pairs of runs.\n")
	}
	for _, x := range r.Results {
		fmt.Fprintf(&out, "\n**%s**\n\n", escape(x.heading()))
		g := x.grid(func(q *Query) string {
			if q.About == "" {
				return q.Name
			}
			return q.Name + ": " + q.About
		})
		g.markdown(&out)
	}
	r.systems(&out)
	r.figures(&out)
	_, err := w.Write(out.Bytes())
	return err
}

// origin writes what was run when, on what, and of which commit.
func (r *Run) origin(out *bytes.Buffer) {
	item := func(name, text string) {
		if text != "" {
			bullet(out, name+": "+text)
		}
	}
	if r.Command != "" { // in one line, to be copied
		fmt.Fprintf(out, "- command: `%s`\n", strings.Join(strings.Fields(r.Command), " "))
	}
	item("commit", escape(r.Commit))
	when := r.When.UTC().Format(time.DateOnly)
	if r.Took > 0 {
		when += ", took " + r.Took.Round(time.Second).String()
	}
	item("date", when)
	item("machine", escape(r.Machine))
	if r.Load != "" {
		item("load average", fmt.Sprintf("%s at the start, %s at the end", r.Load, r.LoadEnd))
	}
	item("source", escape(r.Source))
}

// systems writes what is known of each system, once for all results.
func (r *Run) systems(out *bytes.Buffer) {
	rows := [][]string{{"system", "version", "schema and settings", "a put waits for"}}
	seen := map[string]bool{}
	for _, x := range r.Results {
		for _, s := range x.Systems {
			if !seen[s.Name] && s.Version+s.About+s.Durability != "" {
				rows = append(rows, []string{s.Name, s.Version, s.About, s.Durability})
			}
			seen[s.Name] = true
		}
	}
	if len(rows) > 1 {
		out.WriteString("\n")
		table(out, "|---|---|---|---|\n", rows)
	}
}

// figures writes the named figures and the bars that they are compared with.
func (r *Run) figures(out *bytes.Buffer) {
	rows := [][]string{{"figure", "value", "unit", "bar"}}
	for _, f := range r.Figures {
		bar := ""
		if f.Bar != nil {
			bar = *f.Bar
			if f.Holds != nil && !*f.Holds {
				bar += ", missed"
			}
		}
		rows = append(rows, []string{f.Name, value(f.Value), f.Unit, bar})
	}
	if len(rows) > 1 {
		out.WriteString("\n")
		table(out, "|---|---:|---|---|\n", rows)
	}
}

// value writes three digits that count, without zeros after them.
func value(v float64) string {
	if v >= 999.5 {
		return count(v)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func (g grid) markdown(out *bytes.Buffer) {
	rows := append([][]string{g.head}, g.rows...)
	table(out, "|---|"+strings.Repeat("---:|", len(g.head)-1)+"\n", rows)
	for i, note := range g.notes {
		if i == 0 {
			out.WriteString("\n")
		}
		bullet(out, escape(note))
	}
}

// Columns is how many characters a line of Markdown has at most, but for tables and commands.
const Columns = 118

// bullet writes an item of a list.
func bullet(out *bytes.Buffer, text string) {
	fmt.Fprintf(out, "- %s\n", strings.Join(Wrap(text, Columns-len("- ")), "\n  "))
}

// table writes rows, of which the first is the heading, above the rule.
func table(out *bytes.Buffer, rule string, rows [][]string) {
	for i, row := range rows {
		out.WriteString("|")
		for _, cell := range row {
			out.WriteString(" " + escape(cell))
			if cell != "" {
				out.WriteString(" ")
			}
			out.WriteString("|")
		}
		out.WriteString("\n")
		if i == 0 {
			out.WriteString(rule)
		}
	}
}

// escape keeps Markdown from reading text as its own.
func escape(text string) string {
	return strings.NewReplacer("\n", " ", "\r", " ", `\`, `\\`, "|", `\|`, "<", "&lt;", "*", `\*`,
		"_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`).Replace(text)
}
