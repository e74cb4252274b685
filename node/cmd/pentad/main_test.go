package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/command/plugins"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/store"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pentad": main, "slack": tellSlack})
}

// TestScripts runs the command line as people do, in processes of its own. In the scripts
//
//	shape          writes the last stdout to the file shaped, with what differs from run to run
//	               (acquisition times, lengths of time, sizes, addresses, padding) made equal
//	exits N CMD    runs a command that must end with this exit code
//	examples       runs the examples of all help pages, with the directory stopped in place of
//	               /var/lib/pentad
//	bend FILE N    changes bytes of a file, at an Nth of it, from the end if N is negative
//	settle DIR     seals and merges all that a stopped node holds
//	walk FILE      runs the shell blocks of a document of this repository
//	console FILE   runs what is typed in its first console block, after $
func TestScripts(t *testing.T) {
	if !testing.Short() && !compilesC() {
		required.Lacks(t, required.Clang, "the guests in C of sdk/docs/plugins.md; apt-get "+
			"install clang-19 lld-19")
	}
	testscript.Run(t, testscript.Params{
		Dir:             "testdata",
		ContinueOnError: true, // all lines that differ at once
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"PENTAD_ADDR", "COPY_ADDR", "GOSSIP_ADDR"} {
				env.Setenv(name, freeaddr.New(t))
			}
			env.Setenv("XDG_DATA_HOME", env.WorkDir)
			// A second for each command otherwise.
			env.Setenv("GORACE", "atexit_sleep_ms=0 log_path="+filepath.Join(env.WorkDir, "race"))
			env.Defer(func() { checkRaces(env) })
			plugins, err := filepath.Abs("../../../plugins")
			if err != nil {
				return err
			}
			env.Setenv("PLUGINS", plugins)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"shape": shape, "exits": exits, "examples": runExamples,
			"bend": bend, "settle": settle, "walk": walk,
			"console": console, "next": typeNext,
		},
	})
}

func shape(ts *testscript.TestScript, _ bool, _ []string) {
	text := ts.ReadFile("stdout")
	for _, change := range []struct{ pattern, with string }{
		{`20(2[6-9]|[3-9]\d)-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z`, "ACQ"},
		{`"((from|until)_)?acq_ns":\d+`, `"${1}acq_ns":N`},
		{`"took":[0-9.e-]+`, `"took":N`},
		{`"(horizon_ns|plan_ns|took_ns|bytes|bytes_opened)":\d+`, `"$1":N`},
		{`(took|planning): (\d+ m )?[0-9.]+ [nµm]?s\b`, "$1: N"},
		{`[0-9.]+ (K?B)\b`, "N $1"},
		{regexp.QuoteMeta(ts.Getenv("PENTAD_ADDR")), "ADDR"},
		{`(\S)  +`, "$1  "},
	} {
		text = regexp.MustCompile(change.pattern).ReplaceAllString(text, change.with)
	}
	ts.Check(os.WriteFile(ts.MkAbs("shaped"), []byte(text), 0o600))
}

// exits runs a command that must end with an exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits N program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var ended *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
		got = ended.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// runExamples runs every line of every help page, a trailing backslash continuing a line. What
// needs a terminal or runs until it is stopped is not run but its flags are read.
func runExamples(ts *testscript.TestScript, _ bool, _ []string) {
	a := &app{&cli.App{Getenv: ts.Getenv}}
	version := func(name string) string {
		return fmt.Sprintf("%s@%x", name, sha256.Sum256([]byte(ts.ReadFile(name+".wasm"))))
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		lines := strings.Split(strings.ReplaceAll(c.Example, "\\\n", ""), "\n")
		if c.Name() != "help" && c.Parent() != nil && c.Parent().Name() != "completion" &&
			c.Name() != "completion" && strings.TrimSpace(c.Example) == "" {
			ts.Fatalf("%s has no examples", c.CommandPath())
		}
		for _, line := range lines {
			line = strings.NewReplacer("127.0.0.1:5151", ts.Getenv("PENTAD_ADDR"),
				"127.0.0.1:5252", ts.Getenv("COPY_ADDR"),
				"/var/lib/pentad", ts.MkAbs("stopped"), "peaks@"+plugins.ExampleDigest,
				version("peaks"), "old@"+plugins.ExampleDigest,
				version("old")).Replace(strings.TrimSpace(line))
			switch {
			case line == "":
				continue
			case strings.HasPrefix(line, "pentad serve"), strings.HasPrefix(line, "pentad demo"),
				strings.HasPrefix(line, "pentad tail") && !strings.Contains(line, "--once"),
				strings.HasPrefix(line, "pentad plugin build"), // there may be no compiler
				strings.HasPrefix(line, "pentad cluster"),      // it is alone
				strings.Contains(line, " --into "),             // nor has it a backup of one
				strings.HasPrefix(line, "pentad edge"),         // it ships nothing
				strings.HasPrefix(line, "pentad sync promote"): // others still need the copy
				line += " --help"
			}
			if err := ts.Exec("sh", "-c", line); err != nil {
				ts.Fatalf("example of %s: %s: %v", c.CommandPath(), line, err)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(a.rootCommand())
}

func settle(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: settle DIR")
	}
	s, _, err := store.Open(context.Background(),
		store.Options{Dir: filepath.Join(ts.MkAbs(args[0]), "store")})
	ts.Check(err)
	ts.Check(s.WaitForMerges(context.Background()))
	ts.Check(s.Close())
}

func bend(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: bend FILE N")
	}
	part, err := strconv.Atoi(args[1])
	ts.Check(err)
	path := ts.MkAbs(args[0])
	content, err := os.ReadFile(path)
	ts.Check(err)
	at := len(content) / part
	if at < 0 {
		at += len(content)
	}
	for i := range 16 {
		content[at+i] ^= 0x55
	}
	ts.Check(os.WriteFile(path, content, 0o600))
}

// compilesC reports whether there is what guests in C are built with.
func compilesC() bool {
	_, noCompiler := exec.LookPath("clang-19")
	_, noLinker := exec.LookPath("wasm-ld-19")
	return noCompiler == nil && noLinker == nil
}

// checkRaces fails a script one of whose processes the race detector has reported.
func checkRaces(env *testscript.Env) {
	reports, err := filepath.Glob(filepath.Join(env.WorkDir, "race.*"))
	if err != nil {
		env.T().Fatal(err)
	}
	for _, name := range reports {
		text, err := os.ReadFile(name)
		env.T().Fatal("the race detector reports in a process: ", string(text), err)
	}
}

// walk runs the shell blocks of a document in one shell, those of a language if it can be built.
func walk(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: walk FILE")
	}
	top, err := filepath.Abs("../../..")
	ts.Check(err)
	text, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(args[0])))
	ts.Check(err)
	script := "set -e\ntrap 'kill $! 2>/dev/null || true; wait' EXIT\n"
	can := map[string]bool{"": true, "go": true}
	can["c"] = compilesC()
	count := 0
	for i, part := range strings.Split("\n"+string(text), "\n```") {
		head, body, _ := strings.Cut(part, "\n")
		shell, language, _ := strings.Cut(head, " ")
		if i%2 == 1 && shell == "sh" && can[language] {
			script += body + "\n"
			count++
		}
	}
	if count < 3 {
		ts.Fatalf("%s has %d blocks to run", args[0], count)
	}
	script = strings.ReplaceAll(script, "pentad serve ", "pentad serve --listen $PENTAD_ADDR ")
	ts.Setenv("SRC", top)
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		value, err := exec.Command("go", "env", name).Output()
		ts.Check(err)
		ts.Setenv(name, strings.TrimSpace(string(value)))
	}
	ts.Check(os.WriteFile(ts.MkAbs("walk.sh"), []byte(script), 0o600))
	ts.Check(ts.Exec("sh", "-x", "walk.sh"))
}

// console runs the lines that begin with $ of the first console block of a document in one shell:
// the first of them starts a node.
func console(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: console FILE")
	}
	text, err := os.ReadFile(filepath.Join("../../..", filepath.FromSlash(args[0])))
	ts.Check(err)
	_, block, _ := strings.Cut(string(text), "\n```console\n")
	block, _, _ = strings.Cut(block, "\n```")
	script := "set -e\ntrap 'kill $! 2>/dev/null || true; wait' EXIT\n"
	count := 0
	for line := range strings.SplitSeq(block, "\n") {
		typed, ok := strings.CutPrefix(line, "$ bin/pentad serve ")
		if ok {
			typed, _, _ = strings.Cut(typed, "#")
			script += "pentad serve --listen $PENTAD_ADDR -q " + typed + " &\n" +
				"pentad health --wait 5m\n"
			continue
		}
		if typed, ok = strings.CutPrefix(line, "$ "); ok {
			script += strings.ReplaceAll(strings.ReplaceAll(typed, "bin/pentad ", "pentad "),
				"'http://127.0.0.1:5150", "'http://'$PENTAD_ADDR'") + "\n"
			count++
		}
	}
	if count < 10 {
		ts.Fatalf("%s has %d lines to run", args[0], count)
	}
	ts.Check(os.WriteFile(ts.MkAbs("console.sh"), []byte(script), 0o600))
	ts.Check(ts.Exec("sh", "-x", "console.sh"))
}

// typeNext runs what the demo that ran before says to type next.
func typeNext(ts *testscript.TestScript, _ bool, _ []string) {
	_, lines, found := strings.Cut(ts.ReadFile("stdout"), "\nWhat to type next:\n")
	if !found || strings.Count(lines, "\n") < 6 {
		ts.Fatalf("the demo says: %s", lines)
	}
	ts.Setenv("PENTAD_LISTEN", ts.Getenv("PENTAD_ADDR"))
	script := "set -e\ntrap 'kill $! 2>/dev/null || true; wait' EXIT\n" + lines
	ts.Check(os.WriteFile(ts.MkAbs("next.sh"), []byte(script), 0o600))
	ts.Check(ts.Exec("sh", "-x", "next.sh"))
}
