package input

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

// Check finds missing files before the first row is stored.
func Check(files []string) error {
	for i, name := range files {
		if name == "-" {
			if slices.Contains(files[:i], "-") {
				return cli.Usagef("-: given twice; stdin can be read only once")
			}
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return cli.Usagef("%s: a directory; give its files, e.g. %s", name,
				filepath.Join(name, "*.csv"))
		}
	}
	return nil
}

// Open opens a file, or stdin for "-", and returns what errors call it.
func Open(ctx context.Context, a *cli.App, name string) (io.ReadCloser, string, error) {
	if name == "-" {
		return a.StdinUntil(ctx), "stdin", nil
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return a.PipeUntil(ctx, func() (io.ReadCloser, error) { return os.Open(name) }), name, nil
	}
	f, err := os.Open(name)
	return f, name, err
}

// Size returns the bytes to read, or -1 when stdin is among them.
func Size(files []string) int64 {
	total := int64(0)
	for _, name := range files {
		info, err := os.Stat(name)
		if name == "-" || err != nil {
			return -1
		}
		total += info.Size()
	}
	return total
}
