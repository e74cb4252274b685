// Command bench measures pentad and writes what it found to a table and to a file.
//
// It talks to pentad as its users do: over the network through the Go client, and embedded through
// package node. Every answer is compared with one that was found by looking at every row.
package main

import (
	"bytes"
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
	"github.com/pentad-db/pentad/bench/results"
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
		overloadCommand(out), smallCommand(out), stalledCommand(out), soakCommand(out),
		feedCommand(out), clusterCommand(out), recordCommand(out), sealedCommand(out),
		namesCommand(out), shardsCommand(out))
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
	document, readme := "RESULTS.md", "../README.md"
	c := &cobra.Command{
		Use:   "report [RESULT | FOLDER]",
		Short: "Write the page of a run again, or RESULTS.md from a folder of results",
		Long: `Of a file NAME.result.json, which a run leaves, write NAME.html and the plots in its folder, and print
its tables in Markdown. Of a folder of results, which "bench record" leaves, by default "results",
write RESULTS.md and the table in the README.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path := "results"
			if len(args) > 0 {
				path = args[0]
			}
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if info.IsDir() {
				return writeResults(path, document, readme)
			}
			return writePage(out, path)
		},
	}
	c.Flags().StringVar(&document, "document", document, "file to write from a folder")
	c.Flags().StringVar(&readme, "readme", readme, "file whose table is written from a folder")
	return c
}

// writePage writes page, plots and tables of a run.
func writePage(out io.Writer, path string) error {
	r, err := report.Load(path)
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(path, resultSuffix)
	if err := r.SaveHTML(base + ".html"); err != nil {
		return err
	}
	if _, err := r.SavePlots(base + ".plots"); err != nil {
		return err
	}
	return r.Markdown(out)
}

// writeResults writes the document and the table of the README from a folder of results.
func writeResults(folder, document, readme string) error {
	var text bytes.Buffer
	if err := results.Render(&text, results.List(), folder); err != nil {
		return err
	}
	if err := os.WriteFile(document, text.Bytes(), 0o644); err != nil {
		return err
	}
	run, err := report.Load(results.Measurement{Name: results.Headline}.Path(folder))
	if err != nil {
		return err
	}
	old, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	written, err := results.Readme(old, run)
	if err != nil {
		return err
	}
	return os.WriteFile(readme, written, 0o644)
}
