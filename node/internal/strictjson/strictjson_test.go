package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
)

func TestUnmarshal(t *testing.T) {
	type thing struct {
		A   json.RawMessage
		Cap json.RawMessage
	}
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":{"k%d":[{}]}`, i, i)
	}
	inMany := func(key string) string {
		return `{"a":{` + strings.Join(many, ",") + `,"` + key + `":0}}`
	}
	for text, want := range map[string]string{
		`{}`: "", `{"a":1,"cap":2}`: "", ` {"a" : "\"a\",\"a\"" , "cap":{"a":1}} `: "",
		`{"a":[{"x":1},{"x":2},["x","x"]],"cap":[]}`: "", inMany("k40"): "",
		`{"a":1,"a":1}`: `"a"`, `{"cap":1,"a":0,"Cap":2}`: `"Cap"`,
		`{"cap":1,"c\u0061p":2}`: `"cap"`, `{"a":[0,{"b":{},"c":[{}],"b":{}}]}`: `"b"`,
		`{"a":{"b":1},"cap":"}{","a":2}`: `"a"`, inMany("K7"): `"K7"`, inMany("k39"): `"k39"`,
		`{"b":1}`: "unknown field", `{"a":1}{}`: "follows", `{"a":1`: "EOF",
	} {
		err := Unmarshal([]byte(text), new(thing))
		if want == "" && err != nil || want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%.200s: %v, want %q", text, err, want)
		}
		if doubled := (*DoubledKeyError)(nil); errors.As(err, &doubled) !=
			strings.HasPrefix(want, `"`) {
			t.Errorf("%.200s: %T", text, err)
		}
	}
}

// TestHostile has many keys with an object each: the time must not grow with their square.
func TestHostile(t *testing.T) {
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, `,"%d":{"%d":{}}`, i, i)
	}
	text := []byte("{" + b.String()[1:] + "}")
	began := time.Now()
	if err := CheckKeys(text); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 30*time.Second { // a square takes hours
		t.Errorf("%d bytes took %v", len(text), took)
	}
}

func TestCheckKeysAllocatesNothing(t *testing.T) {
	rounds.NotUnderRace(t, "it counts allocations")
	text := []byte(`{"cid":1,"mid":2,"moid":3,"cap":"2026-01-01T00:00:00Z","value":4.5}`)
	if n := testing.AllocsPerRun(100, func() { _ = CheckKeys(text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzCheckKeys compares with a decoder of tokens.
func FuzzCheckKeys(f *testing.F) {
	f.Add([]byte(`{"a":[{"b":1,"B":"\"}"},2],"c\u0061":{"a":{}}}`))
	f.Add([]byte(`["a","a",{"a":{"a":1},"b":[1,2]}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		want := doubled(t, d)
		if got := CheckKeys(text) != nil; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	})
}

// doubled reads one value and reports whether an object in it has a key twice.
func doubled(t *testing.T, d *json.Decoder) (out bool) {
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return false
	}
	var keys []string
	for d.More() {
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				out = out || strings.EqualFold(k, key.(string))
			}
			keys = append(keys, key.(string))
		}
		out = doubled(t, d) || out
	}
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	return out
}
