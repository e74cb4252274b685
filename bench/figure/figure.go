// Package figure holds what a benchmark found: named figures, the bars they are held against, the
// table for people and the file for machines.
//
// It measures nothing itself. Its main type is [List].
package figure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// Figure is one measured value.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Bar   *string `json:"bar"`   // such as ">= 0.6"; nil when none was set
	Holds *bool   `json:"holds"` // nil without a bar
}

// Ratio is the unit of figures that compare two things in one run: what machines agree on.
const Ratio = "ratio"

// List is the figures of one run.
type List []Figure

// Add adds a figure without a bar.
func (l *List) Add(name string, value float64, unit string) {
	*l = append(*l, Figure{Name: name, Value: value, Unit: unit})
}

// AtLeast adds a figure that is good when it reaches bar.
func (l *List) AtLeast(name string, value float64, unit string, bar float64) {
	l.held(name, value, unit, fmt.Sprintf(">= %g", bar), value >= bar)
}

// AtMost adds a figure that is good when it does not pass bar.
func (l *List) AtMost(name string, value float64, unit string, bar float64) {
	l.held(name, value, unit, fmt.Sprintf("<= %g", bar), value <= bar)
}

func (l *List) held(name string, value float64, unit, bar string, holds bool) {
	*l = append(*l, Figure{name, value, unit, &bar, &holds})
}

// Table writes the figures for people.
func (l List) Table(w io.Writer) error {
	var text bytes.Buffer
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tVALUE\tUNIT\tBAR\tHOLDS")
	for _, f := range l {
		bar, holds := "", ""
		if f.Bar != nil {
			bar, holds = *f.Bar, "yes"
			if !*f.Holds {
				holds = "NO"
			}
		}
		fmt.Fprintln(t, strings.Join([]string{f.Name, short(f.Value), f.Unit, bar, holds}, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// short writes three or four digits, which is what a noisy machine can tell.
func short(v float64) string {
	digits := 3 - int(math.Floor(math.Log10(math.Abs(v))))
	if v == 0 || digits <= 0 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.*f", min(digits, 4), v)
}

// Save writes the figures for machines, making the folder.
func (l List) Save(path string) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // bars hold < and >
	e.SetIndent("", "  ")
	if err := e.Encode(l); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}
