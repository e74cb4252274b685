package plugins

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/plugin/template"
)

func (a *app) pluginInitCommand() *cobra.Command {
	var language string
	var growing bool
	languages := strings.Join(template.Languages(), ", ")
	c := &cobra.Command{
		Use:   "init NAME",
		Short: "Create the project of a new plugin",
		Long: `Create the project of a new plugin: a working aggregate that computes a mean, a Makefile, and test
records. With --growing the plugin counts texts: it has variable-size states, text parameters and
results, and gets the reading before each window.`,
		Args: cli.Arguments(1, 1, "the name of the plugin"),
		Example: `  pentad plugin init busy --lang c
  pentad plugin init busy-in-go --lang go
  pentad plugin init alarms --lang c --growing
  pentad plugin init busy-in-rust --lang rust -o json`,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.pluginInit(args[0], language, growing)
		},
	}
	c.Flags().StringVar(&language, "lang", "c", "programming language: "+languages)
	c.Flags().BoolVar(&growing, "growing", false, "generate a plugin with variable-size states")
	cli.Complete(c, "lang", template.Languages()...)
	return c
}

func (a *app) pluginInit(name, language string, growing bool) error {
	if err := checkName(name); err != nil {
		return err
	}
	files, err := template.Files(language, name, growing)
	if err != nil {
		return cli.Usagef("--lang: %w", err)
	}
	if err := os.Mkdir(name, 0o755); err != nil {
		return fmt.Errorf("%w; a new plugin needs a new directory", err)
	}
	w, err := a.Writer(false, cli.Left("file"), cli.Right("bytes"))
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
	a.Note("next: cd %s && pentad plugin build && pentad plugin test", name)
	return nil
}

func (a *app) pluginBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build [FOLDER]",
		Short: "Build the module of a plugin",
		Long: `Build the module of a plugin with the Makefile of its directory, which reports missing tools. The
output of the compiler goes to stderr.`,
		Args: cli.Arguments(0, 1, ""),
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
		return fmt.Errorf("%w; create a project with pentad plugin init NAME", err)
	}
	build := exec.CommandContext(ctx, "make", "--no-print-directory")
	build.Dir, build.Stdout, build.Stderr = folder, a.Stderr, a.Stderr
	err := build.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("make: not installed; on Debian run apt-get install make")
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
	return a.One([]output.Column{cli.Left("file"), cli.Right("bytes")}, output.Text(path),
		output.Bytes(info.Size()))
}

// onlyModule finds the module of a folder.
func onlyModule(folder string) (string, error) {
	found, err := filepath.Glob(filepath.Join(folder, "*"+queryflags.WasmSuffix))
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", fmt.Errorf("no module *%s in %s; build it with pentad plugin build",
			queryflags.WasmSuffix, folder)
	case len(found) > 1:
		return "", cli.Usagef("%s: several modules, %s; give one of them", folder,
			strings.Join(found, ", "))
	}
	return found[0], nil
}
