// Package template holds what a new plugin starts from: for each language a small plugin that
// works, how to build it, what it needs of the sdk, and an example to test it by.
//
// It writes and runs nothing. [Files] lists the files of a language.
package template

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pentad-db/pentad/sdk/plugin/as"
	"github.com/pentad-db/pentad/sdk/plugin/c"
	"github.com/pentad-db/pentad/sdk/plugin/rust"
)

// Files that are built in place are not among these.
//
//go:embed common/README.md common/testdata/example c/Makefile c/plugin.c go/Makefile go/*.tmpl
//go:embed rust/Makefile rust/plugin.rs as/Makefile as/plugin.ts as/gitignore.tmpl
var files embed.FS

// placeholder stands for the name of the plugin wherever that is said.
const placeholder = "PLUGIN_NAME"

// Languages returns what [Files] takes, as authors write it.
func Languages() []string { return []string{"c", "go", "rust", "as"} }

// File is a file of a new plugin.
type File struct {
	Path    string // from the folder of the plugin, with slashes
	Content []byte // belongs to the caller
}

// Files returns what the folder of a new plugin holds. Running make there builds name.wasm. The
// name is one that a node accepts.
//
// Errors: a language without a template.
func Files(language, name string) ([]File, error) {
	out, err := sdk(language)
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{"common", language} {
		err := fs.WalkDir(files, folder, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := files.ReadFile(file)
			out = append(out, File{
				Path:    target(strings.TrimPrefix(file, folder+"/")),
				Content: bytes.ReplaceAll(content, []byte(placeholder), []byte(name)),
			})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", path.Join(language, folder), err)
		}
	}
	return out, nil
}

// target returns the name of a file in the new folder. What has the suffix here would mean
// something to Go or git where it lies.
func target(name string) string {
	if name == "gitignore.tmpl" {
		return ".gitignore"
	}
	return strings.TrimSuffix(name, ".tmpl")
}

// sdk returns what a plugin of a language brings along.
func sdk(language string) ([]File, error) {
	switch language {
	case "c":
		return []File{{"pentad.h", c.Header()}}, nil
	case "go":
		return nil, nil // the module that go.mod names
	case "rust":
		return []File{{"pentad.rs", rust.Source()}}, nil
	case "as":
		var out []File
		for _, name := range as.Names() {
			out = append(out, File{name, as.File(name)})
		}
		return out, nil
	}
	return nil, fmt.Errorf("there is no template for the language %q; there are %s", language,
		strings.Join(Languages(), ", "))
}
