package node

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/registry"
)

// TestDevicesForPeople describes, lists, renames and removes devices by HTTP.
func TestDevicesForPeople(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	const one = "/v1/devices/oulu/t7?cid=1"
	a.expect("GET", one, "", 404, "no device has the name")
	a.expect("GET", "/v1/devices", "", 400, `"part":"cid"`, "names of devices are those of one")
	a.expect("PATCH", one, `{"type":"meter"}`, 404, "no device has the name")
	a.expect("PUT", one, `{"type":"meter","group":"oulu/b7/","place":{"lat":65.5,"lon":25,`+
		`"alt":3},"attributes":{"floor":3,"owner":"acme","wired":true},"from":"2024-01-01"}`, 200,
		`"cid":1,"mid":1099511627776,"name":"oulu/t7","type":"meter","group":"oulu/b7",`+
			`"place":{"lat":65.5,"lon":25,"alt":3},"attributes":{"floor":3,"owner":"acme",`+
			`"wired":true},"retired":false,"from":"2024-01-01T00:00:00`)
	a.expect("PATCH", one, `{"attributes":{"floor":null,"owner":"beta"},"place":null,`+
		`"metadata":"x","from":"2024-02-01"}`, 200, `"attributes":{"owner":"beta","wired":true},`+
		`"metadata":"x"`)
	a.expect("GET", one+"&at=2024-01-15", "", 200, `"floor":3`)
	a.expect("PATCH", one, `{"attributes":{"wired":false},"from":"2024-01-15"}`, 200,
		`"wired":false}`, `"from":"2024-01-15T00:00:00`)
	a.expect("GET", one, "", 200, `"wired":true}`, `"from":"2024-02-01T00:00:00`)
	a.expect("PATCH", one, `{"type":5}`, 400, "type: number 5 is not a valid string")
	a.expect("PATCH", one, `{"retired":"no"}`, 400, "retired: string is not a valid bool")
	a.expect("PATCH", one, `{"attributes":{"n":9007199254740993}}`, 400, "the attribute n is "+
		"9007199254740993, which is not a finite number, or has more digits than one keeps")
	a.expect("PATCH", one, `{"attributes":{"n":9007199254740992,"wired":true},"from":`+
		`"2024-01-15"}`, 200, `"n":9007199254740992`)
	a.expect("GET", one+"&asof=2020-01-01", "", 404)
	a.expect("PUT", one, `{"type":"meter"}`, 200, `"name":"oulu/t7","type":"meter","retired"`)
	a.expect("PUT", one, `{"name":"other"}`, 400, `"part":"body"`, "PATCH renames")
	a.expect("PUT", one, `{"typ":"meter"}`, 400, `"part":"body"`, `unknown field \"typ\"`)
	a.expect("PUT", one, `{"place":{"lat":91,"lon":0}}`, 400, `"part":"body"`, "the latitude 91")
	a.expect("PUT", one, `{"place":{"lat":1}}`, 400, "give lat and lon")
	a.expect("PATCH", one, `{"attributes":{"a":[1]}}`, 400, "the attribute a is a list")
	a.expect("PATCH", one, `{"from":"2124-01-01"}`, 400, "in the future")

	// A change of what was read is refused if it is no longer so.
	var d api.Device
	if err := json.Unmarshal([]byte(a.expect("GET", one, "", 200)), &d); err != nil {
		t.Fatal(err)
	}
	condition := fmt.Sprintf("%s&unless_newer=%d", one, *d.AcqNs)
	a.expect("PATCH", condition, `{"retired":true}`, 200, `"retired":true`)
	a.expect("PATCH", condition, `{"retired":false}`, 409, `"code":"conflict"`)
	a.expect("PATCH", one+"&unless_newer=x", `{}`, 400, `"part":"unless_newer"`)
	a.expect("GET", one, "", 200, `"retired":true`)

	a.expect("PATCH", one, `{"name":"oulu/t007","retired":null}`, 200, `"name":"oulu/t007"`,
		`"retired":false`, `"mid":1099511627776`)
	a.expect("GET", one, "", 404)
	a.expect("PUT", one, `{}`, 200, `"mid":1099511627777`)
	// What is refused changes nothing.
	a.expect("PATCH", one, `{"name":"oulu/t007","type":"valve"}`, 409,
		"another device has the name")
	a.expect("PATCH", one, `{"name":"7","type":"valve"}`, 400, `"part":"body"`, "reads as ids")
	a.expect("GET", one, "", 200, `"name":"oulu/t7","retired":false`)
	var many, more []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`"k%d":1`, i))
		more = append(more, fmt.Sprintf(`"m%d":1`, i))
	}
	a.expect("PUT", one, `{"attributes":{`+strings.Join(many, ",")+`}}`, 200)
	a.expect("PATCH", one, `{"attributes":{`+strings.Join(more, ",")+`}}`, 400,
		"2000 attributes, at most 1000")
	a.expect("DELETE", "/v1/devices/oulu/t007?cid=1", "", 200,
		`{"cid":1,"mid":1099511627776,"removed":"oulu/t007","descriptions":`)
	a.expect("DELETE", "/v1/devices/oulu/t007?cid=1", "", 404)
}

// TestDeviceOfAnID asks for a device without a name, and gives times in seconds.
func TestDeviceOfAnID(t *testing.T) {
	n := openTest(t, Options{})
	a := &asker{t, n}
	a.expect("GET", "/v1/devices/42?cid=1", "", 404, "has no description")
	if err := dial(t, n).DescribeDevices(t.Context(), 1, []client.DescribedDevice{{MID: 42,
		Description: registry.Description{Type: "pump"}}}); err != nil {
		t.Fatal(err)
	}
	a.expect("GET", "/v1/devices/42?cid=1", "", 200, `"mid":42,"name":"","type":"pump"`)
	a.expect("GET", "/v1/devices/42?cid=1&at=1700000000", "", 400, `"part":"at"`,
		"if it is in seconds")
	a.expect("PUT", "/v1/devices/a?cid=1", `{"from":"1700000000"}`, 400, "from: time 1700000000 "+
		"is in ns since 1970, 1970-01-01T00:00:01.700Z; if it is in seconds write "+
		"2023-11-14T22:13:20Z")
}

// TestSlashesInNames asks for devices whose names differ by slashes only.
func TestSlashesInNames(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	paths := []string{"a/b", "a%2F/b", "a//b", "a///b", "/a/b", "a/b/", "100%25", "100%2525"}
	names := []string{"a/b", "a//b", "a//b", "a///b", "/a/b", "a/b/", "100%", "100%25"}
	for i, path := range paths {
		a.expect("PUT", "/v1/devices/"+path+"?cid=1", `{}`, 200, `"name":"`+names[i]+`"`)
	}
	a.expect("DELETE", "/v1/devices/a%2f%2Fb?cid=1", "", 200, `"removed":"a//b"`)
	a.expect("GET", "/v1/devices/a//b?cid=1", "", 404)
	a.expect("GET", "/v1/devices/a/b?cid=1", "", 200, `"name":"a/b"`)
	a.expect("GET", "/v1//devices?cid=1", "", 404, "no route")
}

// TestManyDevicesForPeople describes many devices at once, and lists them by pages.
func TestManyDevicesForPeople(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	var body strings.Builder
	for i := range 25 {
		fmt.Fprintf(&body, `{"name":"t%02d","type":"meter","attributes":{"floor":%d}}`+"\n", i, i%5)
	}
	a.expect("POST", "/v1/devices?cid=1&dry_run=1", body.String(), 200,
		`{"created":25,"described":25,"unchanged":0,"rejected":0,"rejects":[]}`)
	a.expect("GET", "/v1/devices?cid=1", "", 200, `{"devices":[]}`)
	a.expect("POST", "/v1/devices?cid=1", body.String(), 200,
		`{"created":25,"described":25,"unchanged":0,"rejected":0,"rejects":[]}`)
	a.expect("POST", "/v1/devices?cid=1", body.String()+`{"name":"t99","retired":"no"}`+"\n", 207,
		`"created":0,"described":0,"unchanged":25,"rejected":1,"rejects":[{"line":26,`+
			`"message":"retired: `)
	a.expect("POST", "/v1/devices?cid=1", `{"type":"meter"}`, 400, "no change is right, first on "+
		"line 1: the name is empty")
	a.expect("POST", "/v1/devices?cid=1", "", 400, "it has no change of a device")

	var got []string
	next := ""
	for pages := 0; ; pages++ {
		var page api.Devices
		text := a.expect("GET", "/v1/devices?cid=1&limit=4&select="+
			url.QueryEscape("floor=1..4")+next, "", 200)
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		for _, d := range page.Devices {
			got = append(got, d.Name)
		}
		if next = "&next=" + url.QueryEscape(page.Next); page.Next == "" {
			if pages != 3 {
				t.Errorf("%d pages before the last", pages)
			}
			break
		}
	}
	want := "t01 t02 t03 t06 t07 t08 t11 t12 t13 t16 t17 t18 t21 t22 t23"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("%s, want %s", text, want)
	}
	a.expect("PUT", "/v1/devices/t00?cid=1", `{"type":"meter","place":{"lat":65.5,"lon":25,`+
		`"alt":3},"attributes":{"from_":1,"latitude":"north"}}`, 200)
	a.expect("GET", "/v1/devices?cid=1&format=geojson&limit=2", "", 200,
		`{"type":"FeatureCollection","features":[{"type":"Feature","id":1099511627776,`+
			`"geometry":{"type":"Point","coordinates":[25,65.5,3]},"properties":{`+
			`"attr.latitude":"north","from":"`, `"geometry":null,"properties":{`,
		`"name":"t01"`, `"next":"t02"}`)
	a.expect("GET", "/v1/devices?cid=1&format=kml", "", 400, `"part":"format"`)
	a.expect("GET", "/v1/devices?cid=1&limit=0", "", 400, `"part":"limit"`)
	a.expect("GET", "/v1/devices?cid=1&select="+url.QueryEscape("floor=="), "", 400,
		`"part":"select"`)
}

// TestNamesForPeople writes and reads records by the names of tenants, devices and quantities.
func TestNamesForPeople(t *testing.T) {
	n := openTest(t, Options{})
	a := &asker{t, n}
	if err := n.SetQuantity(plugin.Quantity{MOID: 3, Name: "temperature",
		Type: plugin.F64}); err != nil {
		t.Fatal(err)
	}
	if err := dial(t, n).NameTenant(t.Context(), 1, "acme"); err != nil {
		t.Fatal(err)
	}
	const row = `{"tenant":"acme","device":"oulu/t7","quantity":"temperature","cap":1,"value":5}`
	a.expect("POST", "/v1/records", row, 422, "tenant 1 has no device with the name",
		"create=1 creates it")
	a.expect("POST", "/v1/records?create=1", row, 200, `"written":1`)
	a.expect("POST", "/v1/records", row+"\n"+strings.Replace(row, "acme", "beta", 1)+"\n"+
		strings.Replace(row, "temperature", "temp", 1)+"\n"+
		strings.Replace(row, `"cap"`, `"mid":7,"cap"`, 1)+"\n"+
		strings.Replace(row, `"tenant":"acme",`, "", 1), 207, `"written":1`, `"rejected":4`,
		`no tenant has the name \"beta\"`, `no declared quantity has the name \"temp\"`,
		"mid and device are both there", "give cid or tenant")
	for _, query := range []string{"cid=acme&mid=oulu/t7&moid=temperature",
		"cid=1&mid=oulu/t7,99&moid=temperature,4", "cid=acme&mid=1099511627776", "cid=7,acme"} {
		a.expect("GET", "/v1/count?"+query, "", 200, `"records":1`)
		a.expect("GET", "/v1/records?"+query, "", 200, `"cid":1,"mid":1099511627776,"moid":3`)
	}
	a.expect("GET", "/v1/count?cid=beta", "", 400, `"part":"cid"`, "no tenant has the name")
	a.expect("GET", "/v1/count?cid=1&mid=oulu/t8", "", 400, `"part":"mid"`, "no device with")
	a.expect("GET", "/v1/count?mid=oulu/t8", "", 400, `"part":"mid"`, "choose one with cid")
	a.expect("GET", "/v1/count?moid=x", "", 400, `"part":"moid"`, "no declared quantity")
	a.expect("GET", "/v1/devices/oulu/t7?cid=acme", "", 200, `"cid":1,"mid":1099511627776`)
	a.expect("GET", "/v1/devices?cid=beta", "", 400, `"part":"cid"`, "no tenant has the name")
	a.expect("PUT", "/v1/retention?cid=acme&moid=temperature&cap_age=99999d", "", 200,
		`"cid":1,"moid":3,`)
	a.expect("POST", "/v1/retention?cid=acme&moid=temperature&action=hold", "", 200)
	a.expect("GET", "/v1/retention", "", 200, `"cid":1,"moid":3,`, `"held":true`)
	a.expect("DELETE", "/v1/retention?cid=acme&moid=temperature", "", 200)
	a.expect("PUT", "/v1/retention?cid=beta&cap_age=1d", "", 400, `"part":"cid"`)
}

// TestNotesOfSelectors: an explanation says which keys of a selector no device has.
func TestNotesOfSelectors(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	a.expect("PUT", "/v1/devices/t7?cid=1", `{"type":"meter","attributes":{"owner":"acme"}}`, 200)
	ask := func(selector string) string {
		return "/v1/explain?cid=1&select=" + url.QueryEscape(selector)
	}
	a.expect("GET", ask("ower=acme, grup=a or owner=b"), "", 200,
		`"notes":["a condition on the attribute grup; did you mean group?",`+
			`"no device of tenant 1 has the attribute ower"]`)
	a.expect("GET", ask("ower=acme")+"&of=versions", "", 200, "has the attribute ower")
	a.expect("GET", ask("owner=b")+"&asof=2020-01-01", "", 200, "has the attribute owner")
	for _, selector := range []string{"owner=b", "type=ower"} {
		if x := a.expect("GET", ask(selector), "", 200); strings.Contains(x, "notes") {
			t.Errorf("%s: %s", selector, x)
		}
	}
}

// TestNamesAsOf asks for devices whose names were swapped, by names of then and of now.
func TestNamesAsOf(t *testing.T) {
	n := openTest(t, Options{})
	a, db := &asker{t, n}, dial(t, n)
	for name, cap := range map[string]int{"a": 1, "b": 2} {
		a.expect("POST", "/v1/records?create=1&type=f64", fmt.Sprintf(
			`{"cid":1,"device":%q,"moid":7,"cap":%d,"value":5}`, name, cap), 200)
	}
	then, err := n.Horizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [][2]string{{"a", "c"}, {"b", "a"}, {"c", "b"}} {
		if _, err := db.RenameDevice(t.Context(), 1, names[0], names[1], then); err != nil {
			t.Fatal(err)
		}
	}
	asOf := fmt.Sprint("asof=", then)
	a.expect("GET", "/v1/records?cid=1&mid=a", "", 200, `"cap_ns":2,`)
	a.expect("GET", "/v1/records?cid=1&mid=a&"+asOf, "", 200, `"cap_ns":1,`)
	a.expect("GET", "/v1/asof?cid=1&mid=a&at="+fmt.Sprint(then), "", 200, `"cap_ns":1,`)
	a.expect("GET", "/v1/count?cid=1&mid=b&cap=2&"+asOf, "", 200, `"records":1`)
	a.expect("GET", "/v1/count?cid=1&mid=c&"+asOf, "", 400, "no device with the name",
		"with the same asof")
	a.expect("GET", "/v1/count?cid=1&mid=a&asof=x", "", 400, `"part":"asof"`)
}
