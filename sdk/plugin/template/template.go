// Package template holds what a new plugin starts from: for each language two small plugins that
// work, one of them with states that grow, how to build them, what they need of the sdk, and
// examples to test them by.
//
// It writes and runs nothing. [Files] lists the files of a language.
package template

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/sdk/plugin/as"
	"github.com/pentad-db/pentad/sdk/plugin/c"
	"github.com/pentad-db/pentad/sdk/plugin/rust"
)

// Files that are built in place are not among these.
//
//go:embed common/README.md common/testdata/example c/Makefile c/plugin.c go/Makefile go/*.tmpl
//go:embed rust/Makefile rust/plugin.rs as/Makefile as/plugin.ts as/gitignore.tmpl
//go:embed growing/common/README.md growing/common/testdata/example
//go:embed growing/c/plugin.c growing/go/main.go.tmpl growing/rust/plugin.rs growing/as/plugin.ts
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
// name is one that a node accepts. The plugin computes a mean; a growing one counts texts.
//
// Errors: a language without a template.
func Files(language, name string, growing bool) ([]File, error) {
	out, err := sdk(language)
	if err != nil {
		return nil, err
	}
	folders := []string{"common", language}
	if growing { // what is in both folders is taken from the second
		folders = append(folders, "growing/common", "growing/"+language)
	}
	for _, folder := range folders {
		err := fs.WalkDir(files, folder, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := files.ReadFile(file)
			f := File{Path: target(strings.TrimPrefix(file, folder+"/")),
				Content: bytes.ReplaceAll(content, []byte(placeholder), []byte(name))}
			same := func(other File) bool { return other.Path == f.Path }
			if i := slices.IndexFunc(out, same); i >= 0 {
				out[i] = f
			} else {
				out = append(out, f)
			}
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
	all := func(names []string, file func(name string) []byte) ([]File, error) {
		out := make([]File, len(names))
		for i, name := range names {
			out[i] = File{name, file(name)}
		}
		return out, nil
	}
	switch language {
	case "c":
		return all(c.Names(), c.File)
	case "go":
		return nil, nil // the module that go.mod names
	case "rust":
		return all(rust.Names(), rust.File)
	case "as":
		return all(as.Names(), as.File)
	}
	return nil, fmt.Errorf("there is no template for the language %q; there are %s", language,
		strings.Join(Languages(), ", "))
}
