package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/internal/changestream"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/openapi"
	"github.com/pentad-db/pentad/node/internal/release"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
)

// says is what /openapi.json says of a route beside its path and parameters. Bodies are a value
// whose type is the JSON, or one of the forms below.
type says struct {
	text  string
	takes any      // body of the request; nil: none
	gives any      // body of the answer
	also  []string // parameters of a route whose handler checks them
}

// Forms of bodies.
type (
	// frame is one or more frames of the protocol, by their names.
	frame string
	// either is a frame, or JSON of the same.
	either struct{ name string }
	// rows are a document with a list of that name, or lines.
	rows struct {
		name string
		row  any
	}
	lines       struct{ line any }
	changeLines struct{}
	recordsBody struct{}
	devicesBody struct{}
	devicesPage struct{} // of the registry, in two formats
	module      struct{} // a WebAssembly module
	text        struct{}
	// dryOr is an answer that dry_run replaces.
	dryOr struct{ done any }
)

const (
	typeJSON  = "application/json"
	typeLines = "application/x-ndjson"
	typeCSV   = "text/csv"

	typeGeoJSON = "application/geo+json"
)

// Errors of requests, by status.
var errorTexts = map[int]string{
	http.StatusBadRequest:            "A parameter or the body is wrong; `part` names it.",
	http.StatusForbidden:             "The request comes from a web page, or is not allowed.",
	http.StatusNotFound:              "There is no such name, plugin, or role of the node.",
	http.StatusRequestTimeout:        "The request did not arrive within a minute.",
	http.StatusConflict:              "The stored data are not what the request depends on.",
	http.StatusRequestEntityTooLarge: "The request is larger than the node takes.",
	http.StatusUnsupportedMediaType:  "The body is encoded in a way that the node cannot read.",
	http.StatusMisdirectedRequest:    "The name in Host is not one of the node.",
	http.StatusUnprocessableEntity: "A plugin failed or is bad, no record of a put is right, or " +
		"its key is of another body.",
	http.StatusTooManyRequests:     "The node is busy; try again after `Retry-After`.",
	http.StatusInternalServerError: "The node failed; its log says more.",
	http.StatusServiceUnavailable:  "The node, or one that it asks, is not available now.",
	http.StatusGatewayTimeout:      "The answer took longer than it may.",
}

const about = "pentad stores measurements: records with a key of tenant (cid), device (mid), " +
	"quantity (moid), capture time (cap) and acquisition time (acq), and a payload. Times are " +
	"nanoseconds since 1970 in UTC, and the same in RFC 3339. Unknown parameters are rejected. " +
	"Readers of answers ignore members that they do not know. Bodies of type " + wire.ContentType +
	" are frames of the wire protocol, sdk/wire/PROTOCOL.md; other nodes ask so."

// describe returns the description of all routes.
func (s *Server) describe() ([]byte, error) {
	d := openapi.Document{Title: "pentad", Version: release.Read().Version, About: about,
		License: "Apache-2.0", Problem: api.Error{}, Frames: wire.ContentType, Errors: errorTexts}
	for _, r := range s.routeTable() {
		d.Operations = append(d.Operations, r.operation())
	}
	return d.JSON()
}

// openAPI answers with the description.
func (s *Server) openAPI(req *httpserver.Request) {
	body, err := s.describe()
	if err != nil {
		fail(req, err)
		return
	}
	req.SetContentType(typeJSON)
	req.SetBody(body)
}

// operation describes a route.
func (r *route) operation() openapi.Operation {
	path := strings.Replace(r.Path, "NAME", "{name}", 1)
	words := strings.FieldsFunc(path, func(c rune) bool { return strings.ContainsRune("/{}.", c) })
	words = slices.DeleteFunc(words, func(word string) bool { return word == "v1" })
	if len(words) == 0 {
		words = []string{"start"}
	}
	o := openapi.Operation{ID: strings.ToLower(r.Method) + "-" + strings.Join(words, "-"),
		Tag: words[0], Method: r.Method, Path: path, Text: r.says.text + ".", Body: r.body(),
		Answers: r.answers(), Errors: r.errors()}
	if path != r.Path {
		doc := describeParam(r.Path, "NAME")
		o.Params = append(o.Params, openapi.Param{Name: "name", In: "path", Required: true,
			Text: doc.text, Schema: doc.schema()})
	}
	for _, name := range slices.Concat(r.Params, r.says.also) {
		doc := describeParam(r.Path, name)
		o.Params = append(o.Params, openapi.Param{Name: name, In: "query", Text: doc.text,
			Schema: doc.schema(), Required: slices.Contains(required[r.Method+" "+r.Path], name),
			Repeated: name == "filter" || name == "filter_params"})
	}
	_, optional := r.says.takes.(either)
	o.BodyOptional = optional || r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/run")
	if _, ok := r.says.takes.(recordsBody); ok {
		o.Params = append(o.Params, openapi.Param{Name: "Idempotency-Key", In: "header",
			Text:   describeParam(r.Path, "Idempotency-Key").text,
			Schema: openapi.Schema{"type": "string", "maxLength": 256}})
	}
	return o
}

func (r *route) body() []openapi.Media {
	frames := openapi.Media{Type: wire.ContentType}
	switch takes := r.says.takes.(type) {
	case nil:
		return nil
	case frame, either:
		return []openapi.Media{frames}
	case module:
		return []openapi.Media{{Type: "application/wasm"}}
	case devicesBody:
		one := api.DeviceChange{}
		return []openapi.Media{{Type: typeJSON, Of: openapi.OneOf(one, openapi.List(one))},
			{Type: typeLines, Of: one}}
	case recordsBody:
		one := rowjson.Posted{}
		return []openapi.Media{{Type: typeJSON, Of: openapi.OneOf(one, openapi.List(one))},
			{Type: typeLines, Of: one}}
	default:
		return []openapi.Media{{Type: typeJSON, Of: takes}}
	}
}

func (r *route) answers() []openapi.Answer {
	good := openapi.Answer{Status: http.StatusOK, Text: "Done"}
	if !r.Mutates {
		good.Text = "The answer"
	}
	frames := openapi.Media{Type: wire.ContentType}
	switch gives := r.says.gives.(type) {
	case frame:
		good.Text, good.Content = fmt.Sprintf("Frames: %s", string(gives)), []openapi.Media{frames}
	case either:
		good.Content = []openapi.Media{{Type: typeJSON, Of: openapi.OneOf(hidden{}, api.DryRun{})},
			frames}
	case dryOr:
		good.Content = []openapi.Media{{Type: typeJSON,
			Of: openapi.OneOf(gives.done, api.DryRun{})}}
	case rows:
		good.Content, good.Headers = gives.media(), endHeaders
	case devicesPage:
		good.Content = []openapi.Media{{Type: typeJSON, Of: api.Devices{}},
			{Type: typeGeoJSON, Of: api.Features{}}}
	case lines:
		good.Content = []openapi.Media{{Type: typeLines, Of: gives.line}}
	case changeLines:
		line := openapi.OneOf(rowjson.Row{}, changestream.EventLine{}, changestream.ClosedLine{},
			endLine{})
		good.Content = []openapi.Media{{Type: typeLines, Of: line},
			{Type: changestream.ContentTypes[changestream.Events], Of: line}}
	case text:
		good.Content = []openapi.Media{{Type: "text/plain"}}
	case windowed, grouped:
		good.Content, good.Headers = []openapi.Media{{Type: typeJSON, Of: gives},
			{Type: typeCSV}}, endHeaders
	default:
		good.Content = []openapi.Media{{Type: typeJSON, Of: gives}}
	}
	all := []openapi.Answer{good}
	if r.says.takes == (recordsBody{}) || r.says.takes == (devicesBody{}) {
		all = append(all, openapi.Answer{Status: http.StatusMultiStatus, Text: "Some are stored, " +
			"and others rejected; `rejects` says which and why", Content: good.Content})
	}
	if slices.Contains(slices.Concat(r.Params, r.says.also), request.ParamPartial) {
		good.Status, good.Text = http.StatusPartialContent, "An answer that is known to be "+
			"incomplete, to a request with partial=allow; `end.reason` says why"
		all = append(all, good)
	}
	return all
}

// endHeaders describes how the end of an answer is told apart from its rows.
var endHeaders = []openapi.Param{{Name: trailerEnd, Text: "The end as JSON, where it is not " +
	"among the rows: of lines by `Accept`, and of CSV; a trailer of rows.",
	Schema: openapi.Schema{"type": "string"}}}

// endLine is the last of lines.
type endLine struct {
	End rowjson.End `json:"end"`
}

func (r rows) media() []openapi.Media {
	document := openapi.Schema{"type": "object", "required": []string{r.name, "end"},
		"properties": openapi.Schema{r.name: openapi.List(r.row), "end": rowjson.End{}}}
	return []openapi.Media{{Type: typeJSON, Of: document},
		{Type: typeLines, Of: openapi.OneOf(r.row, endLine{})}, {Type: typeCSV}}
}

// errors returns the statuses of a route's errors.
func (r *route) errors() []int {
	all := []int{http.StatusBadRequest, http.StatusMisdirectedRequest, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	takes := slices.Concat(r.Params, r.says.also)
	calls := strings.HasSuffix(r.Path, "/run") || slices.Contains(takes, "agg") ||
		slices.Contains(takes, "filter") || r.says.takes == frame("query")
	if r.Mutates {
		all = append(all, http.StatusForbidden)
	}
	if calls || strings.Contains(r.Path, "NAME") || r.isOfSome() ||
		slices.Contains(takes, request.ParamGroups) {
		all = append(all, http.StatusNotFound)
	}
	if calls || r.says.takes == (module{}) || r.says.takes == (recordsBody{}) {
		all = append(all, http.StatusUnprocessableEntity)
	}
	// A GET may have a body, too.
	all = append(all, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType)
	if r.Mutates && (r.says.takes != nil || r.Method == http.MethodPut) {
		all = append(all, http.StatusConflict)
	}
	return all
}

// isOfSome reports whether only some nodes have something to say at the path.
func (r *route) isOfSome() bool {
	return r.Path == routeEdge || strings.HasPrefix(r.Path, routeCluster)
}

// describeParam describes a parameter of a path, NAME for the name in it.
func describeParam(path, name string) paramDoc {
	doc, known := paramDocs[path+" "+name]
	if !known {
		doc, known = paramDocs[name]
	}
	if !known {
		panic("BUG: parameter " + name + " of " + path + " is not described")
	}
	return doc
}

// paramDoc describes a parameter.
type paramDoc struct {
	form string // a JSON type, flag, or values separated by |; empty: text
	text string
}

func (d paramDoc) schema() openapi.Schema {
	switch {
	case d.form == "flag":
		return openapi.Schema{"type": "integer", "enum": []int{0, 1}}
	case strings.Contains(d.form, "|"):
		return openapi.Schema{"type": "string", "enum": strings.Split(strings.TrimPrefix(d.form,
			"|"), "|")}
	}
	return openapi.Schema{"type": cmp.Or(d.form, "string")}
}
