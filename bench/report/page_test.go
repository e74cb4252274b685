package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func savePage(t *testing.T, run *Run) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.html")
	if err := run.SaveHTML(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPageStandsAlone(t *testing.T) {
	page := savePage(t, sampleRun(14, 6))
	if len(page) > 3<<20 {
		t.Errorf("%d bytes, at most 3 MiB", len(page))
	}
	for _, word := range []string{"http:", "https:", "//", "src=", "<script", "<link", "@import",
		"url(", "<iframe", "<image"} {
		if at := strings.Index(page, word); at >= 0 {
			t.Errorf("%s in %q", word, page[max(0, at-60):at+20])
		}
	}
	for _, word := range []string{"bench run --rows 4000000", "AMD EPYC", "1h13m12s", "1.94",
		"2026-11-21 09:30 UTC", "cassandra: needs a JVM", "influxdb, Q6: has no index",
		`href="#result-6"`, `id="result-6"`, "A B A B", "vehicles, first half"} {
		if !strings.Contains(page, word) {
			t.Errorf("%q is not on the page", word)
		}
	}
	for _, link := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+link[1]+`"`) {
			t.Errorf("a link leads to %s, which is not there", link[1])
		}
	}
}

func TestPagePlotsAreWellFormed(t *testing.T) {
	page := savePage(t, sampleRun(14, 1))
	plots := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(plots) != 8 {
		t.Errorf("%d plots, want 8", len(plots))
	}
	for _, plot := range plots {
		for d := xml.NewDecoder(strings.NewReader(plot)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %.200s", err, plot)
			}
		}
	}
}

func TestPageEscapes(t *testing.T) {
	const bad = `<b onclick="x">&'` + "`</svg>"
	run := smallRun()
	run.Machine, run.Command, run.LoadEnd = bad, bad, bad
	x := &run.Results[0]
	x.Workload, x.Phase, x.About, x.LeftOut = bad, bad, bad, []string{bad}
	x.Systems[0] = System{Name: bad, Version: bad, About: bad, Durability: bad,
		DurabilityClass: bad, Ingest: 1, BytesPerRecord: 3, Put: Summarise([]float64{1, 2})}
	x.Queries[0].Name, x.Queries[0].About = bad, bad
	x.Queries[1].Times[1].Unsupported = bad
	page := savePage(t, run)
	if at := strings.Index(page, "<b onclick"); at >= 0 {
		t.Errorf("not escaped: %q", page[max(0, at-100):at+40])
	}
	if opened, closed := strings.Count(page, "<svg"), strings.Count(page, "</svg"); opened == 0 ||
		opened != closed {
		t.Errorf("%d plots begin and %d end", opened, closed)
	}
}
