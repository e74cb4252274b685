package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestProgressLines(t *testing.T) {
	var stderr bytes.Buffer
	now := time.Unix(0, 0)
	a := &App{Stderr: &stderr, Now: func() time.Time { return now }}
	p := a.NewProgress("import", 1000, false)
	for i := range 11 {
		now = now.Add(time.Second)
		p.Add(50, int64(i+1)*1000)
	}
	now = now.Add(LogEvery)
	p.Add(500, 16_000) // more than there is
	p.Close()
	want := "import: 5,000 records, 1,000/s, 25 %, about 15.0 s left\n" +
		"import: 10,000 records, 1,000/s, 50 %, about 10.0 s left\n" +
		"import: 16,000 records, 1,000/s\n"
	if stderr.String() != want {
		t.Errorf("%q, want %q", &stderr, want)
	}

	stderr.Reset()
	p = a.NewProgress("import", -1, false) // stdin
	now = now.Add(time.Minute)
	p.Add(50, 600)
	if stderr.String() != "import: 600 records, 10/s\n" {
		t.Errorf("%q", &stderr)
	}
	stderr.Reset()
	a.Quiet = true
	p.Add(50, 600)
	a.StderrTerminal = true
	if q := a.NewProgress("import", 10, true); stderr.Len() > 0 || q.bar != nil {
		t.Errorf("quiet, but %q", &stderr)
	}
}

func TestProgressBar(t *testing.T) {
	var stderr bytes.Buffer
	now := time.Unix(0, 0)
	a := &App{Stderr: &stderr, StderrTerminal: true, Now: func() time.Time { return now }}
	p := a.NewProgress("import", 1000, false)
	now = now.Add(2 * time.Second)
	p.Add(500, 30_000)
	p.Close()
	if text := stderr.String(); !strings.Contains(text, "30,000 records  15,000/s") {
		t.Errorf("%q", text)
	}
}
