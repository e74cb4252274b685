// Command bench measures pentad and writes what it found to a table and to a file.
//
// It talks to pentad as its users do: over the network through the Go client, and embedded through
// package node. Every answer is compared with one that was found by looking at every row.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/report"
)

func main() {
	// Whoever ends this program ends the servers that it has started, too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends it at once
	if err := root(os.Stdout).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func root(out io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "bench", Short: "Measure pentad", SilenceUsage: true,
		SilenceErrors: true}
	c.AddCommand(quickCommand(out), runCommand(out), profileCommand(out),
		reportCommand(out), compareCommand(out), spreadCommand(out), underloadCommand(out),
		growthCommand(out), residentCommand(out), openedCommand(os.Stdin, out),
		coldCommand(out), barsCommand(out), pluginsCommand(out), neighboursCommand(out),
		overloadCommand(out), smallCommand(out), soakCommand(out),
		feedCommand(out), clusterCommand(out))
	return c
}

func compareCommand(out io.Writer) *cobra.Command {
	tolerance := 0.25
	c := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare the figures of two runs on one machine; fail if some are worse",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, files []string) error {
			before, err := figure.Load(files[0])
			if err != nil {
				return err
			}
			after, err := figure.Load(files[1])
			if err != nil {
				return err
			}
			worse, err := figure.Compare(out, before, after, tolerance)
			if err == nil && worse > 0 {
				err = fmt.Errorf("%d figures are more than %.0f %% worse", worse, 100*tolerance)
			}
			return err
		},
	}
	c.Flags().Float64Var(&tolerance, "worse", tolerance, "share by which a figure may be worse")
	return c
}

func spreadCommand(out io.Writer) *cobra.Command {
	tolerance := 0.25
	c := &cobra.Command{
		Use:   "spread FIRST SECOND",
		Short: "Show how far the ratios of two runs of one build are apart",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, files []string) error {
			first, err := figure.Load(files[0])
			if err != nil {
				return err
			}
			second, err := figure.Load(files[1])
			if err != nil {
				return err
			}
			_, err = figure.Spread(out, first, second, tolerance)
			return err
		},
	}
	c.Flags().Float64Var(&tolerance, "tolerance", tolerance, "count ratios that are further apart")
	return c
}

func reportCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "report RESULT",
		Short: "Write the page and the plots of a run again, and its table in Markdown",
		Long: `Read NAME.result.json, which a run leaves, write NAME.html and the plots beside it, and print the
headline table in Markdown.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			r, err := report.Load(files[0])
			if err != nil {
				return err
			}
			base := strings.TrimSuffix(files[0], resultSuffix)
			if err := r.SaveHTML(base + ".html"); err != nil {
				return err
			}
			if _, err := r.SavePlots(base + ".plots"); err != nil {
				return err
			}
			return r.Markdown(out)
		},
	}
}
