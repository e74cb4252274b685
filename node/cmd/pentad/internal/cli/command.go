package cli

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
)

// NewRoot returns the command that all others are added to, with the flags that every one has.
func (a *App) NewRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "pentad",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          NoCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.SetGlobalNormalizationFunc(OtherName)
	flags := root.PersistentFlags()
	flags.StringVar(&a.Addr, "addr", OrElse(a.Getenv("PENTAD_ADDR"), DefaultAddr),
		"address of the node, or of several nodes of a cluster, HOST[:PORT][,...]\n(PENTAD_ADDR; "+
			"default port: 5150)")
	flags.StringVarP(&a.OutputName, "output", "o", a.Getenv("PENTAD_OUTPUT"),
		"output format: "+output.Formats+" (PENTAD_OUTPUT;\ndefault: table on a terminal, else "+
			"ndjson)")
	Complete(root, "output", "table", "json", "ndjson", "csv")
	flags.BoolVarP(&a.Quiet, "quiet", "q", false, "suppress notes and progress on stderr")
	flags.BoolVar(&a.NoColor, "no-color", a.Getenv("NO_COLOR") != "", "disable colors (NO_COLOR)")
	flags.Var((*DurationFlag)(&a.timeout), "timeout",
		"give up after this long, e.g. 30s (default: never)")
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		a.Maps = c.Annotations[GeoJSON] != ""
		if _, err := a.Format(); err != nil { // before anything is stored
			return err
		}
		if a.timeout > 0 {
			ctx, cancel := context.WithTimeoutCause(c.Context(), a.timeout,
				fmt.Errorf("not done after --timeout %s: %w", a.timeout, context.DeadlineExceeded))
			context.AfterFunc(ctx, cancel)
			c.SetContext(ctx)
		}
		return a.findTenant(c)
	}
	return root
}

// OtherName gives flags of the parts of a key their other names.
func OtherName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "tenant":
		name = "cid"
	case "device":
		name = "mid"
	case "quantity":
		name = "moid"
	}
	return pflag.NormalizedName(name)
}

// GeoJSON is the annotation of commands that can write it.
const GeoJSON = "geojson"

// Execute runs one command line and returns the exit code.
func (a *App) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	code := exitCode(ctx, err)
	name := strings.TrimSpace(strings.TrimPrefix(command.CommandPath(), "pentad"))
	if name != "" {
		name += ": "
	}
	if message := a.explain(ctx, err); message != "" {
		fmt.Fprintf(a.Stderr, "pentad: %s%s\n", name, message)
	}
	return code
}

// Group makes a command that only holds others: alone it prints its help.
func Group(use, short, example string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Example: example, Args: NoCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(commands...)
	return c
}

// NoCommand refuses what cobra could not find among the commands.
func NoCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see " + c.CommandPath() + " --help"
	if !c.HasSubCommands() {
		if _, _, err := net.SplitHostPort(args[0]); err == nil {
			hint = "name the node with --addr " + args[0]
		}
		if _, err := strconv.ParseInt(args[0], 10, 64); err == nil &&
			c.Flags().Lookup("mid") != nil {
			hint = "did you mean --mid " + args[0] + "?"
		}
		return UsageError{fmt.Errorf("unexpected argument %q: this command takes flags only; %s",
			args[0], hint)}
	}
	if c.SuggestionsMinimumDistance <= 0 {
		c.SuggestionsMinimumDistance = 2
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return UsageError{fmt.Errorf("unknown command %q; %s", args[0], hint)}
}

// Arguments checks the number of arguments: what names them in the error.
func Arguments(from, to int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < from:
			return Usagef("missing argument: %s", what)
		case len(args) > to:
			return Usagef("unexpected argument %q", args[to])
		}
		return nil
	}
}
