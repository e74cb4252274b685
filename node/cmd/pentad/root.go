package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
)

// defaultAddr is where a node listens and where commands look for it.
const defaultAddr = "127.0.0.1:5150"

const rootHelp = `pentad stores measurements under a five-part key:

  cid    tenant            mid   device           moid  quantity
  cap    capture time      acq   acquisition time, given by pentad

Every command finds the node at --addr or PENTAD_ADDR. Data go to stdout and all else to
stderr; a terminal gets a table and a pipe gets ndjson, unless -o or PENTAD_OUTPUT says.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 nothing matched (--fail-empty), 4 not allowed,
5 unavailable or timed out (try again), 6 some lines were rejected or requests failed,
7 damage found, 75 the disk of a node failed, 76 the clock of a node is wrong, 130 interrupted.`

// run executes one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(ctx, err)
	name := strings.TrimSpace(strings.TrimPrefix(command.CommandPath(), "pentad"))
	if name != "" {
		name += ": "
	}
	if message := a.explain(ctx, err); message != "" {
		fmt.Fprintf(a.stderr, "pentad: %s%s\n", name, message)
	}
	return code
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "pentad",
		Short:         "A storage node for measurements, and its command line",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		Example: `  pentad demo
  pentad serve --dir ./data
  pentad put --cid 1 --mid 7 --moid 1 --value 21.5`,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	flags := root.PersistentFlags()
	flags.StringVar(&a.addr, "addr", orElse(a.getenv("PENTAD_ADDR"), defaultAddr),
		"address of the node, or of several of a cluster (PENTAD_ADDR)")
	flags.StringVarP(&a.outputName, "output", "o", a.getenv("PENTAD_OUTPUT"),
		"form of the answer: "+output.Formats+" (PENTAD_OUTPUT; default table on a terminal, "+
			"else ndjson)")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "no notes and no progress on stderr")
	flags.BoolVar(&a.noColor, "no-color", a.getenv("NO_COLOR") != "", "no colours (NO_COLOR)")
	flags.Var((*durationFlag)(&a.timeout), "timeout",
		"give up after this time, as 30s (default: never)")
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if _, err := a.format(); err != nil { // before anything is stored
			return err
		}
		if a.timeout > 0 {
			ctx, cancel := context.WithTimeoutCause(c.Context(), a.timeout,
				fmt.Errorf("not done after --timeout %s: %w", a.timeout, context.DeadlineExceeded))
			context.AfterFunc(ctx, cancel)
			c.SetContext(ctx)
		}
		return nil
	}
	root.AddCommand(a.demoCommand(), a.serveCommand(), a.healthCommand(), a.versionCommand(),
		a.putCommand(), a.getCommand(), a.countCommand(), a.explainCommand(),
		a.latestCommand(), a.asOfCommand(), a.diffCommand(), a.versionsCommand(),
		a.deleteCommand(), a.eraseCommand(), a.purgeCommand(), a.eventsCommand(),
		a.retentionCommand(), a.windowsCommand(),
		a.tailCommand(), a.cursorCommand(), a.horizonCommand(),
		a.exportCommand(), a.importCommand(), a.pluginCommand(), a.quantityCommand(),
		a.benchCommand(), a.checkCommand(), a.repairCommand(), a.dumpCommand(),
		a.syncCommand(), a.clusterCommand(), a.edgeCommand(),
		a.verifyCommand(), a.snapshotCommand(), a.backupCommand(), a.restoreCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args = noCommand
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	return root
}

// group makes a command that only holds others: alone it prints its help.
func group(use, short, example string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Example: example, Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(commands...)
	return c
}

// noCommand refuses what cobra could not find among the commands.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see " + c.CommandPath() + " --help"
	if !c.HasSubCommands() {
		if _, _, err := net.SplitHostPort(args[0]); err == nil {
			hint = "name the node with --addr " + args[0]
		}
		return usageError{fmt.Errorf("%q is left over: this takes flags only; %s", args[0], hint)}
	}
	if c.SuggestionsMinimumDistance <= 0 {
		c.SuggestionsMinimumDistance = 2
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usageError{fmt.Errorf("there is no command %q; %s", args[0], hint)}
}

// arguments checks the number of arguments: what names them in the error.
func arguments(from, to int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < from:
			return usagef("missing argument: %s", what)
		case len(args) > to:
			return usagef("unexpected argument %q", args[to])
		}
		return nil
	}
}

// format returns the form of the answer.
func (a *app) format() (output.Format, error) {
	name := a.outputName
	if name == "" {
		if a.stdoutTerminal {
			return output.Table, nil
		}
		return output.NDJSON, nil
	}
	f, err := output.ParseFormat(name)
	if err != nil {
		return 0, usageError{err}
	}
	return f, nil
}

// writer returns a writer for an answer of many things; one answers one thing.
func (a *app) writer(single bool, columns ...output.Column) (*output.Writer, error) {
	f, err := a.format()
	if err != nil {
		return nil, err
	}
	opt := output.Options{Format: f, Color: a.stdoutTerminal && !a.noColor, Single: single}
	return output.NewWriter(a.stdout, opt, columns...), nil
}

// one writes an answer that is one thing.
func (a *app) one(columns []output.Column, values ...output.Value) error {
	w, err := a.writer(true, columns...)
	if err != nil {
		return err
	}
	if err := w.Row(values...); err != nil {
		return err
	}
	return w.Close()
}

// list asks a node for all things of a kind and writes a row for each.
func list[T any](
	ctx context.Context, a *app, ask func(*client.Client, context.Context) ([]T, error),
	columns []output.Column, row func(T) []output.Value,
) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	return write(ctx, a, db, ask, columns, row)
}

// write asks for all things of a kind and writes a row for each.
func write[T any](
	ctx context.Context, a *app, db *client.Client,
	ask func(*client.Client, context.Context) ([]T, error), columns []output.Column,
	row func(T) []output.Value,
) error {
	all, err := ask(db, ctx)
	if err != nil {
		return err
	}
	w, err := a.writer(false, columns...)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := w.Row(row(one)...); err != nil {
			return err
		}
	}
	return w.Close()
}

// note tells a person something; -q silences it.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

func left(name string) output.Column  { return output.Column{Name: name} }
func right(name string) output.Column { return output.Column{Name: name, Right: true} }

// filledFlag is text that is not empty: a variable of a script that is not set must not widen a
// question.
type filledFlag string

func (f *filledFlag) Set(text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	*f = filledFlag(text)
	return nil
}

func (f *filledFlag) String() string { return string(*f) }

func (f *filledFlag) Type() string { return "string" }

// durationFlag reads lengths of time with days and weeks.
type durationFlag int64

func (d *durationFlag) Set(text string) error {
	length, err := timeparse.Duration(text)
	if err == nil && length == 0 {
		err = errors.New("must be longer than 0")
	}
	*d = durationFlag(length)
	return err
}

func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (d *durationFlag) Type() string { return "duration" }
