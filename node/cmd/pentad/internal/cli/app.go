// Package cli holds what all commands share: the terminal, common flags, the connection to a node,
// output, progress and exit codes.
//
// It knows no command. Its main type is App, which starts goroutines only for stdin and pipes.
package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
)

// DefaultAddr is where a node listens and where commands look for it.
const DefaultAddr = "127.0.0.1:5150"

// App is one run of the command line and what it can see of the world.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Now            func() time.Time
	// RelaxTimers sets the timer slack of the process; it may execute the program again.
	RelaxTimers func(time.Duration) error

	StdinTerminal, StdoutTerminal, StderrTerminal bool

	Reads sync.WaitGroup // of stdin and pipes; nothing waits for it, see PipeUntil

	// Flags that every command has.
	Addr       string
	OutputName string
	Quiet      bool
	NoColor    bool
	timeout    time.Duration

	// Maps says that the command can write GeoJSON.
	Maps bool

	// Names are shown in place of ids, by the names of their columns.
	Names map[string]map[int64]string
}

// StdinUntil returns stdin as a reader whose reads end with ctx; close it.
func (a *App) StdinUntil(ctx context.Context) io.ReadCloser {
	return a.PipeUntil(ctx, func() (io.ReadCloser, error) { return io.NopCloser(a.Stdin), nil })
}

// PipeUntil opens what may keep a reader waiting, and returns it as a reader whose reads end with
// ctx; close it.
//
// Opening and reading that waits for a person or a pipe cannot be called back: its goroutine ends
// when something comes, or with the process.
func (a *App) PipeUntil(ctx context.Context, open func() (io.ReadCloser, error)) io.ReadCloser {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { _ = in.CloseWithError(context.Cause(ctx)) })
	a.Reads.Go(func() {
		source, err := open()
		if err == nil {
			_, err = io.Copy(in, source)
			_ = source.Close() // only read
		}
		_ = in.CloseWithError(err) // never fails
	})
	return out
}

// Format returns the form of the answer.
func (a *App) Format() (output.Format, error) {
	name := a.OutputName
	if name == "" {
		if a.StdoutTerminal {
			return output.Table, nil
		}
		return output.NDJSON, nil
	}
	if name == "geojson" && a.Maps {
		return output.GeoJSON, nil
	}
	f, err := output.ParseFormat(name)
	if err != nil {
		return 0, UsageError{err}
	}
	return f, nil
}

// Writer returns a writer for an answer of many things; one answers one thing.
func (a *App) Writer(single bool, columns ...output.Column) (*output.Writer, error) {
	f, err := a.Format()
	if err != nil {
		return nil, err
	}
	opt := output.Options{Format: f, Color: a.StdoutTerminal && !a.NoColor, Single: single,
		Names: a.Names}
	return output.NewWriter(a.Stdout, opt, columns...), nil
}

// One writes an answer that is one thing.
func (a *App) One(columns []output.Column, values ...output.Value) error {
	w, err := a.Writer(true, columns...)
	if err != nil {
		return err
	}
	if err := w.Row(values...); err != nil {
		return err
	}
	return w.Close()
}

// List asks a node for all things of a kind and writes a row for each.
func List[T any](
	ctx context.Context, a *App, ask func(*client.Client, context.Context) ([]T, error),
	columns []output.Column, row func(T) []output.Value,
) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	return write(ctx, a, db, ask, columns, row)
}

// write asks for all things of a kind and writes a row for each.
func write[T any](
	ctx context.Context, a *App, db *client.Client,
	ask func(*client.Client, context.Context) ([]T, error), columns []output.Column,
	row func(T) []output.Value,
) error {
	all, err := ask(db, ctx)
	if err != nil {
		return err
	}
	w, err := a.Writer(false, columns...)
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

// Note tells a person something; -q silences it.
func (a *App) Note(format string, args ...any) {
	if !a.Quiet {
		fmt.Fprintf(a.Stderr, format+"\n", args...)
	}
}

// OrElse returns a text, or another one if it is empty.
func OrElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// Left is a column of text.
func Left(name string) output.Column { return output.Column{Name: name} }

// Right is a column of numbers.
func Right(name string) output.Column { return output.Column{Name: name, Right: true} }

// TableRows is how many rows a table shows when no --limit says: about a screen.
const TableRows = 40

// Connect opens the connection that a command works with.
func (a *App) Connect(ctx context.Context) (*client.Client, error) {
	return client.Dial(ctx, a.Addr)
}

// ListFrom is list of a node whether it takes requests of others or not: one that has left its
// cluster does not, and is asked about it all the same.
func ListFrom[T any](
	ctx context.Context, a *App, ask func(*client.Client, context.Context) ([]T, error),
	columns []output.Column, row func(T) []output.Value,
) error {
	db, err := client.New(a.Addr)
	if err != nil {
		return err
	}
	defer db.Close()
	return write(ctx, a, db, ask, columns, row)
}

// FirstError returns the first error that is not nil.
func FirstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Reasons lists the kinds of rejected lines, the most frequent first.
func Reasons(counts map[string]int64) string {
	kinds := make([]string, 0, len(counts))
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int {
		if counts[a] != counts[b] {
			return int(counts[b] - counts[a])
		}
		return strings.Compare(a, b)
	})
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%s %s", output.Thousands(counts[kind]), kind)
	}
	return strings.Join(kinds, ", ")
}
