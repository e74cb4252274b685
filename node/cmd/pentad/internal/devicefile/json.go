package devicefile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/registry"
)

// objectColumn is the column of a table of objects.
const objectColumn = "object"

// maxObjectBytes bounds an object: a description and what a file has around it.
const maxObjectBytes = 1 << 20

// LooksJSON reports whether a file begins as JSON.
func LooksJSON(in *bufio.Reader) bool {
	head, _ := in.Peek(512) // an error comes again with the next read
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

// JSON imports a file of objects, plain or gzip: a GeoJSON FeatureCollection, a list, or one on
// each line. The number of a line in errors is that of the object. Changes leave as those of
// [Importer.CSV] do, and also those before an error of the file.
func (im *Importer) JSON(ctx context.Context, name string, r io.Reader) error {
	plain, err := csvimport.Decompress(r)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	in := bufio.NewReaderSize(plain, 1<<16)
	if head, _ := in.Peek(3); string(head) == "\xef\xbb\xbf" {
		_, _ = in.Discard(3) // which are buffered
	}
	rows := &objects{next: lines(in)}
	if isDocument(in) {
		rows.next = (&document{decoder: json.NewDecoder(in)}).next
	}
	im.objects = true
	if err := im.lines.Table(ctx, name, rows); err != nil {
		if errors.As(err, new(*csvimport.RejectError)) {
			return err
		}
		return fmt.Errorf("read %s after object %d: %w", name, rows.count, err)
	}
	return nil
}

// isDocument reports whether a file is one JSON text, and not a text on each line.
func isDocument(in *bufio.Reader) bool {
	head, _ := in.Peek(1 << 16)
	if head = bytes.TrimLeft(head, " \t\r\n"); len(head) > 0 && head[0] == '[' {
		return true
	}
	var first struct {
		Type     any
		Features json.RawMessage
	}
	err := json.NewDecoder(bytes.NewReader(head)).Decode(&first)
	return err != nil || first.Type == "FeatureCollection" || first.Features != nil
}

// objects are the rows of a file of JSON: each is one cell.
type objects struct {
	next  func() ([]byte, error)
	count int
	cells [1][]byte
}

// Columns implements csvimport.Rows.
func (o *objects) Columns() []string { return []string{objectColumn} }

// Use implements csvimport.Rows.
func (o *objects) Use([]bool) {}

// Typed implements csvimport.Rows.
func (o *objects) Typed(int) bool { return false }

// Next implements csvimport.Rows.
func (o *objects) Next() ([][]byte, error) {
	object, err := o.next()
	if err != nil {
		return nil, err
	}
	o.count++
	o.cells[0] = object
	return o.cells[:], nil
}

// lines reads an object of each line.
func lines(in *bufio.Reader) func() ([]byte, error) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 1<<16), maxObjectBytes)
	return func() ([]byte, error) {
		if scanner.Scan() {
			return bytes.TrimSpace(scanner.Bytes()), nil
		}
		err := scanner.Err()
		switch {
		case errors.Is(err, bufio.ErrTooLong):
			return nil, fmt.Errorf("the next line is longer than %d bytes", maxObjectBytes)
		case err != nil:
			return nil, err
		}
		return nil, io.EOF
	}
}

// document reads the objects of a list, or the features of a FeatureCollection.
type document struct {
	decoder *json.Decoder
	begun   bool // the list was found
	top     bool // the list is a member of an object
}

func (d *document) next() ([]byte, error) {
	if !d.begun {
		if err := d.begin(); err != nil {
			return nil, whole(err)
		}
		d.begun = true
	}
	if d.decoder.More() {
		var object json.RawMessage
		if err := d.decoder.Decode(&object); err != nil {
			return nil, whole(err)
		}
		if len(object) > maxObjectBytes {
			return nil, fmt.Errorf("the next object is longer than %d bytes", maxObjectBytes)
		}
		return object, nil
	}
	return nil, d.end()
}

// whole says that a file ends early, where a file that does so looks like one that has ended.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// begin finds the list.
func (d *document) begin() error {
	opening, err := d.decoder.Token()
	if err != nil || opening == json.Delim('[') {
		return err
	}
	if opening != json.Delim('{') {
		return errors.New("the file is neither an object nor a list")
	}
	d.top = true
	for d.decoder.More() {
		if found, err := d.member(); found || err != nil {
			return err
		}
	}
	return errors.New("the object has no features: a file of devices is a FeatureCollection, a " +
		"list, or has an object on each line")
}

// member reads a member of a FeatureCollection, and reports whether it is the list.
func (d *document) member() (list bool, err error) {
	key, err := d.decoder.Token()
	if err != nil {
		return false, err
	}
	if key == "features" {
		opening, err := d.decoder.Token()
		if err == nil && opening != json.Delim('[') {
			err = errors.New("features is not a list")
		}
		return true, err
	}
	var value json.RawMessage
	if err := d.decoder.Decode(&value); err != nil {
		return false, err
	}
	text := string(value)
	switch {
	case key == "type" && text != `"FeatureCollection"`:
		return false, fmt.Errorf("the type is %s, not \"FeatureCollection\"", excerpt.Of(text, 40))
	case key == "crs" && text != "null" && !strings.Contains(text, "CRS84") &&
		!strings.Contains(text, "4326"):
		return false, fmt.Errorf("the coordinates are of %s; convert them to WGS 84 (EPSG:4326)",
			excerpt.Of(text, 80))
	}
	return false, nil
}

// end reads what follows the list: io.EOF if that is whole.
func (d *document) end() error {
	if _, err := d.decoder.Token(); err != nil { // the end of the list
		return whole(err)
	}
	if d.top {
		for d.decoder.More() {
			if list, err := d.member(); err != nil {
				return whole(err)
			} else if list {
				return errors.New("the object has features twice")
			}
		}
		if _, err := d.decoder.Token(); err != nil {
			return whole(err)
		}
	}
	if _, err := d.decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text follows the JSON value")
	}
	return io.EOF
}

// object makes the change of an object.
func (im *Importer) object(raw []byte) (c client.DeviceChange, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var members map[string]any
	if err := decoder.Decode(&members); err != nil {
		return c, fmt.Errorf("not an object of JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return c, errors.New("text follows the object")
	}
	var place *registry.Place
	located := false
	if members["type"] == "Feature" {
		geometry, ok := members["geometry"]
		if place, err = parsePoint(geometry); err != nil {
			return c, err
		}
		located = ok
		properties, ok := members["properties"].(map[string]any)
		if !ok {
			return c, errors.New("the feature has no properties")
		}
		members = properties
	}
	if im.plan != nil {
		c, err = im.plan.change(im.cellsOf(members))
	} else {
		c, err = im.named(members)
	}
	if err == nil && located && !(c.NoPlace || c.Place != nil) {
		c.Place, c.NoPlace = place, place == nil
		err = check(&c)
	}
	return c, err
}

// parsePoint reads the place of a feature, nil for none.
func parsePoint(geometry any) (*registry.Place, error) {
	if geometry == nil {
		return nil, nil
	}
	members, _ := geometry.(map[string]any)
	if kind := members["type"]; kind != "Point" {
		return nil, fmt.Errorf("the geometry is %v; that of a device is a Point",
			excerpt.Of(fmt.Sprint(kind), 40))
	}
	numbers, _ := members["coordinates"].([]any)
	if len(numbers) < 2 {
		return nil, errors.New("the point has no coordinates: longitude, latitude and perhaps " +
			"altitude")
	}
	var texts [3]string
	for i, at := range []int{1, 0, 2}[:min(len(numbers), 3)] {
		n, ok := numbers[at].(json.Number)
		if !ok {
			return nil, fmt.Errorf("the coordinate %v is not a number", numbers[at])
		}
		texts[i] = n.String()
	}
	return ParsePlace(texts[:])
}

// cellsOf returns the texts of the members that the templates name.
func (im *Importer) cellsOf(members map[string]any) [][]byte {
	p := im.plan
	cells := make([][]byte, len(p.columns))
	for i, column := range p.columns {
		if _, has := members[column]; has {
			im.met[column] = true
		} else if !im.met[column] {
			im.met[column] = false
		}
		switch v := members[column].(type) {
		case nil:
		case string:
			cells[i] = []byte(v)
		case json.Number:
			cells[i] = []byte(v.String())
		case bool:
			cells[i] = strconv.AppendBool(nil, v)
		default:
			cells[i], _ = json.Marshal(v) // it was JSON
		}
	}
	return cells
}
