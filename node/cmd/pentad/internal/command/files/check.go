// Package files holds the commands that read the files of a node: check, dump, repair and verify.
//
// It owns their flags and what they print; package store and package audit read the files.
package files

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/audit"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/archive"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// CheckCommand returns pentad check.
func CheckCommand(shared *cli.App) *cobra.Command {
	a := &app{shared}
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Check the files of a stopped node",
		Long: `Read files of a stopped node completely, without changing them. In the directory of a node or a
store, every file is read: segments, logs, MANIFEST and WRITERS, which are compared with each other,
the catalogue and its modules, cursors, files of an edge node or a cluster node, and snapshots. No
node may have the directory open; use pentad verify files for a running node. In a backup, every
file is compared with its checksum. Unknown files are listed as not checked.

Each damaged part of a file, such as a block, is a line on stdout with the file and the offset of
its first damage; the exit code is then 7.`,
		Args: cli.Arguments(1, 1<<20, "a file or directory of a store"),
		Example: `  pentad check /var/lib/pentad
  pentad check /var/lib/pentad/store/log/*.log -o json`,
		RunE: func(c *cobra.Command, args []string) error { return a.check(c.Context(), args) },
	}
}

// partlyRead is what a search for damage says that is stopped.
func (w *damageWriter) partlyRead(bytes int64) string {
	found := "no damage so far"
	switch {
	case w.found == 1:
		found = "1 damaged place so far is listed"
	case w.found > 1:
		found = fmt.Sprintf("%d damaged places so far are listed", w.found)
	}
	return fmt.Sprintf("%s read, %s; run the same command to read everything again",
		output.Size(bytes), found)
}

func (a *app) check(ctx context.Context, paths []string) error {
	show, err := a.newDamageWriter()
	if err != nil {
		return err
	}
	read := int64(0)
	for _, path := range paths {
		opt := check.Options{Damage: show.storeRow}
		var report api.CheckReport
		info, failed := os.Stat(path)
		switch {
		case failed == nil && info.IsDir() && isBackup(path):
			report, err = archive.Check(ctx, path, check.Options{Damage: show.row})
		case failed == nil && info.IsDir():
			report, err = audit.Directory(ctx, path, opt)
		default:
			report, err = audit.File(ctx, path, opt)
		}
		if errors.Is(err, layout.ErrLocked) {
			err = fmt.Errorf("%w; stop the node, or use pentad verify files", err)
		}
		if read += report.Bytes; err != nil {
			return cli.Stopped(ctx, errors.Join(err, show.Close()), show.partlyRead(read))
		}
		a.noteChecked(path, &report)
	}
	return a.endStopped(show)
}

// StoreDir returns the directory of the store when a path is one, or a node's; "" for a file.
func StoreDir(path string) string {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return ""
	}
	inside := filepath.Join(path, "store")
	if info, err := os.Stat(inside); err == nil && info.IsDir() {
		return inside
	}
	return path
}

// isBackup reports whether a directory holds parts of a backup.
func isBackup(dir string) bool {
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	return err == nil && len(parts) > 0
}

// noteChecked says on stderr what was read.
func (a *app) noteChecked(path string, r *api.CheckReport) {
	for _, note := range r.Notes {
		a.Note("%s", note)
	}
	found := "no damage"
	if r.Damages > 0 {
		found = fmt.Sprintf("%s damaged places", output.Thousands(r.Damages))
	}
	var parts []string
	for _, part := range []struct {
		n    int64
		what string
	}{{int64(r.Segments), "segments"}, {r.Blocks, "blocks"}, {r.Rows, "sealed rows"},
		{int64(r.LogFiles), "log files"}, {r.LogRows, "rows in the log"}} {
		if part.n > 0 {
			parts = append(parts, output.Thousands(part.n)+" "+part.what)
		}
	}
	parts = append(parts, output.Size(r.Bytes))
	a.Note("%s: %s (%s in %s)", path, found, strings.Join(parts, ", "),
		output.Duration(time.Duration(r.TookNs)))
}

// damageWriter lists damaged places on stdout.
type damageWriter struct {
	*output.Writer
	found int
	// files are those of a store that were found damaged, the first of each kind, by what can be
	// done; see endStopped.
	files map[string]string
	err   error
}

func (a *app) newDamageWriter() (*damageWriter, error) {
	w, err := a.Writer(false, cli.Left("file"), cli.Right("offset"), cli.Left("reason"))
	return &damageWriter{Writer: w, files: map[string]string{}}, err
}

func (w *damageWriter) row(d api.Damage) {
	w.found++
	if w.err == nil {
		at := output.Int(d.Offset)
		if d.Offset == durable.WholeFile {
			at = output.Null()
		}
		w.err = w.Row(output.Text(d.File), at, output.Text(d.Reason))
	}
}

// storeRow is row of a file of a stopped node.
func (w *damageWriter) storeRow(d api.Damage) {
	w.row(d)
	advice := layout.Advice(d.File)
	if _, known := w.files[advice]; advice == "" || known ||
		strings.Contains(filepath.ToSlash(d.File), "/snapshots/") { // which no start reads
		return
	}
	w.files[advice] = d.File
}

// endStopped is end of the files of a stopped node; it says what can be done.
func (a *app) endStopped(w *damageWriter) error {
	for _, advice := range slices.Sorted(maps.Keys(w.files)) {
		a.Note("%s: %s", w.files[advice], advice)
	}
	return w.end()
}

// end closes the list; its error tells the exit code.
func (w *damageWriter) end() error {
	if err := errors.Join(w.err, w.Close()); err != nil {
		return err
	}
	if w.found > 0 {
		return cli.Coded(cli.ExitDamaged, fmt.Errorf("%d damaged places", w.found))
	}
	return nil
}
