package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestUnmarshal(t *testing.T) {
	type thing struct {
		A   json.RawMessage
		Cap json.RawMessage
		N   struct{ M int }
		L   []int
		S   map[string]string
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
		`{"a":{"b":1},"cap":"}{","a":2}`: `"a"`, inMany("k39"): `"k39"`,
		`{"cap":1,"_cap":1}`: "unknown field \"_cap\"", "{\"a\":\"\xff\"}": "UTF-8",
		`[1]`:             "a JSON object is expected, this is a JSON array",
		`{"n":{"m":"x"}}`: "n.m: string is not a valid int", `{"n":{"m":1.5}}`: "number 1.5 is not",
		`{"n":"x"}`: "n: string is not a valid object", `{"l":"x"}`: "string is not a valid array",
		`{"s":1}`: "s: number is not a valid object", `{"s":{"k":1}}`: "s.k: number",
		`{"a":tru}`: "invalid character", `{"b":1}`: "unknown field", `{"a":1}{}`: "follows",
		`{"a":1`: "EOF",
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
	if err := Unmarshal(text, new(json.RawMessage)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 30*time.Second { // a square takes hours
		t.Errorf("%d bytes took %v", len(text), took)
	}
}
