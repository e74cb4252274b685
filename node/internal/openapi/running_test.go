package openapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/pentad-db/pentad/cluster-test/warmcode"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	contentJSON  = "application/json"
	contentLines = "application/x-ndjson"
	contentWasm  = "application/wasm"
)

// described is a running node and its description, in which objects have no members but those that
// are described.
type described struct {
	*testing.T
	url  string
	doc  *openapi3.T
	seen map[string]bool // operations that were asked, by id
}

func open(t *testing.T) *described {
	t.Helper()
	dir := t.TempDir()
	warmcode.Fill(t, dir, false)
	n, err := node.Open(t.Context(), node.Options{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	d := &described{T: t, url: "http://" + n.Addr().String(), seen: map[string]bool{}}
	_, resp, text := d.do(request{method: "GET", path: "/openapi.json"})
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, text)
	}
	d.doc = d.load(text)
	var strict map[string]any
	if err := json.Unmarshal(text, &strict); err != nil {
		t.Fatal(err)
	}
	closeObjects(strict)
	if text, err = json.Marshal(strict); err != nil {
		t.Fatal(err)
	}
	d.doc = d.load(text)
	return d
}

func (d *described) load(text []byte) *openapi3.T {
	d.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err == nil {
		err = doc.Validate(d.Context())
	}
	if err != nil {
		d.Fatal(err)
	}
	return doc
}

// closeObjects forbids members of objects that are not described.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"].(map[string]any); ok && v["type"] == "object" {
			v["additionalProperties"] = false
		}
		for _, member := range v {
			closeObjects(member)
		}
	case []any:
		for _, member := range v {
			closeObjects(member)
		}
	}
}

// request is a request by a path of the description.
type request struct {
	method, path, name, query string
	contentType, accept       string
	body                      string
	status                    int
	says                      string // a part of the answer
}

// do sends a request.
func (d *described) do(r request) (*http.Request, *http.Response, []byte) {
	d.Helper()
	url := d.url + strings.Replace(r.path, "{name}", r.name, 1)
	if r.query != "" {
		url += "?" + r.query
	}
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(d.Context(), r.method, url, body)
	if err != nil {
		d.Fatal(err)
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.Fatal(err)
	}
	return req, resp, text
}

// ask sends a request and compares it and the answer with the description. Requests that are to be
// refused need not be as it says.
func (d *described) ask(r request) {
	d.Helper()
	item := d.doc.Paths.Value(r.path)
	if item == nil || item.GetOperation(r.method) == nil {
		d.Fatalf("%s %s is not described", r.method, r.path)
	}
	op := item.GetOperation(r.method)
	d.seen[op.OperationID] = true
	req, resp, text := d.do(r)
	if want := max(r.status, http.StatusOK); resp.StatusCode != want && r.status == 0 ||
		r.status > 0 && resp.StatusCode != r.status || !strings.Contains(string(text), r.says) {
		d.Errorf("%s %s?%s: status %d, want %d with %q: %.400s", r.method, r.path, r.query,
			resp.StatusCode, want, r.says, text)
	}
	in := &openapi3filter.RequestValidationInput{Request: req,
		PathParams: map[string]string{"name": r.name},
		Route: &routers.Route{Spec: d.doc, Path: r.path, PathItem: item, Method: r.method,
			Operation: op},
		Options: &openapi3filter.Options{IncludeResponseStatus: true,
			RejectWhenRequestBodyNotSpecified: true,
			ExcludeRequestBody:                r.contentType != contentJSON && r.body != ""}}
	if r.body != "" {
		req.Body = io.NopCloser(strings.NewReader(r.body))
	}
	if resp.StatusCode < http.StatusBadRequest {
		if err := openapi3filter.ValidateRequest(d.Context(), in); err != nil {
			d.Errorf("%s %s?%s: %v", r.method, r.path, r.query, err)
		}
		if body := op.RequestBody; r.body != "" && body.Value.Content.Get(r.contentType) == nil {
			d.Errorf("%s %s: no body of type %s", r.method, r.path, r.contentType)
		}
	}
	d.compare(in, op, resp, text)
}

// compare compares an answer with the description.
func (d *described) compare(
	in *openapi3filter.RequestValidationInput, op *openapi3.Operation, resp *http.Response,
	text []byte,
) {
	d.Helper()
	contentType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in,
		Status: resp.StatusCode, Header: resp.Header, Options: in.Options}
	isJSON := strings.HasSuffix(contentType, "json") && contentType != contentLines
	if !isJSON {
		options := *in.Options
		options.ExcludeResponseBody = true
		out.Options = &options
	}
	where := in.Route.Method + " " + in.Request.URL.String()
	if err := openapi3filter.ValidateResponse(d.Context(), out.SetBodyBytes(text)); err != nil {
		d.Errorf("%s: %v", where, err)
		return
	}
	media := op.Responses.Status(resp.StatusCode).Value.Content.Get(contentType)
	if media == nil {
		d.Errorf("%s: no answer of type %q", where, contentType)
		return
	}
	if contentType != contentLines {
		return
	}
	for line := range bytes.Lines(text) {
		var v any
		err := json.Unmarshal(line, &v)
		if err == nil {
			err = media.Schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020())
		}
		if err != nil {
			d.Errorf("%s: %s: %v", where, line, err)
		}
	}
}

// TestDescriptionHasEveryRoute compares the description with the paths that a node knows, and their
// methods with those that it allows.
func TestDescriptionHasEveryRoute(t *testing.T) {
	d := open(t)
	_, _, text := d.do(request{method: "GET", path: "/unknown-path"})
	_, list, _ := strings.Cut(string(text), "there are ")
	for path := range strings.SplitSeq(strings.TrimRight(list, "\"}\n"), ", ") {
		path, _, _ = strings.Cut(path, `"`)
		if d.doc.Paths.Value(strings.Replace(path, "NAME", "{name}", 1)) == nil {
			t.Errorf("%q is not described", path)
		}
	}
	for path, item := range d.doc.Paths.Map() {
		_, resp, _ := d.do(request{method: "OPTIONS", path: path, name: "x"})
		allowed := strings.Split(resp.Header.Get("Allow"), ", ")
		allowed = slices.DeleteFunc(allowed, func(m string) bool { return m == "HEAD" })
		got := slices.Sorted(maps.Keys(item.Operations()))
		if !slices.Equal(got, slices.Compact(allowed)) {
			t.Errorf("%s: %v are described, %v allowed", path, got, allowed)
		}
	}
	hidden := d.doc.Components.Schemas["Hidden"].Value
	for text, valid := range map[string]bool{`{"acq":"x","acq_ns":1}`: true, `{"acq":"x"}`: false,
		`{"acq":"x","acq_ns":1.5}`: false, `{"acq":"x","acq_ns":1,"other":1}`: false} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := hidden.VisitJSON(v, openapi3.EnableJSONSchema2020()); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
	if d.doc.OpenAPI != "3.1.0" || d.doc.Paths.Len() < 40 {
		t.Errorf("version %s, %d paths", d.doc.OpenAPI, d.doc.Paths.Len())
	}
}

// TestAnswersAreAsDescribed asks every operation of a running node.
func TestAnswersAreAsDescribed(t *testing.T) {
	d := open(t)
	for _, r := range slices.Concat(puts(), queries(), frames(), operations(), pluginRequests(),
		ofOthers()) {
		d.ask(r)
	}
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			if !d.seen[op.OperationID] {
				t.Errorf("%s %s was not asked", method, path)
			}
		}
	}
}

func frameRequest(path string, body []byte, status int) request {
	return request{method: "POST", path: path, body: string(body), contentType: wire.ContentType,
		status: status}
}
