package quantity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
)

func location() *plugin.Quantity {
	return &plugin.Quantity{MOID: 9, Name: "location", Type: plugin.Struct,
		Fields: []plugin.QuantityField{{Name: "lat", Type: plugin.F64},
			{Name: "lon", Type: plugin.F64, Offset: 8}, {Name: "alt", Type: plugin.F32, Offset: 16},
			{Name: "satellites", Type: plugin.U32, Offset: 24},
			{Name: "note", Type: plugin.Text, Offset: 28}}}
}

// TestObject writes random fields as an object and reads each from the payload.
func TestObject(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	q := location()
	for range 300 {
		fields := map[string]any{"satellites": rng.Uint32()}
		want := map[string]any{"lat": math.NaN(), "lon": math.NaN(), "alt": float32(math.NaN()),
			"satellites": fields["satellites"], "note": ""}
		for _, name := range []string{"lat", "lon"} {
			if rng.IntN(3) > 0 {
				fields[name] = rng.NormFloat64()
				want[name] = fields[name]
			}
		}
		if rng.IntN(3) > 0 {
			fields["alt"] = rng.Float32()
			want["alt"] = fields["alt"]
		}
		if rng.IntN(3) > 0 {
			fields["note"] = strings.Repeat("ä\n", rng.IntN(9))
			want["note"] = fields["note"]
		}
		src, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		d := NewDeclared([]plugin.Quantity{*q}, F64)
		payload, err := Read([]byte("before"), d, 9, string(src))
		if err != nil || d.Check(9, payload[6:]) != nil {
			t.Fatal(err)
		}
		payload = payload[6:]
		for _, f := range q.Fields {
			kind, _ := Parse(f.Type)
			part := payload[f.Offset:]
			if kind.size() > 0 {
				part = part[:kind.size()]
			}
			if got := kind.Decode(part); fmt.Sprint(got) != fmt.Sprint(want[f.Name]) {
				t.Fatalf("%s: field %s is %v, want %v", src, f.Name, got, want[f.Name])
			}
		}
	}
}

func TestObjectRefuses(t *testing.T) {
	f := func(src, want string) {
		t.Helper()
		_, err := AppendObject(nil, location(), []byte(src))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", src, err, want)
		}
	}
	f(`{"latt":1}`, `quantity 9 (location) has no field "latt"; did you mean lat?; it has lat, lon`)
	f(`{"lat":1}`, "the field satellites of quantity 9 (location) has no value")
	f(`{"lat":[1],"satellites":1}`, "the field lat of quantity 9 (location): [1] is neither")
	f(`{"lat":true}`, "is neither a number nor a text")
	f(`{"lat":"north","satellites":1}`, `"north" is not an f64`)
	f(`{"satellites":-1}`, "is not a u32")
	f(`{"lat":1,"lat":2}`, "twice")
	f(`{"satellites":1,"lat":1`, "unexpected EOF")
	_, err := AppendFields(nil, &plugin.Quantity{MOID: 1, Name: "x", Type: plugin.Struct,
		Fields: []plugin.QuantityField{{Name: "a", Type: plugin.F64}}},
		func(string) (string, bool) { return "", false })
	if err == nil || !strings.Contains(err.Error(), "no field of quantity 1 (x) has a value") {
		t.Error(err)
	}
}

func FuzzAppendObject(f *testing.F) {
	f.Add([]byte(`{"lat":65.5,"lon":25,"satellites":4,"note":"x"}`))
	f.Add([]byte(`{"lat":"NaN","satellites":1e3}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		out, err := AppendObject(nil, location(), src)
		if err == nil && len(out) < 28 || len(out) > 28+len(src) {
			t.Errorf("%q: %d bytes, %v", src, len(out), err)
		}
	})
}

// TestShownIsRead: what is shown of any payload of any struct gives this payload again, or says
// that it does not; those that AppendFields makes are all shown.
func TestShownIsRead(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	kinds := []string{plugin.F64, plugin.F32, plugin.I64, plugin.I32, plugin.U32, plugin.Text,
		plugin.Bytes}
	shown := 0
	for range 3000 {
		q := &plugin.Quantity{MOID: 9, Name: "a", Type: plugin.Struct}
		offset, open := uint32(0), false
		for i := range 1 + r.IntN(4) {
			offset += uint32(r.IntN(2))
			kind := kinds[r.IntN(len(kinds))]
			q.Fields = append(q.Fields, plugin.QuantityField{Name: fmt.Sprintf("f\"%d", i),
				Type: kind, Offset: offset})
			if open = kind == plugin.Text || kind == plugin.Bytes; open {
				break
			}
			t, _ := Parse(kind)
			offset += uint32(t.size())
		}
		payload := make([]byte, int(offset)+r.IntN(3)*r.IntN(9))
		for i := range payload {
			payload[i] = []byte{0, 'a', 0x7f, 0xff, byte(r.IntN(256))}[r.IntN(5)]
		}
		object, same := AppendShown([]byte("x"), q, payload)
		if !same {
			continue
		}
		shown++
		again, err := AppendObject(nil, q, object[1:])
		if err != nil || !bytes.Equal(again, payload) || !json.Valid(object[1:]) {
			t.Fatalf("%v: %x is shown as %s, which is %x, %v", q.Fields, payload, object, again,
				err)
		}
	}
	if shown < 300 {
		t.Errorf("%d payloads of 3,000 are shown", shown)
	}
	q := &plugin.Quantity{MOID: 9, Name: "a", Type: plugin.Struct, Fields: []plugin.QuantityField{
		{Name: "lat", Type: plugin.F64}, {Name: "n", Type: plugin.I64, Offset: 8},
		{Name: "note", Type: plugin.Text, Offset: 17}}}
	for _, text := range []string{`{"lat":1e-09,"n":-9223372036854775808,"note":"a\nb"}`,
		`{"lat":null,"n":9223372036854775807,"note":""}`, `{"lat":"-Inf","n":0,"note":"ä"}`} {
		payload, err := AppendObject(nil, q, []byte(text))
		object, same := AppendShown(nil, q, payload)
		if err != nil || !same || string(object) != text {
			t.Errorf("%s is shown as %s, %v, %v", text, object, same, err)
		}
	}
}
