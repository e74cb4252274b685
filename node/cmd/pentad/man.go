package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/release"
)

// manCommand writes the manual pages; packages have them, so it is not listed.
func manCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Create the manual pages in a directory",
		Args:    cli.Arguments(1, 1, "the directory for the manual pages"),
		Example: "  pentad man man1",
		GroupID: diagnostics,
		Hidden:  true,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writeManPages(root, args[0])
		},
	}
}

// writeManPages writes the page of a command and of those below it.
func writeManPages(c *cobra.Command, dir string) error {
	if c.Hidden || c.Name() == "help" {
		return nil
	}
	path := filepath.Join(dir, pageName(c)+".1")
	if err := os.WriteFile(path, []byte(manPage(c)), 0o644); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if err := writeManPages(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the page of a command in the language of man: what --help prints, by section.
func manPage(c *cobra.Command) string {
	var out strings.Builder
	section := func(name, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			out.WriteString(".SH " + name + "\n" + text + "\n")
		}
	}
	fmt.Fprintf(&out, ".TH %s 1 \"\" \"pentad %s\" \"pentad\"\n.ad l\n.nh\n",
		strings.ToUpper(roff(pageName(c))), roff(release.Number))
	section("NAME", roff(pageName(c)+" - "+c.Short))
	section("SYNOPSIS", ".B "+roff(c.UseLine()))
	section("DESCRIPTION", roffText(cli.OrElse(c.Long, c.Short+".")))
	var commands strings.Builder
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			commands.WriteString(".TP\n.B " + roff(sub.Name()) + "\n" + roff(sub.Short) + "\n")
		}
	}
	section("COMMANDS", commands.String())
	section("OPTIONS", roffFlags(c.LocalFlags()))
	section("OPTIONS OF EVERY COMMAND", roffFlags(c.InheritedFlags()))
	if c.Example != "" {
		section("EXAMPLES", ".nf\n"+roffLines(c.Example)+".fi")
	}
	section("SEE ALSO", seeAlso(c))
	return out.String()
}

func roffFlags(flags *pflag.FlagSet) string {
	var out strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value, usage := pflag.UnquoteUsage(f)
		out.WriteString(".TP\n.B " + roff(strings.TrimSpace(name+" "+value)) + "\n" +
			roffLines(usage))
	})
	return out.String()
}

// seeAlso names the pages of the command above and of those below.
func seeAlso(c *cobra.Command) string {
	var names []string
	if c.HasParent() {
		names = append(names, pageName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			names = append(names, pageName(sub))
		}
	}
	for i, name := range names {
		names[i] = ".BR " + roff(name) + " (1)"
	}
	return strings.Join(names, ",\n")
}

// roffText returns paragraphs, and lines as they stand where they are indented.
func roffText(text string) string {
	var out strings.Builder
	for i, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			out.WriteString(".PP\n")
		}
		if strings.Contains("\n"+paragraph, "\n  ") {
			out.WriteString(".nf\n" + roffLines(paragraph) + ".fi\n")
		} else {
			out.WriteString(roffLines(paragraph))
		}
	}
	return out.String()
}

func roffLines(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = roff(line) + "\n"
	}
	return strings.Join(lines, "")
}

// roff escapes a line of text.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
