package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/command/backup"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/command/bench"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/command/files"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/command/plugins"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/command/sealing"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/command/transfer"
)

const rootHelp = `pentad stores measurements under a five-part key:

  cid    tenant            mid   device           moid  quantity
  cap    capture time      acq   acquisition time, assigned by pentad

Commands find the node at --addr or PENTAD_ADDR. Data go to stdout, everything else to stderr. The
output is a table on a terminal and ndjson otherwise, unless -o or PENTAD_OUTPUT says so.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 nothing matched (--fail-empty), 4 not allowed,
5 unavailable or timed out (retry), 6 some lines were rejected or requests failed, 7 damage found,
75 the disk of a node failed, 76 the clock of a node is wrong, 130 interrupted.`

// run executes one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	return a.Execute(ctx, a.rootCommand(), args)
}

// commandGroup is a section of the command tree.
type commandGroup struct {
	id, title string
	commands  []*cobra.Command // the most used first
}

// groups returns all commands by section.
func (a *app) groups() []commandGroup {
	return []commandGroup{
		{"data", "Data", []*cobra.Command{a.putCommand(), a.getCommand(), a.latestCommand(),
			a.countCommand(), a.windowsCommand(), a.deleteCommand(), a.eraseCommand(),
			a.purgeCommand(), a.quantityCommand(), a.deviceCommand(), a.tenantCommand(),
			sealing.Command(a.App)}},
		{"time-travel", "Time travel", []*cobra.Command{a.asOfCommand(), a.diffCommand(),
			a.versionsCommand(), a.tailCommand(), a.cursorCommand(), a.horizonCommand(),
			a.eventsCommand()}},
		{"plugins", "Plugins", []*cobra.Command{plugins.Command(a.App)}},
		{"moving-data", "Moving data", []*cobra.Command{transfer.ImportCommand(a.App),
			transfer.ExportCommand(a.App), a.syncCommand()}},
		{"administration", "Administration", []*cobra.Command{a.serveCommand(),
			backup.BackupCommand(a.App), backup.RestoreCommand(a.App),
			backup.SnapshotCommand(a.App), a.retentionCommand(), a.edgeCommand(),
			a.demoCommand()}},
		{"cluster", "Cluster", []*cobra.Command{a.clusterCommand()}},
		{diagnostics, "Diagnostics", []*cobra.Command{a.healthCommand(), a.explainCommand(),
			bench.Command(a.App), files.VerifyCommand(a.App), files.CheckCommand(a.App),
			files.RepairCommand(a.App), files.DumpCommand(a.App), a.versionCommand()}},
	}
}

// otherWords are what people call commands, which the error of an unknown command suggests.
var otherWords = map[string][]string{
	"put": {"insert", "write", "add", "store", "ingest"},
	"get": {"query", "select", "read", "scan", "show", "fetch"}, "latest": {"last", "current"},
	"windows": {"aggregate", "agg", "group", "resample", "stats", "mean", "sum", "avg"},
	"delete":  {"remove", "rm"}, "quantity": {"metric", "unit", "units"},
	"asof": {"at", "as-of"}, "versions": {"history", "log"}, "diff": {"changes", "compare"},
	"tail": {"follow", "watch", "subscribe", "stream"}, "import": {"load"},
	"serve": {"start", "run", "server", "up", "node"}, "health": {"ping", "status", "ready"},
}

// diagnostics is the section that also has help and completion.
const diagnostics = "diagnostics"

func (a *app) rootCommand() *cobra.Command {
	root := a.NewRoot()
	root.Short = "Run and query a storage node for measurements"
	root.Long = rootHelp
	root.Example = firstCommands
	for _, g := range a.groups() {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID, c.SuggestFor = g.id, otherWords[c.Name()]
		}
		root.AddCommand(g.commands...)
	}
	a.CompleteSelectors(root)
	root.AddCommand(manCommand(root))
	root.SetHelpCommandGroupID(diagnostics)
	root.SetCompletionCommandGroupID(diagnostics)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Long = "Generate the script by which a shell completes commands, flags and names. " +
				"The help of\neach shell says how to load it."
			c.Args = cli.NoCommand
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		case "help":
			c.Long = "Show the help of a command, as pentad COMMAND --help does."
		}
	}
	root.RunE = func(c *cobra.Command, _ []string) error {
		_, err := io.WriteString(c.OutOrStdout(), overview(c))
		return err
	}
	helpOfOne := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c.HasParent() {
			helpOfOne(c, args)
			return
		}
		_, _ = io.WriteString(c.OutOrStdout(), tree(c)) // as cobra, which has no error to return
	})
	return root
}
