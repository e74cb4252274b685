// Package results keeps what runs found in files, one for each measurement, and renders them as the
// document RESULTS.md and the table of the README.
//
// It measures nothing and starts nothing. Its main type is [Measurement].
package results

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/bench/report"

	_ "embed" // the prose around the tables
)

// Measurement is a command and a section of RESULTS.md that shows what it found.
type Measurement struct {
	Name  string // its file is NAME.json
	Title string
	About string   // what is measured, in Markdown
	Args  []string // of bench, or of go test in the folder of the repository
	Test  bool     // go test runs it
	Real  bool     // it can use the public data sets
}

// Command is the line that measures it, apart from the public data sets.
func (m Measurement) Command() string {
	if m.Test {
		return "go test " + strings.Join(m.Args, " ")
	}
	return "cd bench && go run . " + strings.Join(m.Args, " ")
}

// Path is where the result is in a folder of results.
func (m Measurement) Path(folder string) string { return filepath.Join(folder, m.Name+".json") }

//go:embed intro.md
var intro string

//go:embed closing.md
var closing string

// section is a measurement and what it found; run is nil when there is no result.
type section struct {
	Measurement
	run *report.Run
}

// Render writes the document from the files of a folder. A measurement without a file is named as
// not measured; a file without a measurement is an error.
func Render(w io.Writer, list []Measurement, folder string) error {
	sections, err := load(list, folder)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	out.WriteString(intro)
	overview(&out, sections)
	for _, s := range sections {
		about := strings.Join(report.Wrap(s.About, report.Columns), "\n")
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n", s.Title, about)
		if s.run == nil {
			fmt.Fprintf(&out, "Not measured yet: `%s`\n", s.Command())
			continue
		}
		if err := s.run.Markdown(&out); err != nil {
			return err
		}
	}
	out.WriteString("\n" + closing)
	_, err = w.Write(out.Bytes())
	return err
}

func load(list []Measurement, folder string) ([]section, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	var out []section
	for _, m := range list {
		run, err := report.Load(m.Path(folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		out = append(out, section{m, run})
		files = slices.DeleteFunc(files, func(f string) bool { return f == m.Path(folder) })
	}
	if len(files) > 0 {
		return nil, fmt.Errorf("%s: no measurement has this name; rename or remove the file",
			files[0])
	}
	return out, nil
}

// overview writes one row for each section: how old its figures are, and of which commit.
func overview(out *bytes.Buffer, sections []section) {
	out.WriteString("\n| section | date | commit |\n|---|---|---|\n")
	for _, s := range sections {
		date, commit := "not measured", ""
		if s.run != nil {
			date, commit = s.run.When.UTC().Format(time.DateOnly), s.run.Commit
		}
		fmt.Fprintf(out, "| [%s](#%s) | %s | %s |\n", s.Title, anchor(s.Title), date, commit)
	}
}

// anchor is the fragment that GitHub gives a heading.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r >= '0' && r <= '9', r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, strings.ToLower(title))
}
