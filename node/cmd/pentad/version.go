package main

import (
	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/release"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show version, commit and build of this program",
		Long: `Show version, commit and build of this program: the semantic version, the commit of git and its
time, the version of Go, and the platform that it was built for. A commit that ends in -modified was
built with changes.`,
		Args: cli.NoCommand,
		Example: `  pentad version
  pentad version -o json`,
		RunE: func(*cobra.Command, []string) error {
			b := release.Read()
			return a.One([]output.Column{cli.Left("version"), cli.Left("commit"),
				cli.Left("commit_time"), cli.Left("go"), cli.Left("platform")},
				output.Text(b.Version), output.Text(b.Commit), output.Text(b.Time),
				output.Text(b.Go), output.Text(b.Platform))
		},
	}
}
