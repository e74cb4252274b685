// Command pentad is a storage node for measurements and its command line.
//
// It owns the command tree, the commands that have no package of their own below internal/command,
// and the process: signals, arguments and environment. Serving is package node, talking to a node
// is package client. Its main type is app. It runs one command in the calling goroutine; only serve
// and demo hold a node, which they close.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // zones must not depend on what is installed

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

func main() {
	os.Exit(mainExitCode())
}

func mainExitCode() int {
	// The first signal asks the command to end; stop gives the second one its default meaning.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	cobra.EnableCommandSorting = false // help lists the most used command first
	a := &app{&cli.App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Now: time.Now, RelaxTimers: relaxTimers,
		StdinTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		StdoutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		StderrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}}
	return a.run(ctx, os.Args[1:])
}

// app is the command line, with the methods of this package.
type app struct{ *cli.App }
