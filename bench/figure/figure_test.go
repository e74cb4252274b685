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
