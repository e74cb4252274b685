package csvimport

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// places are the lines of a mapping file that its parts were read from, by their paths: cap.zone,
// values.2.column.
type places struct {
	file  string
	lines map[string]int // 0: not from the file
}

// placeError is an error in a line of a mapping.
type placeError struct {
	file string
	line int
	err  error
}

// Error implements error.
func (e *placeError) Error() string {
	if e.file == "" {
		return fmt.Sprintf("line %d: %v", e.line, e.err)
	}
	return fmt.Sprintf("%s:%d: %v", e.file, e.line, e.err)
}

// Unwrap returns what is wrong.
func (e *placeError) Unwrap() error { return e.err }

// at names the line of a path, or of what it is part of.
func (p *places) at(path string, err error) error {
	for err != nil {
		line, ok := p.lines[path]
		if ok && line == 0 {
			break
		}
		if ok {
			return &placeError{p.file, line, err}
		}
		dot := strings.LastIndexByte(path, '.')
		if dot < 0 {
			break
		}
		path = path[:dot]
	}
	return err
}

// missing names the file of an error about what is not in it.
func (p *places) missing(err error) error {
	if p.file == "" {
		return err
	}
	return fmt.Errorf("%s: %w", p.file, err)
}

// Override says that a path, and all below it, does not come from the file.
func (m *Mapping) Override(path string) {
	for known := range m.places.lines {
		if known == path || strings.HasPrefix(known, path+".") {
			delete(m.places.lines, known)
		}
	}
	if m.places.lines != nil {
		m.places.lines[path] = 0
	}
}

// readPlaces notes where the parts of a mapping are, and reports keys that it does not have and
// values of a wrong kind in its own words.
func readPlaces(source []byte, into reflect.Type) (places, error) {
	p := places{lines: map[string]int{}}
	file, err := parser.ParseBytes(source, 0)
	if err != nil || len(file.Docs) == 0 {
		return p, nil // the decoder says it
	}
	return p, p.value(file.Docs[0].Body, into, "", nil)
}

// value checks a node against the type that it is decoded into; parent is the type that it is a
// member of.
func (p *places) value(n ast.Node, t reflect.Type, path string, parent reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if anchor, ok := n.(*ast.AnchorNode); ok {
		n = anchor.Value
	}
	switch n := n.(type) {
	case nil, *ast.NullNode, *ast.AliasNode, *ast.TagNode:
		return nil // the decoder looks at what they stand for
	case *ast.SequenceNode:
		if t.Kind() != reflect.Slice {
			return p.wrong(n, path, listFor(path, t, parent))
		}
		for i, item := range n.Values {
			inner := path + "." + strconv.Itoa(i+1)
			p.lines[inner] = item.GetToken().Position.Line
			if err := p.value(item, t.Elem(), inner, parent); err != nil {
				return err
			}
		}
		return nil
	case ast.MapNode:
		switch t.Kind() {
		case reflect.Struct:
			return p.members(n, t, path)
		case reflect.Map:
			return nil
		}
	}
	return p.wrong(n, path, scalarFor(n, t))
}

// members checks the keys of a struct and their values.
func (p *places) members(n ast.MapNode, t reflect.Type, path string) error {
	for pair := n.MapRange(); pair.Next(); {
		name := keyText(pair.Key())
		if _, merge := pair.Key().(*ast.MergeKeyNode); merge {
			continue
		}
		line := pair.Key().GetToken().Position.Line
		inner := strings.TrimPrefix(path+"."+name, ".")
		p.lines[inner] = line
		member, known := memberOf(t, name)
		if !known {
			return &placeError{line: line, err: fmt.Errorf("%sunknown key %q%s; there are %s",
				within(path), excerpt.Of(name, 60), excerpt.DidYouMean(name, keysOf(t)),
				strings.Join(keysOf(t), ", "))}
		}
		if err := p.value(pair.Value(), member.Type, inner, t); err != nil {
			return err
		}
	}
	return nil
}

func (p *places) wrong(n ast.Node, path, want string) error {
	if want == "" {
		return nil
	}
	if path == "" {
		return &placeError{line: n.GetToken().Position.Line, err: errors.New(
			"a mapping has keys, e.g. cid, mid, cap and values")}
	}
	parent, key := "", path
	if dot := strings.LastIndexByte(path, '.'); dot >= 0 {
		parent, key = path[:dot], path[dot+1:]
	}
	return &placeError{line: n.GetToken().Position.Line,
		err: fmt.Errorf("%s%q %s", within(parent), key, want)}
}

// listFor says what a key takes that was given a list.
func listFor(path string, t, parent reflect.Type) string {
	key := path[strings.LastIndexByte(path, '.')+1:]
	several, _ := memberOf(parent, key+"s")
	switch {
	case t.Kind() == reflect.Struct:
		return "takes keys, not a list: " + strings.Join(keysOf(t), ", ")
	case t.Kind() == reflect.Map:
		return "takes keys, not a list, e.g. {name: value}"
	case several.Type != nil && several.Type.Kind() == reflect.Slice:
		return fmt.Sprintf("takes one name; use %q for several", key+"s")
	case parent == reflect.TypeFor[Value]() && key == "column":
		return "takes one name; give each column a value of its own"
	}
	return "takes one value, not a list"
}

// scalarFor says what a key takes if a text, or keys, are not it.
func scalarFor(n ast.Node, t reflect.Type) string {
	given := excerpt.Of(n.GetToken().Value, 60)
	_, scalar := n.(ast.ScalarNode)
	switch t.Kind() {
	case reflect.Slice:
		return "takes a list, e.g. [a, b]"
	case reflect.Struct:
		if t == reflect.TypeFor[Zone]() && scalar {
			return ""
		}
		return "takes keys, e.g. {column: name}; there are " + strings.Join(keysOf(t), ", ")
	case reflect.Map:
		return "takes keys, e.g. {name: value}"
	case reflect.Int, reflect.Int64:
		if _, err := strconv.ParseInt(n.GetToken().Value, 0, 64); err != nil {
			return fmt.Sprintf("takes an integer, not %q", given)
		}
	case reflect.Bool:
		if _, ok := n.(*ast.BoolNode); !ok {
			return fmt.Sprintf("takes true or false, not %q", given)
		}
	default:
		if !scalar {
			return "takes one value, not keys"
		}
	}
	return ""
}

func within(path string) string {
	if path == "" {
		return ""
	}
	return strings.Replace(path, "values.", "value ", 1) + ": "
}

func keyText(key ast.MapKeyNode) string { return key.GetToken().Value }

// keysOf returns the keys of a struct in their order.
func keysOf(t reflect.Type) (keys []string) {
	for field := range t.Fields() {
		if key := field.Tag.Get("yaml"); key != "" && key != "-" {
			keys = append(keys, key)
		}
	}
	return keys
}

func memberOf(t reflect.Type, key string) (member reflect.StructField, known bool) {
	if t == nil || key == "-" || key == "" {
		return member, false
	}
	for field := range t.Fields() {
		if field.Tag.Get("yaml") == key {
			return field, true
		}
	}
	return member, false
}
