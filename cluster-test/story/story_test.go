package story

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const told = `# Two words are said.
say hello   # loudly
to the world
# and the moon
and the moon
----
hello: to the world, and the moon

# Nothing comes of silence.

say
----

# The end.
`

func say(s *Step) string {
	return strings.Join(s.Args, " ") + ": " + strings.Join(s.Input, ", ") + "\n\n"
}

// TestRun runs a story that is right, and has one that is not written again.
func TestRun(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "words.story")
	begin := func(*testing.T) func(*Step) string {
		return func(s *Step) string {
			if len(s.Args) == 0 {
				return ""
			}
			return say(s)
		}
	}
	f := func(text string, update bool) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		Run(t, folder, update, begin)
		if got, err := os.ReadFile(file); err != nil || string(got) != told {
			t.Errorf("%v\n%s", err, got)
		}
	}
	f(told, false)
	f(told, true)
	f(strings.Replace(told, "hello: to", "bye: to", 1), true)
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "say\nhello\n"} {
		if _, _, err := parse(text); err == nil {
			t.Errorf("%q is a story", text)
		}
	}
}
