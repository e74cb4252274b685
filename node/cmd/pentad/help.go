package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// firstCommands are what a new user needs first.
const firstCommands = `  pentad demo
  pentad serve --dir ./data
  pentad put --cid 1 --mid 7 --moid 1 --value 21.5
  pentad get --cid 1 --type f64`

// overview is what pentad prints without arguments.
func overview(root *cobra.Command) string {
	var out strings.Builder
	out.WriteString("pentad is a database for measurements: server and command line.\n\n")
	for _, name := range []string{"demo", "serve", "put", "get"} {
		if c, _, err := root.Find([]string{name}); err == nil {
			fmt.Fprintf(&out, "  %-14s %s\n", c.CommandPath(), c.Short)
		}
	}
	var groups []string
	for _, g := range root.Groups() {
		groups = append(groups, strings.ToLower(strings.TrimSuffix(g.Title, ":")))
	}
	fmt.Fprintf(&out, "\nGroups of commands: %s.\n\"pentad --help\" lists all commands, "+
		"\"pentad COMMAND --help\" explains one.\n", strings.Join(groups, ", "))
	return out.String()
}

// tree is the help of the root: all commands by group, and the flags of every command.
func tree(root *cobra.Command) string {
	var out strings.Builder
	out.WriteString(root.Long + "\n\nUsage:\n  pentad COMMAND [flags]\n\nExamples:\n" +
		root.Example + "\n")
	for _, g := range root.Groups() {
		out.WriteString("\n" + g.Title + "\n")
		for _, c := range root.Commands() {
			if c.GroupID != g.ID || c.Hidden {
				continue
			}
			fmt.Fprintf(&out, "  %-12s %s\n", c.Name(), c.Short)
			for _, sub := range c.Commands() {
				if !sub.Hidden {
					fmt.Fprintf(&out, "    %-12s %s\n", sub.Name(), sub.Short)
				}
			}
		}
	}
	out.WriteString("\nFlags of every command:\n" + root.LocalFlags().FlagUsages() +
		"\n\"pentad COMMAND --help\" explains a command.\n")
	return out.String()
}
