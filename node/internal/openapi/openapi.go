// Package openapi writes the OpenAPI 3.1 description of an HTTP interface from its operations.
//
// It owns the form of the description, and derives the schemas of JSON from Go types. It knows
// nothing of what the operations do. Its main type is [Document]; it starts no goroutines.
package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Document describes an interface.
type Document struct {
	Title, Version, About string
	License               string // its SPDX identifier
	// Problem is the JSON of every error, of content type application/problem+json; Frames is the
	// content type of errors of requests in frames.
	Problem any
	Frames  string
	// Errors says what each status of an error means.
	Errors     map[int]string
	Operations []Operation
}

// Operation is one method of one path.
type Operation struct {
	ID, Tag      string
	Method, Path string // a name in the path is in braces
	Text         string // the first sentence is the summary
	Params       []Param
	Body         []Media // forms of the body; none: it has none
	BodyOptional bool
	Answers      []Answer
	Errors       []int // statuses of errors
}

// Param is a parameter.
type Param struct {
	Name, In string // in the path, the query or a header
	Text     string
	Required bool
	Repeated bool // it may occur more than once
	Schema   Schema
}

// Answer is what an operation answers with a status.
type Answer struct {
	Status  int
	Text    string
	Content []Media
	Headers []Param // and trailers
}

// Media is a form of a body.
type Media struct {
	Type string // content type
	// Of is a Go value whose type has the schema, or a [Schema]; nil: bytes that JSON schemas do
	// not describe. A body of lines has the schema of each line.
	Of any
}

// Schema is a JSON schema.
type Schema map[string]any

// JSON returns the description.
func (d *Document) JSON() ([]byte, error) {
	types := &types{schemas: Schema{}, of: map[string]any{}}
	paths := map[string]any{}
	for i := range d.Operations {
		o := &d.Operations[i]
		item, ok := paths[o.Path].(Schema)
		if !ok {
			item = Schema{}
			paths[o.Path] = item
		}
		item[strings.ToLower(o.Method)] = d.operation(o, types)
	}
	responses := Schema{}
	for status, text := range d.Errors {
		responses[problemName(status)] = Schema{"description": text, "content": types.content(
			[]Media{{"application/problem+json", d.Problem}, {d.Frames, nil}})}
	}
	out, err := json.Marshal(Schema{
		"openapi": "3.1.0",
		"info": Schema{"title": d.Title, "version": d.Version, "description": d.About,
			"license": Schema{"name": d.License, "identifier": d.License}},
		"servers":    []Schema{{"url": "/"}},
		"tags":       d.tags(),
		"paths":      paths,
		"components": Schema{"schemas": types.schemas, "responses": responses},
	})
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI description: %w", err)
	}
	return append(out, '\n'), nil
}

// problemName is the name of the component that describes an error.
func problemName(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

func (d *Document) tags() []Schema {
	names := map[string]bool{}
	for i := range d.Operations {
		names[d.Operations[i].Tag] = true
	}
	out := []Schema{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, Schema{"name": name})
	}
	return out
}

func (d *Document) operation(o *Operation, types *types) Schema {
	summary, _, _ := strings.Cut(o.Text, ". ")
	out := Schema{"operationId": o.ID, "tags": []string{o.Tag},
		"summary": strings.TrimSuffix(summary, "."), "description": o.Text}
	params := []Schema{}
	for i := range o.Params {
		params = append(params, o.Params[i].schema())
	}
	if len(params) > 0 {
		out["parameters"] = params
	}
	if len(o.Body) > 0 {
		out["requestBody"] = Schema{"required": !o.BodyOptional, "content": types.content(o.Body)}
	}
	responses := Schema{}
	for _, a := range o.Answers {
		one := Schema{"description": a.Text}
		if len(a.Content) > 0 {
			one["content"] = types.content(a.Content)
		}
		headers := Schema{}
		for _, h := range a.Headers {
			headers[h.Name] = Schema{"description": h.Text, "schema": h.Schema}
		}
		if len(headers) > 0 {
			one["headers"] = headers
		}
		responses[strconv.Itoa(a.Status)] = one
	}
	for _, status := range o.Errors {
		responses[strconv.Itoa(status)] = Schema{
			"$ref": "#/components/responses/" + problemName(status)}
	}
	out["responses"] = responses
	return out
}

func (p *Param) schema() Schema {
	out := Schema{"name": p.Name, "in": p.In, "description": p.Text, "schema": p.Schema}
	if p.Required {
		out["required"] = true
	}
	if p.Repeated {
		out["schema"] = Schema{"type": "array", "items": p.Schema}
		out["style"], out["explode"] = "form", true
	}
	return out
}
