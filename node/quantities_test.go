package node

import (
	"errors"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func TestQuantities(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	c := dial(t, n)
	phases := client.Quantity{MOID: 3, Name: "phase 1", Type: "struct",
		Fields: []client.QuantityField{{Name: "power", Type: "f64", Offset: 4},
			{Name: "note", Type: "bytes", Offset: 12}}}
	for _, q := range []client.Quantity{phases,
		{MOID: 1, Name: "energy", Unit: "kWh", Type: "f64"},
		{MOID: 2, Name: "count", Type: "i64"}} {
		if err := c.SetQuantity(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	isKind(t, c.SetQuantity(t.Context(), client.Quantity{MOID: 1, Name: "x", Type: "f16"}),
		wire.KindInvalid, "f16")
	for _, name := range []string{"7", "-1", "1..5", "1, 2", "*"} {
		isKind(t, c.SetQuantity(t.Context(), client.Quantity{MOID: 1, Name: name, Type: "f64"}),
			wire.KindInvalid, "reads as moids")
	}
	isKind(t, c.ForgetQuantity(t.Context(), 9), wire.KindNotFound, "quantity 9")
	var b record.Batch
	b.Append(record.Key{MOID: 1}, f64(1))
	b.Append(record.Key{MOID: 2}, []byte{2, 0, 0, 0, 0, 0, 0, 0})
	b.Append(record.Key{MOID: 3}, append([]byte{9, 9, 9, 9}, f64(7)...))
	if _, err := c.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	n = openTest(t, Options{Dir: dir})
	c = dial(t, n)
	all, err := c.Quantities(t.Context())
	if err != nil || len(all) != 3 || all[0].Unit != "kWh" || len(all[2].Fields) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	a := &asker{t, n}
	a.expect("GET", "/v1/plugins/stats/run?moid=1", "", 200, `"sum":1`)
	a.expect("GET", "/v1/plugins/stats/run?moid=2", "", 200, `"sum":2`)
	a.expect("GET", "/v1/plugins/stats/run?moid=3&params=field=power", "", 200, `"sum":7`)
	a.expect("GET", "/v1/plugins/stats/run?moid=1..3", "", 400, "differ")
	a.expect("GET", "/v1/plugins/stats/run?moid=1&params=type=i64", "", 400, "unchecked")
	a.expect("GET", "/v1/plugins/stats/run?moid=1&params=type=i64&unchecked=1", "", 200,
		`"count":1`)
	a.expect("GET", "/v1/plugins/stats/run?moid=3&params=field=note", "", 400, "is bytes")
	a.expect("GET", "/v1/plugins/stats/run?moid=9&params=field=power", "", 400, "not declared")
	a.expect("GET", "/v1/count?moid=3&filter=threshold&filter_params=field=power,value=6", "", 200,
		`"records":1`)
	a.expect("PUT", "/v1/quantities/x", "{}", 400, "not the number")
	a.expect("PUT", "/v1/quantities/1", `{"nam":1}`, 400, "not a quantity in JSON")
	if err := c.ForgetQuantity(t.Context(), 3); err != nil {
		t.Error(err)
	}
	var remote *wire.Error
	if err := c.ForgetQuantity(t.Context(), 3); !errors.As(err, &remote) {
		t.Errorf("%v", err)
	}
}

// TestJSONOfDeclaredQuantities puts and gets values without the parameter type.
func TestJSONOfDeclaredQuantities(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	one := func(value string) string {
		return `{"cid":1,"mid":2,"moid":3,"cap":"2026-03-03T12:00:00Z","value":` + value + `}`
	}
	a.expect("POST", "/v1/records", one("21.5"), 422, "quantity 3 is not declared as a number")
	a.expect("PUT", "/v1/quantities/3", `{"name":"heat","unit":"K","type":"f64"}`, 200)
	a.expect("POST", "/v1/records", one(`"hot"`), 422, `value: \"hot\" is not a number`)
	a.expect("POST", "/v1/records", one("21.5"), 200, `"written":1`)
	a.expect("POST", "/v1/records", one("22"), 200, `"written":1`)
	a.expect("GET", "/v1/records?moid=3", "", 200, `"value":22}`)
	a.expect("GET", "/v1/versions?moid=3", "", 200, `"value":21.5,`)
	a.expect("GET", "/v1/records?moid=3&type=base64", "", 200, `"payload":"AAAAAAAANkA="`)
	a.expect("GET", "/v1/records?type=f65", "", 400, "is not f64, f32")
	a.expect("DELETE", "/v1/quantities/3", "", 200)
	a.expect("GET", "/v1/records?moid=3", "", 200, `"payload":"AAAAAAAANkA="`)
}
