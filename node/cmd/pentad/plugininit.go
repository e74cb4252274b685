package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/plugin/template"
	"github.com/pentad-db/pentad/sdk/record"
)

func (a *app) pluginInitCommand() *cobra.Command {
	var language string
	var growing bool
	languages := strings.Join(template.Languages(), ", ")
	c := &cobra.Command{
		Use:   "init NAME",
		Short: "Make a folder with a new plugin that works",
		Long: `Make a folder with a new plugin that works: an aggregate that computes a mean, how to build
it, and records to test it on. Change it into yours. With --growing it is one that counts texts:
its states keep as much as they find, it has a text among its parameters and its results, and it
is told what lies before each window.`,
		Args: arguments(1, 1, "the name of the plugin"),
		Example: `  pentad plugin init busy --lang c
  pentad plugin init busy-in-go --lang go
  pentad plugin init alarms --lang c --growing
  pentad plugin init busy-in-rust --lang rust -o json`,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.pluginInit(args[0], language, growing)
		},
	}
	c.Flags().StringVar(&language, "lang", "c", "language: "+languages)
	c.Flags().BoolVar(&growing, "growing", false, "begin with states that grow")
	complete(c, "lang", template.Languages()...)
	return c
}

func (a *app) pluginInit(name, language string, growing bool) error {
	if !record.ValidPluginName(name) {
		return usagef("%q is not a plugin name: 1 to %d of a-z, 0-9, - and _", name,
			record.MaxPluginNameBytes)
	}
	files, err := template.Files(language, name, growing)
	if err != nil {
		return usagef("--lang: %w", err)
	}
	if err := os.Mkdir(name, 0o755); err != nil {
		return fmt.Errorf("%w; a new plugin gets a folder of its own", err)
	}
	w, err := a.writer(false, left("file"), right("bytes"))
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(name, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Content, 0o644); err != nil {
			return err
		}
		if err := w.Row(output.Text(path), output.Bytes(len(f.Content))); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	a.note("next: cd %s && pentad plugin build && pentad plugin test", name)
	return nil
}

func (a *app) pluginBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build [FOLDER]",
		Short: "Build the module of a plugin",
		Long: `Build the module of a plugin with the Makefile of its folder, which names what is missing. What
the compiler says goes to stderr.`,
		Args: arguments(0, 1, ""),
		Example: `  pentad plugin build
  pentad plugin build ./busy
  pentad plugin build ./busy -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			folder := "."
			if len(args) == 1 {
				folder = args[0]
			}
			return a.pluginBuild(c.Context(), folder)
		},
	}
}

func (a *app) pluginBuild(ctx context.Context, folder string) error {
	if _, err := os.Stat(filepath.Join(folder, "Makefile")); err != nil {
		return fmt.Errorf("%w; pentad plugin init NAME makes a folder that can be built", err)
	}
	build := exec.CommandContext(ctx, "make", "--no-print-directory")
	build.Dir, build.Stdout, build.Stderr = folder, a.stderr, a.stderr
	err := build.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("there is no make; install it, on Debian: apt-get install make")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("make in %s: %w", folder, err)
	}
	path, err := onlyModule(folder)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return a.one([]output.Column{left("file"), right("bytes")}, output.Text(path),
		output.Bytes(info.Size()))
}

// onlyModule finds the module of a folder.
func onlyModule(folder string) (string, error) {
	found, err := filepath.Glob(filepath.Join(folder, "*"+wasmSuffix))
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", fmt.Errorf("no module *%s in %s; pentad plugin build makes it", wasmSuffix,
			folder)
	case len(found) > 1:
		return "", usagef("%s has %s; name one", folder, strings.Join(found, ", "))
	}
	return found[0], nil
}
