package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// CloseTimeout bounds the graceful end: a seal of the largest head takes seconds, not minutes.
const CloseTimeout = time.Minute

// CloseNode ends a node although the command's context has ended before it.
func (a *App) CloseNode(n interface{ Close(context.Context) error }) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), CloseTimeout,
		fmt.Errorf("the node did not stop within %s", CloseTimeout))
	defer cancel()
	return n.Close(ctx)
}

// Logger returns the logger of a node; -q leaves out what is not a warning.
func (a *App) Logger() *slog.Logger {
	level := slog.LevelInfo
	if a.Quiet {
		level = slog.LevelWarn
	}
	return a.LoggerAt(level)
}

// LoggerAt returns a logger to stderr: text on a terminal, else JSON.
func (a *App) LoggerAt(level slog.Level) *slog.Logger {
	opt := &slog.HandlerOptions{Level: level}
	if a.StderrTerminal {
		return slog.New(slog.NewTextHandler(a.Stderr, opt))
	}
	return slog.New(slog.NewJSONHandler(a.Stderr, opt))
}
