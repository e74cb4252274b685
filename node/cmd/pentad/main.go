// Command pentad is a storage node for measurements and its command line.
//
// It owns flags, environment variables, terminals and exit codes, and nothing that a library
// could own: serving is package node, talking to a node is package client, and the subpackages of
// internal read times, selectors and files and render answers. Its main type is app. It runs one
// command in the calling goroutine, and reads stdin and pipes in another; only serve and demo hold
// a node, which they close.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
	_ "time/tzdata" // zones must not depend on what is installed

	"golang.org/x/term"
)

func main() {
	os.Exit(mainExitCode())
}

func mainExitCode() int {
	// The first signal asks the command to end; stop gives the second one its default meaning.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	a := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		getenv: os.Getenv, now: time.Now, relaxTimers: relaxTimers,
		stdinTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		stdoutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		stderrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
	return a.run(ctx, os.Args[1:])
}

// app is one run of the command line and what it can see of the world.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	now            func() time.Time
	relaxTimers    func() // may start the program anew; nil where it is not a process of its own

	stdinTerminal, stdoutTerminal, stderrTerminal bool

	reads sync.WaitGroup // of stdin and pipes; nothing waits for it, see pipeUntil

	// Flags that every command has.
	addr       string
	outputName string
	quiet      bool
	noColor    bool
	timeout    time.Duration
}

// stdinUntil returns stdin as a reader whose reads end with ctx; close it.
func (a *app) stdinUntil(ctx context.Context) io.ReadCloser {
	return a.pipeUntil(ctx, func() (io.ReadCloser, error) { return io.NopCloser(a.stdin), nil })
}

// pipeUntil opens what may keep a reader waiting, and returns it as a reader whose reads end with
// ctx; close it.
//
// Opening and reading that waits for a person or a pipe cannot be called back: its goroutine ends
// when something comes, or with the process.
func (a *app) pipeUntil(ctx context.Context, open func() (io.ReadCloser, error)) io.ReadCloser {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { _ = in.CloseWithError(context.Cause(ctx)) })
	a.reads.Go(func() {
		source, err := open()
		if err == nil {
			_, err = io.Copy(in, source)
			_ = source.Close() // only read
		}
		_ = in.CloseWithError(err) // never fails
	})
	return out
}
