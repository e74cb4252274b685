package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

// texts prints what TestTexts collects: make texts.
var texts = flag.Bool("texts", false, "print all help and error texts")

// TestTexts collects every text for people, to be read in one go: the help of each command, and the
// errors, notes and advice in the code of the program.
func TestTexts(t *testing.T) {
	a := &app{&cli.App{Getenv: func(string) string { return "" }}}
	helps := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		helps++
		if *texts {
			fmt.Printf("== %s --help\n%s\n%s\n", c.CommandPath(), cli.OrElse(c.Long, c.Short),
				c.LocalFlags().FlagUsages())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(a.rootCommand())
	var errors []string
	for _, root := range []string{"node", "sdk", "index", "wasmhost"} {
		found, err := errorTexts(filepath.Join("..", "..", "..", root))
		if err != nil {
			t.Fatal(err)
		}
		errors = append(errors, found...)
	}
	if helps < 70 || len(errors) < 1500 {
		t.Errorf("%d help texts and %d errors", helps, len(errors))
	}
	if *texts {
		fmt.Printf("== errors, notes and advice\n%s\n", strings.Join(errors, "\n"))
	}
}

// errorTexts returns the texts of errors, notes and advice in a folder, as FILE:LINE TEXT.
func errorTexts(root string) (out []string, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" ||
			strings.HasSuffix(name, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		add := func(e ast.Expr) {
			text, whole := constantText(e)
			if whole && strings.Contains(text, " ") && !strings.HasPrefix(text, "BUG: ") {
				out = append(out, fmt.Sprintf("%s:%d %s", strings.TrimPrefix(filepath.ToSlash(name),
					"../../../"), set.Position(e.Pos()).Line, text))
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if isTextFunction(n.Fun) {
					for _, arg := range n.Args {
						add(arg)
					}
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && slices.Contains([]string{"Message",
					"Advice", "Reason", "Detail", "Done"}, key.Name) {
					add(n.Value)
				}
			}
			return true
		})
		return nil
	})
	return out, err
}

// isTextFunction reports whether a function takes a text for people: what formats, errors.New and
// what the packages call to refuse something.
func isTextFunction(f ast.Expr) bool {
	name := ""
	switch f := f.(type) {
	case *ast.SelectorExpr:
		name = f.Sel.Name
	case *ast.Ident:
		name = f.Name
	}
	return name == "Errorf" || name == "Sprintf" || name == "New" || name == "Usagef" ||
		name == "Note" || name == "Damaged" || name == "damaged" || name == "corrupt" ||
		name == "invalid" || name == "Bad" || name == "fail" || name == "refuse"
}
