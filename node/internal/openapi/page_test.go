package openapi_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

var update = flag.Bool("update", false, "write the page of the HTTP interface")

const pageHead = "# The HTTP interface\n\n" +
	"Every route of a node. A node serves the same as OpenAPI 3.1 at `/openapi.json`, for code " +
	"generators and\ndocumentation viewers; `make api-page` writes this page from it. " +
	"[Reading and writing from programs](clients.md)\nhas examples. " +
	"Bodies of type `application/vnd.pentad.v1` are binary frames of [the protocol]" +
	"(../wire/PROTOCOL.md).\nA star marks parameters that must be there.\n\n" +
	"Errors are `application/problem+json` with `detail` for people, `code` for programs and " +
	"`part`, the parameter\nthat is wrong:\n\n"

// TestPage compares sdk/docs/http.md with the description that a node serves.
func TestPage(t *testing.T) {
	file := filepath.Join("..", "..", "..", "sdk", "docs", "http.md")
	want := page(open(t).doc)
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what a node says of itself, %v; run make api-page", file, err)
	}
}

// page writes a description for people.
func page(doc *openapi3.T) string {
	var b strings.Builder
	b.WriteString(pageHead)
	b.WriteString("| status | meaning |\n|---|---|\n")
	for _, status := range errorStatuses(doc) {
		fmt.Fprintf(&b, "| %s | %s |\n", status.code, status.text)
	}
	for _, tag := range doc.Tags {
		fmt.Fprintf(&b, "\n## %s\n", tag.Name)
		for _, path := range doc.Paths.InMatchingOrder() {
			for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
				op := doc.Paths.Value(path).GetOperation(method)
				if op != nil && slices.Contains(op.Tags, tag.Name) {
					writeOperation(&b, method, path, op)
				}
			}
		}
	}
	return b.String()
}

type errorStatus struct{ code, text string }

// errorStatuses lists the statuses of errors of all operations.
func errorStatuses(doc *openapi3.T) (all []errorStatus) {
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			for code, r := range op.Responses.Map() {
				one := errorStatus{code, *r.Value.Description}
				if r.Ref != "" && !slices.Contains(all, one) {
					all = append(all, one)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b errorStatus) int { return strings.Compare(a.code, b.code) })
	return all
}

func writeOperation(b *strings.Builder, method, path string, op *openapi3.Operation) {
	fmt.Fprintf(b, "\n### %s %s\n\n%s\n", method, path, op.Description)
	if len(op.Parameters) > 0 {
		b.WriteString("\n| parameter | type | meaning |\n|---|---|---|\n")
	}
	for _, p := range op.Parameters {
		name := "`" + p.Value.Name + "`"
		if p.Value.In == "header" {
			name += " (header)"
		}
		if p.Value.Required {
			name += " *"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, typeName(p.Value.Schema), p.Value.Description)
	}
	if op.RequestBody != nil {
		needed := "Body"
		if !op.RequestBody.Value.Required {
			needed = "Body, optional"
		}
		fmt.Fprintf(b, "\n%s: %s.\n", needed, contentName(op.RequestBody.Value.Content))
	}
	b.WriteString("\n")
	for _, code := range sortedKeys(op.Responses.Map()) {
		r := op.Responses.Map()[code]
		if r.Ref == "" {
			fmt.Fprintf(b, "- %s: %s: %s.\n", code, *r.Value.Description,
				contentName(r.Value.Content))
		}
	}
	b.WriteString("- Errors: " + strings.Join(errorsOf(op), ", ") + ".\n")
}

func errorsOf(op *openapi3.Operation) (codes []string) {
	for _, code := range sortedKeys(op.Responses.Map()) {
		if op.Responses.Map()[code].Ref != "" {
			codes = append(codes, code)
		}
	}
	return codes
}

// contentName names the forms of a body.
func contentName(content openapi3.Content) string {
	var forms []string
	for _, form := range sortedKeys(content) {
		name := "`" + form + "`"
		if s := content[form].Schema; s != nil && typeName(s) != "" {
			name += " (" + typeName(s) + ")"
		}
		forms = append(forms, name)
	}
	return strings.Join(forms, ", or ")
}

// typeName names a schema in a few words.
func typeName(s *openapi3.SchemaRef) string {
	v := s.Value
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	case len(v.AnyOf) > 0:
		var names []string
		for _, one := range v.AnyOf {
			names = append(names, typeName(one))
		}
		return strings.Join(names, " or ")
	case len(v.Enum) > 0:
		var values []string
		for _, one := range v.Enum {
			values = append(values, fmt.Sprintf("`%v`", one))
		}
		return strings.Join(values, ", ")
	case v.Type.Is("array"):
		return typeName(v.Items) + ", repeated"
	case v.Type.Is("object"):
		var names []string
		for _, name := range sortedKeys(v.Properties) {
			names = append(names, "`"+name+"`")
		}
		return strings.Join(names, ", ")
	case v.Type == nil || len(v.Type.Slice()) == 0:
		return ""
	}
	return v.Type.Slice()[0]
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
