package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

// TestManPages: every command that help lists has a page with its flags and examples, which man
// formats without a warning where it is installed.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if _, stderr, code := runCommand(t, "", "man", dir); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	a := &app{&cli.App{Getenv: func(string) string { return "" }}}
	root := a.rootCommand()
	pages := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		pages++
		path := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		checkManPage(t, c, path)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != pages || pages < 70 {
		t.Errorf("%d pages of %d commands, %v", len(files), pages, err)
	}
	if _, stderr, code := runCommand(t, "", "man"); code != cli.ExitUsage ||
		!strings.Contains(stderr, "missing argument: the directory for the manual pages") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func checkManPage(t *testing.T, c *cobra.Command, path string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	text := strings.NewReplacer(`\-`, "-", `\e`, `\`, `\&`, "").Replace(string(page))
	wants := strings.Split(c.Long+"\n"+c.Example, "\n")
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			wants = append(wants, "--"+f.Name, strings.Split(f.Usage, "\n")[0])
		}
	})
	for _, want := range append(wants, c.Short) {
		want = strings.ReplaceAll(want, "`", "") // around the name of a value
		if !strings.Contains(text, want) {
			t.Errorf("%s: %q is missing", path, want)
		}
	}
	if groff, err := exec.LookPath("groff"); err == nil {
		out, err := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z", path).CombinedOutput()
		if err != nil || len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("%s: %v: %s", path, err, out)
		}
	}
}
