package devicefile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/registry"
)

var now = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// imported imports a text, and returns the descriptions of devices that have only it, or what is
// wrong.
func imported(m *Mapping, text string, isJSON bool) (all []client.DescribedDevice, im *Importer,
	err error) {
	opt := Options{Now: now, FromNs: now.UnixNano()}
	opt.Store = func(_ context.Context, changes []client.DeviceChange) error {
		for i := range changes {
			d := client.DescribedDevice{FromNs: changes[i].FromNs}
			d.Name = changes[i].Name
			changes[i].Apply(&d.Description)
			all = append(all, d)
		}
		return nil
	}
	if im, err = New(m, opt); err != nil {
		return nil, nil, err
	}
	read := im.CSV
	if isJSON {
		read = im.JSON
	}
	return all, im, firstError(read(context.Background(), "a", strings.NewReader(text)), im)
}

// firstError is an error, or the first rejected line.
func firstError(err error, im *Importer) error {
	if s := im.Summary(); err == nil && s.First != nil {
		return s.First
	}
	return err
}

func show(d *client.DescribedDevice) string {
	text := fmt.Sprintf("%s|%s|%s|", d.Name, d.Type, d.Group)
	if p := d.Place; p != nil {
		text += fmt.Sprintf("%v,%v,%v,%v", p.Lat, p.Lon, p.Alt, p.HasAlt)
	}
	text += fmt.Sprintf("|%s|%v|", d.Metadata, d.Retired)
	for key, v := range d.Attributes {
		text += fmt.Sprintf("%s=%d:%s", key, v.Kind(), v)
	}
	return text + "|" + time.Unix(0, d.FromNs).UTC().Format("2006-01-02T15:04")
}

// importTest imports a text and compares the devices, or the error behind "! ".
func importTest(t *testing.T) func(m Mapping, text, want string) {
	return func(m Mapping, text, want string) {
		t.Helper()
		begin := strings.TrimSpace(text)
		all, _, err := imported(&m, text, begin[0] == '{' || begin[0] == '[')
		if strings.HasPrefix(want, "! ") {
			if err == nil || !strings.Contains(err.Error(), want[2:]) {
				t.Errorf("%v, want %s", err, want)
			}
			return
		}
		var got []string
		for i := range all {
			got = append(got, show(&all[i]))
		}
		if text := strings.Join(got, "\n"); err != nil || text != want {
			t.Errorf("%s, %v\nwant %s", text, err, want)
		}
	}
}

func TestCSV(t *testing.T) {
	f, none := importTest(t), Mapping{}
	f(none, "name,type,group,lat,lon,alt,metadata,retired,from,floor\n"+
		"t7,meter,a/b/,1.5,-2,30,x y,true,2024-05-01,3\n",
		"t7|meter|a/b|1.5,-2,30,true|x y|true|floor=2:3|2024-05-01T00:00")
	f(none, "name,floor,Floor No.\nt7,\"\"\"3\"\"\",x\n",
		"t7|||||false|floor=1:3|2026-11-21T10:00")
	f(none, "name,attr.from\nt7,true\n", "t7|||||false|from=3:true|2026-11-21T10:00")
	f(none, "id,type\n1,a\n", `! there is no column "name"`)
	f(none, "name,lat\na,1\n", "! a place needs the columns lat and lon")
	f(none, "name,lat,latitude,lon\na,1,1,1\n", `! column "latitude": another column says the same`)
	f(none, "name,lat,lon\na,91,1\n", "! a line 2: the latitude 91 is not of -90 to 90")
	f(none, "name,lat,lon\na,1,x\n", `! the longitude "x" is not a number of degrees`)
	f(none, "name,type\n,b\n", "! a line 2: name: the name is empty")
	f(none, "name,retired\na,yes\n", `! retired: "yes" is neither true nor false`)
	f(none, "name,from\na,2030-01-01\n", "! 2030-01-01 is in the future")
	f(none, "name,from\na,soon\n", "! a line 2: from: ")
	f(none, "name,group\na,b//c\n", `! the group "b//c" has the level ""`)
	f(none, "name\n\"a\tb\"\n", "! not printable")
	berlin := Mapping{Name: "be/{id}", Type: "lane", Group: "berlin/{site}",
		Place: "{lat},{lon}", From: "{d} {h}", TimeFormat: "%d.%m.%Y %H", Zone: "Europe/Berlin",
		Separator: ";", Decimal: ",", Skip: []string{"", "-"}, Retired: "true",
		Attributes: map[string]string{"speed": "{v}"}}
	f(berlin, "id;site;lat;lon;d;h;v\n7;TE1;52,5;13,25;01.07.2022;14;49,5\n",
		"be/7|lane|berlin/TE1|52.5,13.25,0,false||true|speed=2:49.5|2022-07-01T12:00")
	f(berlin, "id;site;lat;lon;d;h;v\n7;-;;;;;-\n", "be/7|lane||||true||2026-11-21T10:00")
	f(Mapping{Name: "{a}/{b}"}, "a,b\nx/y,z\n", `x\/y/z|||||false||2026-11-21T10:00`)
	f(Mapping{Name: "{{{a}"}, "a\nx\n", "{x|||||false||2026-11-21T10:00")
	f(Mapping{Name: "{2}", Type: "{1}"}, "a,b\nx,z\n", "z|x||||false||2026-11-21T10:00")
	f(Mapping{Name: "{c}"}, "a,b\nx,z\n", `! {c}: the file has no such column; it has a, b`)
	f(Mapping{Name: "all"}, "a\n", "! name: missing; write a template with a column")
	f(Mapping{Name: "{a"}, "a\n", "! write {COLUMN} for the text of a column")
	f(Mapping{Name: "{a}", Place: "{a}"}, "a\n", "! write latitude,longitude or")
	f(Mapping{Name: "{a}", Attributes: map[string]string{"mid": "1"}}, "a\n",
		"! word of selectors")
	f(Mapping{Name: "{a}", Zone: "Europe/Paradise"}, "a\n", "! zone: ")
}

func TestJSON(t *testing.T) {
	f, none := importTest(t), Mapping{}
	f(none, `{"name":"t7","type":"meter","floor":"3","lat":1,"lon":2,"mid":9,"metadata":{"a":1}}`+
		"\n\n"+`{"name":"t8","attributes":{"wired":true},"from":"2024-05-01"}`+"\n",
		`t7|meter||1,2,0,false|{"a":1}|false|floor=1:3|2026-11-21T10:00`+"\n"+
			"t8|||||false|wired=3:true|2024-05-01T00:00")
	f(none, `[{"name":"a"},{"name":"b","group":"x/"}]`,
		"a|||||false||2026-11-21T10:00\nb||x|||false||2026-11-21T10:00")
	f(none, `{"name":"a"} x`, "! text follows the object")
	f(none, `{"name":"a","list":[1]}`, `! "list" is a list or an object`)
	f(none, `{"name":7,"n":1e999}`, "! which is not a finite number")
	f(none, `{"type":"a"}`, "! a line 1: name: the name is empty")
	feature := `{"type":"Feature","id":1,"geometry":{"type":"Point","coordinates":` +
		`[25.5,65.25,8]},` +
		`"properties":{"name":"t7","floor":3}}`
	want := "t7|||65.25,25.5,8,true||false|floor=2:3|2026-11-21T10:00"
	f(none, `{"features":[`+feature+`],"type":"FeatureCollection","crs":null}`, want)
	f(none, feature+"\n", want)
	f(Mapping{Name: "x/{name}", Group: "f/{floor}"}, feature+"\n",
		"x/t7||f/3|65.25,25.5,8,true||false||2026-11-21T10:00")
	f(none, `{"type":"FeatureCollection","features":[`+feature, "! after object 1: unexpected EOF")
	f(none, `{"type":"FeatureCollection","features":[`+feature+`]} 7`, "! text follows")
	f(none, `{"type":"Topology","features":[]}`, "! the type is \"Topology\"")
	f(none, `{"type":"FeatureCollection","crs":{"name":"EPSG:25833"},"features":[]}`,
		"! convert them to WGS 84")
	f(none, `{"type":"FeatureCollection"}`, "! the object has no features")
	f(none, strings.Replace(feature, "Point", "Polygon", 1),
		"! that of a device is a Point")
	f(none, strings.Replace(feature, "[25.5,65.25,8]", "[25.5]", 1), "! has no coordinates")
	f(none, strings.Replace(feature, "65.25", "95.25", 1), "! the latitude 95.25 is not of")
}

// TestLeft: columns that are no keys are left out, and named.
func TestLeft(t *testing.T) {
	_, im, err := imported(&Mapping{}, "name,Floor No.,ok\na,1,2\n", false)
	if err != nil || !slices.Equal(im.Left(), []string{"Floor No."}) {
		t.Fatalf("%q, %v", im.Left(), err)
	}
}

// TestRoundTrip exports random devices, and imports what came out, in both forms.
func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	texts := []string{"", "acme", "007", "true", "1e5", `"x"`, "a,b\"c", " x ", "ä", "-1", "{x}"}
	var devices []client.DescribedDevice
	for i := range 300 {
		d := client.DescribedDevice{MID: int64(i), FromNs: now.UnixNano() - rng.Int64N(1e18)}
		d.Name, d.Retired = fmt.Sprintf("t%d", i), rng.IntN(3) == 0
		d.Metadata = strings.TrimSpace(texts[rng.IntN(len(texts))])
		if d.Type = "meter"; rng.IntN(2) == 0 {
			d.Group = "oulu/b7"
		}
		if rng.IntN(2) == 0 {
			d.Place = &registry.Place{Lat: rng.Float64()*180 - 90, Lon: rng.Float64()*360 - 180}
			if rng.IntN(2) == 0 {
				d.Place.Alt, d.Place.HasAlt = rng.NormFloat64()*100, true
			}
		}
		for _, key := range []string{"floor", "from", "attr.from", "latitude", "owner"} {
			if d.Attributes == nil {
				d.Attributes = map[string]registry.Value{}
			}
			switch rng.IntN(4) {
			case 0:
				d.Attributes[key] = registry.Number(math.Round(rng.NormFloat64()*1e6) / 1e3)
			case 1:
				d.Attributes[key] = registry.Bool(rng.IntN(2) == 0)
			case 2:
				d.Attributes[key] = registry.Text(texts[rng.IntN(len(texts))])
			}
		}
		if len(d.Attributes) == 0 {
			d.Attributes = nil
		}
		devices = append(devices, d)
	}
	for _, write := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return WriteCSV(b, devices) },
		func(b *bytes.Buffer) error { return WriteGeoJSON(b, devices) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		isJSON := b.Bytes()[0] == '{'
		got, _, err := imported(&Mapping{}, b.String(), isJSON)
		if err != nil || len(got) != len(devices) {
			t.Fatalf("json %t: %d devices, %v", isJSON, len(got), err)
		}
		for i := range got {
			got[i].MID = devices[i].MID
			if len(got[i].Attributes) == 0 {
				got[i].Attributes = nil
			}
			if !reflect.DeepEqual(got[i], devices[i]) {
				t.Fatalf("json %t:\n%+v, want\n%+v", isJSON, got[i], devices[i])
			}
		}
	}
}

// TestGeoJSONForm holds what RFC 7946 asks of a file.
func TestGeoJSONForm(t *testing.T) {
	d := client.DescribedDevice{MID: 1 << 40}
	d.Name, d.Place = "t7", &registry.Place{Lat: 65, Lon: 25, Alt: 12, HasAlt: true}
	plain := client.DescribedDevice{MID: 1<<40 + 1, FromNs: math.MinInt64}
	plain.Name = "t8"
	var b bytes.Buffer
	if err := WriteGeoJSON(&b, []client.DescribedDevice{d, plain}); err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"type": "FeatureCollection", "features": []any{
		map[string]any{"type": "Feature", "id": float64(1 << 40),
			"geometry": map[string]any{"type": "Point",
				"coordinates": []any{25.0, 65.0, 12.0}},
			"properties": map[string]any{"name": "t7", "from": "1970-01-01T00:00:00Z"}},
		map[string]any{"type": "Feature", "id": float64(1<<40 + 1), "geometry": nil,
			"properties": map[string]any{"name": "t8"}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\nwant %v", got, want)
	}
}

// FuzzJSON reads any text: what it makes can be stored.
func FuzzJSON(f *testing.F) {
	f.Add(`{"type":"FeatureCollection","features":[{"type":"Feature","geometry":{"type":"Point",` +
		`"coordinates":[1,2,3]},"properties":{"name":"a","x":1}}]}`)
	f.Add(`{"name":"a","lat":1,"lon":2,"attributes":{"b":null}}` + "\n" + `{"name":"b"}`)
	f.Add(`[{"name":"a"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		all, _, _ := imported(&Mapping{}, text, true)
		for i := range all {
			if err := all[i].Check(); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}
