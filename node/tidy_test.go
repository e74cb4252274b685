package node_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/pentad-db/pentad/cluster-test/rounds"
)

const (
	module = "github.com/pentad-db/pentad/"

	maxFileLines     = 500
	maxFunctionLines = 70
	maxLineColumns   = 100
	tabColumns       = 4
)

// packages says what each package may import: other packages, and libraries, of which each heavy
// one has one home. A package below is the folder and everything in it that has no entry of its
// own.
func packages() map[string][]string {
	return map[string][]string{
		// The vocabulary.
		"sdk/crc32c":  {}, // these two may be imported by every package
		"sdk/excerpt": {},
		"sdk/expr":    {},
		"sdk/where":   {"sdk/expr", "sdk/plugin"},
		"sdk/record":  {"sdk/registry", "sdk/where"}, "sdk/registry": {"sdk/expr"},
		"sdk/api":    {"sdk/record"},
		"sdk/wire":   {"sdk/record", "sdk/registry", "sdk/api", "github.com/pierrec/lz4/v4"},
		"sdk/plugin": {}, "sdk/plugin/template": {"sdk/plugin"}, "sdk/examples": {},
		"sdk/plugin/guest/sealed": {"sdk/plugin"},
		// What knows nothing of the node.
		"sdk/seal":   {"sdk/record"},
		"sdk/client": {"sdk/record", "sdk/registry", "sdk/wire", "sdk/api", "sdk/plugin"},
		"index":      {"sdk/record", "github.com/RoaringBitmap/roaring/v2", "golang.org/x/sys"},
		"wasmhost": {"sdk/record", "sdk/plugin", "github.com/tetratelabs/wazero",
			"golang.org/x/sys"}, "plugins": {"sdk/plugin"},
		// The node, from its store up.
		"node/internal/catalog": {"sdk/record", "sdk/plugin", "node/internal/formats",
			"node/internal/journal", "node/internal/durable"},
		"node/internal/aggregate": {"sdk/plugin", "sdk/record", "sdk/registry", "sdk/wire",
			"wasmhost", "node/store", "node/internal/calendar", "node/internal/partials",
			"node/internal/registry", "node/internal/spill"},
		"node/internal/feed": {"sdk/record", "sdk/wire", "node/store"},
		"node/internal/puts": {"sdk/record", "sdk/wire", "node/internal/slots", "node/store"},
		"node/internal/registry": {"sdk/record", "sdk/api", "sdk/wire", "sdk/plugin", "plugins",
			"sdk/registry", "wasmhost", "node/internal/catalog", "node/internal/durable",
			"node/internal/health", "node/segment"},
		"node/internal/cursors": {"node/internal/durable", "node/internal/formats",
			"node/internal/health", "node/internal/journal"},
		"node/internal/calendar": {"sdk/record", "node/internal/timeparse"},
		"node/internal/clock":    {"node/internal/health", "golang.org/x/sys"},
		"node/internal/selector": {"sdk/record", "node/internal/timeparse"},
		"node/internal/spill": {"sdk/record", "sdk/wire", "node/internal/durable",
			"golang.org/x/sys"},
		"node": {"sdk/record", "sdk/api", "sdk/wire", "sdk/plugin", "sdk/client", "plugins",
			"wasmhost", "node/store", "node/internal", "node/cluster", "node/replica",
			"github.com/prometheus/client_golang"},
		// Programs, and tests that start processes.
		"cluster-test": {"sdk", "golang.org/x/sys", "github.com/anishathalye/porcupine"},
		"node/cmd/pentad": {"sdk", "node", "wasmhost", "node/internal", "node/cmd/pentad",
			"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/goccy/go-yaml",
			"github.com/jedib0t/go-pretty/v6",
			"golang.org/x/term", "golang.org/x/sys"},
		"node/cmd/pentad/internal/load": {"sdk/record", "github.com/HdrHistogram/hdrhistogram-go"},
	}
}

// leaves are packages of the node that import no other, or next to none.
func leaves() map[string][]string {
	table := map[string][]string{"cluster-test/required": {}, "cluster-test/story": {},
		"cluster-test/rounds":      {},
		"cluster-test/warmcode":    {"plugins", "wasmhost"},
		"cluster-test/leaks":       {"go.uber.org/goleak"},
		"node/internal/accept":     {"node/internal/health"},
		"node/internal/durable":    {"golang.org/x/sys"},
		"node/internal/health":     {"sdk/api"},
		"node/internal/strictjson": {"github.com/go-json-experiment/json"},
		"node/internal/memory":     {"golang.org/x/sys"},
		"node/internal/prefault":   {"index", "node/internal/memory"}}
	for _, name := range []string{"budget", "formats", "freeaddr", "golden",
		"openapi", "partials", "release", "admission", "hedge", "sector", "timeparse"} {
		table["node/internal/"+name] = []string{}
	}
	return table
}

// filePackages are the packages of forms of files.
func filePackages() map[string][]string {
	const common = "node/cmd/pentad/internal/exchange"
	return map[string][]string{
		"node/cmd/pentad/internal/arrowfile": {"sdk/record", common,
			"github.com/apache/arrow-go/v18"},
		"node/cmd/pentad/internal/parquetfile": {"sdk/record", common,
			"github.com/parquet-go/parquet-go"},
	}
}

// testLibraries may be imported by any test.
var testLibraries = []string{"github.com/rogpeppe/go-internal", "github.com/getkin/kin-openapi"}

// source is one parsed Go file.
type source struct {
	path string // from the top of the repository, with slashes
	text []byte
	set  *token.FileSet
	file *ast.File
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s *source) line(n ast.Node) int { return s.set.Position(n.Pos()).Line }

// sources returns every Go file of the repository; they are parsed once.
func sources(t *testing.T) []*source {
	t.Helper()
	rounds.NotUnderRace(t, "it reads sources in one goroutine")
	out, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 100 {
		t.Fatalf("found only %d files", len(out))
	}
	return out
}

var parsed = sync.OnceValues(parse)

func parse() (out []*source, err error) {
	err = filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "out") {
			return filepath.SkipDir
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s := &source{path: filepath.ToSlash(name)[len("../"):], text: text, set: token.NewFileSet()}
		s.file, err = parser.ParseFile(
			s.set,
			s.path,
			text,
			parser.ParseComments|parser.SkipObjectResolution,
		)
		out = append(out, s)
		return err
	})
	return out, err
}

// TestImports keeps the arrows between packages pointing down, and every heavy library in one
// package.
func TestImports(t *testing.T) {
	table := packages()
	maps.Copy(table, leaves())
	maps.Copy(table, gateways())
	maps.Copy(table, measurements())
	maps.Copy(table, filePackages())
	maps.Copy(table, commandPackages())
	maps.Copy(table, clusterPackages())
	maps.Copy(table, replicaPackages())
	maps.Copy(table, httpPackages())
	maps.Copy(table, storePackages())
	maps.Copy(table, readingPackages())
	met := map[string]bool{}
	for _, s := range sources(t) {
		pkg := path.Dir(s.path)
		for table[pkg] == nil && pkg != "." {
			pkg = path.Dir(pkg)
		}
		allowed, ok := table[pkg]
		if !ok {
			t.Errorf("%s: its package is not in the table of packages", s.path)
			continue
		}
		met[pkg] = true
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			own := strings.HasPrefix(name, module)
			name = strings.TrimPrefix(name, module)
			if first, _, _ := strings.Cut(name, "/"); !own && !strings.Contains(first, ".") {
				continue // the standard library
			}
			if s.isTest() && (own || within(name, testLibraries)) || within(name, allowed) ||
				own && (name == pkg || within(name, []string{"sdk/crc32c", "sdk/excerpt"})) {
				continue
			}
			t.Errorf("%s:%d: %s may not import %s", s.path, s.line(spec), pkg, name)
		}
	}
	for pkg := range table {
		if !met[pkg] {
			t.Errorf("the table names %s, where no Go file is", pkg)
		}
	}
}

func within(name string, allowed []string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		return name == a || strings.HasPrefix(name, a+"/")
	})
}

// TestShape keeps files, functions and lines short enough to read.
func TestShape(t *testing.T) {
	for _, s := range sources(t) {
		lines := bytes.Split(s.text, []byte("\n"))
		if len(lines) > maxFileLines {
			t.Errorf("%s: %d lines, at most %d", s.path, len(lines), maxFileLines)
		}
		for i, line := range lines {
			columns := utf8.RuneCount(line) + (tabColumns-1)*bytes.Count(line, []byte("\t"))
			text := bytes.Count(line, []byte("`"))%2 == 1 // begins a text for people
			if columns > maxLineColumns && !text && !bytes.Contains(line, []byte("://")) {
				t.Errorf("%s:%d: %d columns, at most %d", s.path, i+1, columns, maxLineColumns)
			}
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.set.Position(f.End()).Line - s.line(f) + 1; n > maxFunctionLines {
				t.Errorf("%s:%d: %s has %d lines, at most %d", s.path, s.line(f), f.Name.Name, n,
					maxFunctionLines)
			}
		}
	}
}

// TestPackageComments wants one package comment per package, which go doc shows.
func TestPackageComments(t *testing.T) {
	comments := map[string]int{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		dir := path.Dir(s.path)
		comments[dir] += 0
		if s.file.Doc != nil {
			comments[dir]++
		}
	}
	for dir, n := range comments {
		if n != 1 {
			t.Errorf("%s: %d package comments, want 1", dir, n)
		}
	}
}

// TestNoHiddenState wants no init functions, and package variables only for errors and for what
// never changes.
func TestNoHiddenState(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == "init" && d.Recv == nil {
					t.Errorf("%s:%d: an init function; let the owner call it", s.path, s.line(d))
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR || s.isTest() {
					continue
				}
				for _, spec := range d.Specs {
					checkVar(t, s, d, spec.(*ast.ValueSpec))
				}
			}
		}
	}
}

// checkVar allows errors, tables, pools, compile-time checks and embedded files.
func checkVar(t *testing.T, s *source, d *ast.GenDecl, spec *ast.ValueSpec) {
	t.Helper()
	embedded := d.Doc != nil && strings.Contains(d.Doc.List[len(d.Doc.List)-1].Text, "go:embed")
	for i, name := range spec.Names {
		if embedded || name.Name == "_" || i < len(spec.Values) && constant(spec.Values[i]) {
			continue
		}
		t.Errorf("%s:%d: package variable %s; hand it to those who need it", s.path, s.line(spec),
			name.Name)
	}
}

// constant reports whether a value is an error, also one of another package, a table or a pool.
func constant(value ast.Expr) bool {
	switch v := value.(type) {
	case *ast.CompositeLit, *ast.BasicLit:
		return true
	case *ast.SelectorExpr:
		return strings.HasPrefix(v.Sel.Name, "Err")
	case *ast.CallExpr:
		f, ok := v.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		from, ok := f.X.(*ast.Ident)
		return ok && slices.Contains([]string{"errors.New", "fmt.Errorf", "regexp.MustCompile",
			"crc32.MakeTable", "strings.NewReplacer",
			"sync.OnceValue"}, from.Name+"."+f.Sel.Name)
	}
	return false
}

// TestBannedWords finds what must not be merged.
func TestBannedWords(t *testing.T) {
	for _, s := range sources(t) {
		for i, line := range strings.Split(string(s.text), "\n") {
			for _, word := range []string{"FIX" + "ME", "XX" + "X"} {
				if strings.Contains(line, word) {
					t.Errorf("%s:%d: %s", s.path, i+1, word)
				}
			}
			sleeps := strings.Contains(line, "time."+"Sleep(")
			if sleeps && s.isTest() && !strings.Contains(string(s.text), `"testing/synctest"`) {
				t.Errorf("%s:%d: sleeps; wait for what is to happen", s.path, i+1)
			}
		}
	}
}

// TestProblemsAreDocumented wants every code of a problem in the page for operators.
func TestProblemsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "sdk", "docs", "health.md"))
	if err != nil {
		t.Fatal(err)
	}
	codes := 0
	form := regexp.MustCompile(`Code: +"([a-z_]+)"|add\("([a-z_]+)"`)
	for _, s := range sources(t) {
		if s.isTest() || !bytes.Contains(s.text, []byte("node/internal/health")) {
			continue
		}
		for _, m := range form.FindAllSubmatch(s.text, -1) {
			codes++
			code := string(m[1]) + string(m[2])
			if !bytes.Contains(page, []byte("| `"+code+"` |")) {
				t.Errorf("%s: the code %q is not in sdk/docs/health.md", s.path, code)
			}
		}
	}
	if codes < 10 {
		t.Errorf("%d codes were found", codes)
	}
}

// TestSpecificationsAreTested wants every format document read by a test beside it, so that its
// worked examples stay true.
func TestSpecificationsAreTested(t *testing.T) {
	for _, doc := range []string{"node/segment/FORMAT.md", "node/wal/FORMAT.md",
		"sdk/wire/PROTOCOL.md", "sdk/plugin/ABI.md", "node/gateway/tstorage/TSTORAGE.md",
		"sdk/seal/SEALING.md",
		"node/cluster/FORMAT.md", "node/replica/FORMAT.md"} {
		read := false
		for _, s := range sources(t) {
			read = read || s.isTest() && path.Dir(s.path) == path.Dir(doc) &&
				bytes.Contains(s.text, []byte(strconv.Quote(path.Base(doc))))
		}
		if _, err := os.Stat(filepath.Join("..", doc)); err != nil || !read {
			t.Errorf("%s: no test beside it reads it, %v", doc, err)
		}
	}
}
