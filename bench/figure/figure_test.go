package figure

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestTableAndFile(t *testing.T) {
	var l List
	l.Add("open", 1234.5, "ms")
	l.AtLeast("ingest", 1.23456, "M records/s", 0.6)
	l.AtMost("size", 10.25, "B", 10)
	var out bytes.Buffer
	if err := l.Table(&out); err != nil {
		t.Fatal(err)
	}
	want := "FIGURE  VALUE  UNIT         BAR     HOLDS\n" +
		"open    1234   ms\n" +
		"ingest  1.235  M records/s  >= 0.6  yes\n" +
		"size    10.25  B            <= 10   NO\n"
	if got := out.String(); got != want {
		t.Errorf("table:\n%s\nwant:\n%s", got, want)
	}
	path := filepath.Join(t.TempDir(), "new", "quick.json")
	if err := l[1:2].Save(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	wantText := `[
  {
    "name": "ingest",
    "value": 1.23456,
    "unit": "M records/s",
    "bar": ">= 0.6",
    "holds": true
  }
]
`
	if err != nil || string(text) != wantText {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestCompare(t *testing.T) {
	var before, after List
	before.Add("open", 100, "ms")
	before.Add("close", 100, "ms")
	before.Add("ingest", 100, "M records/s")
	before.Add("of others", 100, Ratio)
	before.AtMost("of ours", 100, Ratio, 1000)
	before.Add("gone", 5, "B")
	after.Add("open", 150, "ms")
	after.Add("close", 120, "ms")
	after.Add("ingest", 50, "M records/s")
	after.Add("of others", 200, Ratio)
	after.AtMost("of ours", 200, Ratio, 1000)
	after.Add("new", 2, "us")
	path := filepath.Join(t.TempDir(), "old.json")
	if err := before.Save(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	worse, err := Compare(&out, loaded, after, 0.25)
	if err != nil || worse != 3 {
		t.Errorf("%d are worse, want 3; %v", worse, err)
	}
	want := "FIGURE     OLD    NEW    NEW / OLD  UNIT         \n" +
		"open       100.0  150.0  1.50       ms           WORSE\n" +
		"close      100.0  120.0  1.20       ms           \n" +
		"ingest     100.0  50.00  0.50       M records/s  WORSE\n" +
		"of others  100.0  200.0  2.00       ratio        \n" +
		"of ours    100.0  200.0  2.00       ratio        WORSE\n" +
		"new        -      2.000  -          us           \n" +
		"gone       5.000  -      -          B            \n"
	if out.String() != want {
		t.Errorf("compared:\n%s\nwant:\n%s", &out, want)
	}
	var none List
	none.Add("ingest", 0, "M records/s")
	if worse, err := Compare(&out, loaded, none, 0.25); err != nil || worse != 1 {
		t.Errorf("a rate that fell to 0: %d are worse, %v", worse, err)
	}
	if _, err := Compare(&out, loaded, after[5:], 0.25); err == nil {
		t.Error("runs without a figure in common are compared")
	}
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil {
		t.Error("an object is taken for a list")
	}
}

func TestSpread(t *testing.T) {
	var first, second List
	first.Add("a / b", 2, Ratio)
	first.Add("c / d", 10, Ratio)
	first.Add("time", 10, "us")
	first.Add("gone", 10, Ratio)
	second.Add("a / b", 1.5, Ratio)
	second.Add("c / d", 11, Ratio)
	second.Add("time", 100, "us")
	var out bytes.Buffer
	beyond, err := Spread(&out, first, second, 0.25)
	if err != nil || beyond != 1 {
		t.Errorf("%d beyond, %v", beyond, err)
	}
	want := "RATIO  FIRST  SECOND  APART\n" +
		"a / b  2.000  1.500   33 %\n" +
		"c / d  10.00  11.00   10 %\n" +
		"2 ratios, median 10 % apart, at most 33 %; 1 beyond 25 %\n"
	if out.String() != want {
		t.Errorf("spread:\n%s\nwant:\n%s", &out, want)
	}
	if _, err := Spread(&out, nil, second, 0.25); err == nil {
		t.Error("a spread of nothing")
	}
}
