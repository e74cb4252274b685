package node_test

import (
	"go/ast"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// members returns the names that a struct has in JSON, sorted; none for one without tags.
func members(s *ast.StructType) (names []string) {
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			continue
		}
		if text, ok := reflect.StructTag(tag).Lookup("json"); ok {
			name, _, _ := strings.Cut(text, ",")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestDocumentsAreDeclaredOnce keeps the JSON documents of server and client in sdk/api: the client
// declares none, and no two packages declare structs with the same members.
func TestDocumentsAreDeclaredOnce(t *testing.T) {
	type place struct{ pkg, at string }
	declared := map[string]place{}
	for _, s := range sources(t) {
		pkg := path.Dir(s.path)
		if s.isTest() || strings.HasPrefix(pkg, "bench") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			shape, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			at := s.path + ":" + strconv.Itoa(s.line(shape))
			names := members(shape)
			if len(names) > 0 && pkg == "sdk/client" {
				t.Errorf("%s: a document of the client; declare it in sdk/api", at)
			}
			key := strings.Join(names, " ")
			first, known := declared[key]
			switch {
			case len(names) < 2:
			case !known:
				declared[key] = place{pkg, at}
			case first.pkg != pkg:
				t.Errorf("%s: the members of %s again (%s); declare them once, in sdk/api", at,
					first.at, key)
			}
			return true
		})
	}
	if len(declared) < 50 {
		t.Errorf("only %d documents were found", len(declared))
	}
}
