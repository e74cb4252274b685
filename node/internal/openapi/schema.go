package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// types derives schemas from Go types. Structs are components by their name.
type types struct {
	schemas Schema
	of      map[string]any // the Go type of each component
}

// content returns the schemas of forms.
func (t *types) content(forms []Media) Schema {
	out := Schema{}
	for _, m := range forms {
		one := Schema{}
		switch of := m.Of.(type) {
		case nil:
		case Schema:
			one["schema"] = t.resolve(of)
		default:
			one["schema"] = t.schema(reflect.TypeOf(of))
		}
		out[m.Type] = one
	}
	return out
}

// OneOf is a schema of any of the types of some values.
func OneOf(values ...any) Schema { return Schema{"anyOf": values} }

// List is the schema of an array of the type of a value.
func List(of any) Schema { return Schema{"type": "array", "items": of} }

// resolve replaces Go values in a schema by the schemas of their types.
func (t *types) resolve(s Schema) Schema {
	out := Schema{}
	for key, v := range s {
		out[key] = t.value(v)
	}
	return out
}

func (t *types) value(v any) any {
	switch v := v.(type) {
	case Schema:
		return t.resolve(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = t.value(v[i])
		}
		return list
	}
	if of := reflect.TypeOf(v); of != nil && of.Kind() == reflect.Struct {
		return t.schema(of)
	}
	return v
}

// schema returns the schema of a type.
func (t *types) schema(of reflect.Type) Schema {
	if of == reflect.TypeFor[json.RawMessage]() {
		return Schema{}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return nullable(t.schema(of.Elem()))
	case reflect.Struct:
		return t.component(of)
	case reflect.Slice:
		return Schema{"type": "array", "items": t.schema(of.Elem())}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": t.schema(of.Elem())}
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}
	case reflect.Int32, reflect.Int64:
		return Schema{"type": "integer", "format": of.Kind().String()}
	case reflect.Int, reflect.Int16, reflect.Int8:
		return Schema{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Schema{"type": "integer", "minimum": 0}
	case reflect.Interface:
		return Schema{}
	default:
		panic(fmt.Sprintf("BUG: JSON has no %s", of))
	}
}

func nullable(s Schema) Schema {
	if kind, ok := s["type"].(string); ok {
		s["type"] = []string{kind, "null"}
		return s
	}
	return Schema{"anyOf": []Schema{s, {"type": "null"}}}
}

// component returns a reference to the schema of a struct.
func (t *types) component(of reflect.Type) Schema {
	name := upper(of.Name())
	ref := Schema{"$ref": "#/components/schemas/" + name}
	if known, ok := t.of[name]; ok {
		if known != of {
			panic(fmt.Sprintf("BUG: %s and %s have one name", known, of))
		}
		return ref
	}
	t.of[name] = of
	members, required := Schema{}, []string{}
	t.fields(of, members, &required)
	out := Schema{"type": "object", "properties": members}
	if len(required) > 0 {
		out["required"] = required
	}
	t.schemas[name] = out
	return ref
}

// fields adds the members of a struct, and of those that are embedded in it.
func (t *types) fields(of reflect.Type, members Schema, required *[]string) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			t.fields(f.Type, members, required)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			panic(fmt.Sprintf("BUG: %s.%s has no name in JSON", of, f.Name))
		}
		members[name] = t.schema(f.Type)
		// A field hides the one of that name in a struct that is embedded.
		*required = slices.DeleteFunc(*required, func(other string) bool { return other == name })
		if !strings.Contains(options, "omit") {
			*required = append(*required, name)
		}
	}
}

func upper(name string) string {
	runes := []rune(name)
	runes[0] = unicode.ToUpper(runes[0])
	return string(runes)
}
