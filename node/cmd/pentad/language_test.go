package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

// verbs are the words that a short help begins with.
var verbs = strings.Fields(`Aggregate Back Build Cancel Check Compare Copy Count Create Cut Declare
Delete Explain Export Follow Generate Help Hide Import List Load Make Manage Move Put Raise Remove
Replay Restore Resume Run Set Show Split Stop Store Test Turn Undo Upload Verify`)

// maxShort is the length of a short help.
const maxShort = 60

// stops is the end of a sentence, which a range or a list with dots is not.
var stops = regexp.MustCompile(`[^.]\.$`)

// dialect are words that have no place in texts for users: a plainer one says the same.
var dialect = regexp.MustCompile(`(?i)\b(anew|beside|besides|whoever|nobody|somebody|so many|` +
	`of before|stands|held against|bent|likewise|lies|dear|dearest|` +
	`is no|are no|was no|is wanted|are wanted|left aside|take back|as \d+\w*|as Europe)\b`)

// plain are uses of those words that say it best.
var plain = strings.NewReplacer("there is no ", "", "there are no ", "", "there was no ", "",
	"is no longer", "", "are no longer", "")

// TestCommandTexts holds the rules of help and flag texts that can be held mechanically.
func TestCommandTexts(t *testing.T) {
	a := &app{&cli.App{Getenv: func(string) string { return "" }}}
	root := a.rootCommand()
	commands := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		commands++
		checkShort(t, c)
		if c.Parent() == root && c.GroupID == "" {
			t.Errorf("%s is in no group", c.CommandPath())
		}
		if c.Name() == "completion" || c.Name() == "help" {
			return // texts of cobra
		}
		checkText(t, c.CommandPath()+" --help", c.Long)
		for _, f := range collected(c.LocalFlags().VisitAll) {
			name := c.CommandPath() + " --" + f.Name
			checkText(t, name, f.Usage)
			first, _ := utf8.DecodeRuneInString(f.Usage)
			if f.Usage == "" || stops.MatchString(f.Usage) || first == ' ' {
				t.Errorf("%s: usage %q: begin with what it sets, end without a full stop", name,
					f.Usage)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if commands < 70 {
		t.Errorf("only %d commands were found", commands)
	}
}

// collected returns what a visitor hands out.
func collected[T any](visit func(func(*T))) (all []*T) {
	visit(func(one *T) { all = append(all, one) })
	return all
}

func checkShort(t *testing.T, c *cobra.Command) {
	t.Helper()
	verb, _, _ := strings.Cut(c.Short, " ")
	if n := utf8.RuneCountInString(c.Short); n > maxShort {
		t.Errorf("%s: short help of %d characters, at most %d: %q", c.CommandPath(), n, maxShort,
			c.Short)
	}
	if !slices.Contains(verbs, verb) || strings.HasSuffix(c.Short, ".") {
		t.Errorf("%s: %q: begin with an imperative verb, end without a full stop",
			c.CommandPath(), c.Short)
	}
	checkText(t, c.CommandPath(), c.Short)
}

func checkText(t *testing.T, what, text string) {
	t.Helper()
	text = plain.Replace(text)
	if words := dialect.FindAllString(text, -1); words != nil {
		t.Errorf("%s: write plain technical English instead of %q: %s", what, words, text)
	}
}

// TestErrorTexts holds the same for every text in the code of the command line, errors among them.
func TestErrorTexts(t *testing.T) {
	texts := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" ||
			strings.HasSuffix(name, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, whole := constantText(e)
			if !whole || !strings.Contains(text, " ") {
				return true
			}
			texts++
			checkText(t, set.Position(e.Pos()).String(), text)
			return false
		})
		return nil
	})
	if err != nil || texts < 500 {
		t.Errorf("%d texts, %v", texts, err)
	}
}

// constantText returns a string literal, or literals that are joined.
func constantText(e ast.Expr) (text string, whole bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		x, xOK := constantText(e.X)
		y, yOK := constantText(e.Y)
		return x + y, xOK && yOK && e.Op == token.ADD
	}
	return "", false
}

// TestOverview keeps what pentad prints without arguments on a part of a screen.
func TestOverview(t *testing.T) {
	a := &app{&cli.App{Getenv: func(string) string { return "" }}}
	root := a.rootCommand()
	text := overview(root)
	if n := strings.Count(text, "\n"); n > 12 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	for _, g := range root.Groups() {
		if name := strings.ToLower(strings.TrimSuffix(g.Title, ":")); !strings.Contains(text,
			name) {
			t.Errorf("no %q in %s", name, text)
		}
		if !strings.Contains(tree(root), "\n"+g.Title+"\n") {
			t.Errorf("no group %q in the help", g.Title)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if utf8.RuneCountInString(line) > 100 {
			t.Errorf("a line of %d characters: %s", utf8.RuneCountInString(line), line)
		}
	}
}
