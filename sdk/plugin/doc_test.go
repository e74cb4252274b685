package plugin

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

const sample = `{"name":"h","params":[{"name":"lo","type":"f64"},{"name":"n","type":"u64","default":"4"},
{"name":"kind","type":"enum","enum":["a","b"],"default":"b"}],
"result":[{"name":"count","type":"u64"},{"name":"mean","type":"f64"},{"name":"x","type":"i64","repeat":true}]}`

func TestParamsAndResults(t *testing.T) {
	d, err := ParseDoc([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.EncodeParams(map[string]string{"lo": "-1.5"})
	want := binary.LittleEndian.AppendUint64(nil, math.Float64bits(-1.5))
	want = binary.LittleEndian.AppendUint64(want, 4)
	want = binary.LittleEndian.AppendUint64(want, 1)
	if err != nil || string(got) != string(want) {
		t.Fatalf("params %x, %v; want %x", got, err, want)
	}
	refuse := func(text string, values map[string]string) {
		t.Helper()
		if _, err := d.EncodeParams(values); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v, want %q", values, err, text)
		}
	}
	refuse("needs parameter lo", nil)
	refuse(`no parameter "up"`, map[string]string{"lo": "1", "up": "2"})
	refuse("parameter lo", map[string]string{"lo": "one"})
	refuse("parameter n", map[string]string{"lo": "1", "n": "-1"})
	refuse("is not one of a, b", map[string]string{"lo": "1", "kind": "c"})

	result := binary.LittleEndian.AppendUint64(nil, 3)
	result = binary.LittleEndian.AppendUint64(result, math.Float64bits(2.5))
	result = binary.LittleEndian.AppendUint64(result, 7)
	values, err := d.Render(result)
	if err != nil || len(values) != 3 || values[0].Value != uint64(3) || values[1].Value != 2.5 {
		t.Fatalf("rendered %v, %v", values, err)
	}
	for _, cut := range []int{0, 8, 15, 23} {
		if _, err := d.Render(result[:cut]); err == nil {
			t.Errorf("a result of %d bytes is rendered", cut)
		}
	}
}

func FuzzParseDoc(f *testing.F) {
	f.Add([]byte(sample), []byte("12345678"))
	f.Fuzz(func(t *testing.T, src, result []byte) {
		d, err := ParseDoc(src)
		if err != nil {
			return
		}
		_, _ = d.Render(result)
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseDoc(again); err != nil && len(again) <= MaxDocBytes {
			t.Fatalf("%q parses, %q does not: %v", src, again, err)
		}
	})
}
