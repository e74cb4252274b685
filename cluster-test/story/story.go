// Package story runs tests that read as stories. A story is a text file: comments say what happens
// and why, and each step is a line with a verb, lines of input if there are any, a line of dashes,
// and up to an empty line what comes of it:
//
//	# A reading is corrected.
//	put
//	meter 1 at 10:00 = 21.5
//	----
//	stored 1 record
//
// Only tests use it; it knows nothing of what a story is about. Its main function is [Run].
package story

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// divider ends what is given to a step.
const divider = "----"

// Step is a step of a story.
type Step struct {
	Verb  string
	Args  []string // the other words of its line
	Input []string // lines, without comments

	above []string // the text before the step, as it is
	given []string // its lines up to the divider, as they are
	want  string   // lines, each with its end
	line  int      // of its verb
}

// Run runs the stories in a folder, each as a test. For each, begin returns what does a step and
// returns what came of it, an error included. With update what came is written to the file instead
// of being compared.
func Run(t *testing.T, folder string, update bool, begin func(t *testing.T) func(*Step) string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.story"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no stories: %v", folder, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".story"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			steps, rest, err := parse(string(text))
			if err != nil {
				t.Fatalf("%s:%v", file, err)
			}
			do := begin(t)
			for i := range steps {
				s := &steps[i]
				got := lines(do(s))
				if !update && got != s.want {
					t.Errorf("%s:%d: %s came to\n%sexpected\n%s(-update writes what came)", file,
						s.line, s.Verb, got, s.want)
				}
				s.want = got
			}
			if update {
				if err := os.WriteFile(file, []byte(format(steps, rest)), 0o644); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// lines ends each line that is not empty: an empty one would end the step.
func lines(text string) (out string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			out += line + "\n"
		}
	}
	return out
}

// parse divides a story into steps and the text after the last one.
func parse(text string) (steps []Step, rest []string, err error) {
	var s Step
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(all); i++ {
		if code := uncommented(all[i]); code == "" {
			s.above = append(s.above, all[i])
			continue
		}
		s.line = i + 1
		for ; i < len(all) && all[i] != divider; i++ {
			s.given = append(s.given, all[i])
			if code := uncommented(all[i]); code != "" {
				s.Input = append(s.Input, code)
			}
		}
		if i == len(all) {
			return nil, nil, fmt.Errorf("%d: this step has no line %q", s.line, divider)
		}
		words := strings.Fields(s.Input[0])
		s.Verb, s.Args, s.Input = words[0], words[1:], s.Input[1:]
		for i++; i < len(all) && all[i] != ""; i++ {
			s.want += all[i] + "\n"
		}
		steps = append(steps, s)
		s = Step{above: slices.Clone(all[min(i, len(all)):min(i+1, len(all))])}
	}
	if len(steps) == 0 {
		err = errors.New("1: a story without a step")
	}
	return steps, s.above, err
}

// uncommented returns a line without its comment.
func uncommented(line string) string {
	code, _, _ := strings.Cut(line, "#")
	return strings.TrimSpace(code)
}

// format is the text that parse reads.
func format(steps []Step, rest []string) string {
	var out strings.Builder
	for _, s := range steps {
		for _, line := range slices.Concat(s.above, s.given, []string{divider}) {
			out.WriteString(line + "\n")
		}
		out.WriteString(s.want)
	}
	for _, line := range rest {
		out.WriteString(line + "\n")
	}
	return out.String()
}
