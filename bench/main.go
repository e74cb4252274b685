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

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := root(os.Stdout).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func root(out io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "bench", Short: "Measure pentad", SilenceUsage: true,
		SilenceErrors: true}
	c.AddCommand(quickCommand(out), runCommand(out), compareCommand(out))
	return c
}

func compareCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare the figures of two runs on one machine",
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
			return figure.Compare(out, before, after)
		},
	}
}

func quickCommand(out io.Writer) *cobra.Command {
	q := quick{out: out}
	c := &cobra.Command{
		Use:   "quick",
		Short: "Measure ingest, size, the ten queries and a plugin on the standard workload",
		Long: `Load the standard workload over HTTP and embedded, ask its ten queries of both, run a plugin
over a tenth of it, and compare every answer with an oracle.

Wrong answers end it with exit code 1. A bar that does not hold is printed, and the exit code is
0: machines differ.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return q.run(c.Context()) },
	}
	c.Flags().IntVar(&q.rows, "rows", 20_000_000, "about how many records")
	c.Flags().StringVar(&q.dir, "out", "out", "folder of quick.json, and of the data while it runs")
	c.Flags().StringVar(&q.pentad, "pentad", "../bin/pentad", "the program to start as a node")
	return c
}
