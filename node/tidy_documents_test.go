package node_test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// declared is where a name is declared: its file, and the type or package that it belongs to.
type declared struct{ file, owner string }

// declarations returns what the repository declares, but in tests, by name.
func declarations(t *testing.T) map[string][]declared {
	all := map[string][]declared{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		add := func(owner string, names ...*ast.Ident) {
			for _, n := range names {
				all[n.Name] = append(all[n.Name], declared{s.path, owner})
			}
		}
		pkg := s.file.Name.Name
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				add(receiver(f, pkg), f.Name)
				continue
			}
			for _, spec := range d.(*ast.GenDecl).Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					add(pkg, spec.Names...)
				case *ast.TypeSpec:
					add(pkg, spec.Name)
					if of, ok := spec.Type.(*ast.StructType); ok {
						for _, field := range of.Fields.List {
							add(spec.Name.Name, field.Names...)
						}
					}
				}
			}
		}
	}
	return all
}

// receiver returns the type that a function is a method of, otherwise pkg.
func receiver(f *ast.FuncDecl, pkg string) (owner string) {
	if f.Recv == nil {
		return pkg
	}
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && owner == "" {
			owner = id.Name
		}
		return true
	})
	return owner
}

// filesOf returns the files of the repository that a path in a document means: it is given from
// the top, or from a folder on whose name no other has.
func filesOf(all []string, name string) []string {
	if slices.Contains(all, name) {
		return []string{name}
	}
	return slices.DeleteFunc(slices.Clone(all), func(file string) bool {
		return !strings.HasSuffix(file, "/"+name)
	})
}

var (
	goFileName = regexp.MustCompile(`[\w/]*\w\.go\b`)
	codeName   = regexp.MustCompile(
		"`([A-Za-z]\\w*(?:\\.[A-Za-z]\\w*)*)`( in | \\(|)([\\w/]+\\.go)?")
	codePath = regexp.MustCompile("`(\\w+(?:/\\w+)+)`")
	lockName = regexp.MustCompile(`\b([A-Za-z]\w*(?:\.[A-Za-z]\w*)+)\b`)
)

// TestArchitectureIsTrue finds what ARCHITECTURE.md names and the repository does not have: files,
// folders, and functions, types and fields, which are in the file that follows their names.
func TestArchitectureIsTrue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	folders := map[string]bool{}
	for _, s := range sources(t) {
		files = append(files, s.path)
		for dir := path.Dir(s.path); dir != "."; dir = path.Dir(dir) {
			folders[dir], folders[path.Base(dir)] = true, true
		}
	}
	known := declarations(t)
	locks := false // the section is that of locks, which it names without marks
	for i, line := range strings.Split(string(text), "\n") {
		locks = locks || line == "## Lock order"
		for _, name := range goFileName.FindAllString(line, -1) {
			found := filesOf(files, name)
			if name != "_test.go" && (len(found) != 1 || !strings.Contains(name, "/")) {
				t.Errorf("ARCHITECTURE.md:%d: %s is %d files %v; name its folder, and if need "+
					"be the one above", i+1, name, len(found), found)
			}
		}
		for _, m := range codePath.FindAllStringSubmatch(line, -1) {
			if !folders[m[1]] {
				t.Errorf("ARCHITECTURE.md:%d: there is no folder %s", i+1, m[1])
			}
		}
		for _, m := range codeName.FindAllStringSubmatch(line, -1) {
			name, inFile := m[1], m[3]
			if folders[name] || strings.ToUpper(name) == name || path.Ext(name) == ".md" {
				continue
			}
			if !isDeclared(known, name, filesOf(files, inFile)) {
				t.Errorf("ARCHITECTURE.md:%d: %s is not declared, or not in %q", i+1, name, inFile)
			}
		}
		for _, name := range lockName.FindAllString(line, -1) {
			if locks && !isDeclared(known, name, nil) {
				t.Errorf("ARCHITECTURE.md:%d: %s is not declared", i+1, name)
			}
		}
	}
}

// isDeclared reports whether a name is declared, such as commit, Store.commit or wal.Log.Append; in
// one of some files, if there are any.
func isDeclared(known map[string][]declared, name string, in []string) bool {
	parts := strings.Split(name, ".")
	last := parts[len(parts)-1]
	return slices.ContainsFunc(known[last], func(d declared) bool {
		owned := len(parts) == 1 || d.owner == parts[len(parts)-2]
		return owned && (len(in) == 0 || slices.Contains(in, d.file))
	})
}
