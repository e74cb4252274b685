package report

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPlots(t *testing.T) {
	run := sampleRun(14, 1)
	dir := filepath.Join(t.TempDir(), "plots")
	paths, err := run.SavePlots(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	want := []string{"meters-overview.png", "meters-ingest.png", "meters-size.png",
		"meters-ratios-1.png", "meters-ratios-2.png", "meters-latencies-1.png",
		"meters-latencies-2.png", "meters-cost.png"}
	if !slices.Equal(names, want) {
		t.Fatalf("plots %v, want %v", names, want)
	}
	s := sheet{&run.Results[0], run.looks()}
	figures := append(s.overview(), append(s.load(), s.asked()...)...)
	for i, path := range paths {
		picture := decode(t, path)
		size, f := picture.Bounds().Size(), figures[i]
		if want := image.Pt(int(2*f.width), int(2*f.height)); size != want {
			t.Errorf("%s: %v pixels, want %v", path, size, want)
		}
		colours := pixels(picture)
		if len(colours) < 50 || colours[pentadGreen()] < 50 {
			t.Errorf("%s: %d colours, %d pixels of pentad's", path, len(colours),
				colours[pentadGreen()])
		}
		if share := float64(colours[white()]) / float64(size.X*size.Y); share < 0.3 {
			t.Errorf("%s: only %.2f are paper", path, share)
		}
	}
}

func decode(t *testing.T, path string) image.Image {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return picture
}

// pixels counts the pixels of each colour.
func pixels(picture image.Image) map[color.RGBA]int {
	out := map[color.RGBA]int{}
	size := picture.Bounds()
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			out[color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0xff}]++
		}
	}
	return out
}

// oddRuns are runs that have nothing, too little, or what is not a number.
func oddRuns() map[string]*Run {
	nan, inf := math.NaN(), math.Inf(1)
	none := sampleRun(3, 1)
	none.Results[0].Queries = nil
	zero := sampleRun(3, 1)
	strange := sampleRun(3, 1)
	short := sampleRun(3, 1)
	cannot := sampleRun(3, 1)
	for i := range zero.Results[0].Systems {
		s := &zero.Results[0].Systems[i]
		s.Ingest, s.Settled, s.BytesPerRecord, s.Put = 0, 0, 0, Time{}
		s = &strange.Results[0].Systems[i]
		s.Ingest, s.Settled, s.BytesPerRecord = nan, inf, -inf
		s.Put = Time{MedianUs: inf, MinUs: nan, SamplesUs: []float64{nan, -1, 0}}
	}
	for i := range zero.Results[0].Queries {
		q := &zero.Results[0].Queries[i]
		q.Rows, q.Times = 0, make([]Time, 3)
		q = &strange.Results[0].Queries[i]
		q.Rows = nan
		q.Times[0].MedianUs = nan
		q.Times[1] = Time{MedianUs: 5, MaxUs: inf, Ratio: Ratio{nan, inf, -1}}
		q = &short.Results[0].Queries[i]
		q.Times = q.Times[:i%3]
		q = &cannot.Results[0].Queries[i]
		q.Times = []Time{{Unsupported: "not me"}, {Unsupported: "nor me"}, q.Times[2]}
	}
	many := sampleRun(14, 1)
	x := &many.Results[0]
	for i := range 14 {
		s := x.Systems[i]
		s.Name = fmt.Sprintf("%s-%d-with-a-name-that-is-too-long", s.Name, i)
		s.Durability = strings.Repeat("waits for very much ", 20)
		x.Systems = append(x.Systems, s)
	}
	for i := range x.Queries {
		x.Queries[i].Times = append(x.Queries[i].Times, x.Queries[i].Times...)
		x.Queries[i].Name = strings.Repeat("long", i)
	}
	return map[string]*Run{"nothing": {}, "empty result": {Results: make([]Result, 1)},
		"queries without systems": {Results: []Result{{Queries: sampleQueries()}}},
		"one system":              sampleRun(1, 1), "two": sampleRun(2, 2), "no queries": none,
		"zero": zero, "not numbers": strange, "short": short, "cannot": cannot, "many": many,
		"small": smallRun()}
}

func TestOddRuns(t *testing.T) {
	for name, run := range oddRuns() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var table, markdown strings.Builder
			if err := run.Table(&table); err != nil {
				t.Error(err)
			}
			if err := run.Markdown(&markdown); err != nil {
				t.Error(err)
			}
			paths, err := run.savePlots(dir, 36) // TestPlots has the usual size
			if err != nil {
				t.Error(err)
			}
			for _, path := range paths {
				decode(t, path)
			}
			page := savePage(t, run)
			for _, text := range []string{table.String(), markdown.String(), page} {
				for _, word := range []string{"NaN", "Inf"} {
					if at := strings.Index(text, word); at >= 0 {
						t.Errorf("%s in %q", word, text[max(0, at-60):at+10])
					}
				}
			}
		})
	}
}

func TestScale(t *testing.T) {
	f := func(s scale, want ...float64) {
		t.Helper()
		got := s.ticks(30)
		if len(got) != len(want) {
			t.Errorf("ticks %v, want %v", got, want)
			return
		}
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-9*want[i] {
				t.Errorf("ticks %v, want %v", got, want)
			}
		}
	}
	f(logScale(0, 200, []float64{3, 400}), 10, 100)
	f(logScale(0, 200, []float64{10, 10}), 5, 10, 20)
	f(logScale(0, 100, []float64{1, 1e9}), 1, 1000, 1e6, 1e9)
	f(logScale(0, 100, nil), 0.5, 1, 2)
	f(lineScale(0, 100, 2.14), 0, 1, 2)
	f(lineScale(0, 100, 0), 0, 0.5, 1)
	s := logScale(0, 100, []float64{1, 100})
	if at := s.at(10); math.Abs(at-50) > 1e-9 || s.at(0) != 0 || s.at(1e9) != 100 {
		t.Errorf("10 at %v, 0 at %v, much at %v", at, s.at(0), s.at(1e9))
	}
}

func TestLooks(t *testing.T) {
	looks := sampleRun(14, 2).looks()
	if looks["pentad"] != (look{pentadGreen(), circle}) {
		t.Errorf("pentad looks like %v", looks["pentad"])
	}
	met := map[look]string{}
	for name, l := range looks {
		if met[l] != "" {
			t.Errorf("%s and %s look alike", name, met[l])
		}
		met[l] = name
	}
}

func TestOrder(t *testing.T) {
	if got := order([]float64{3, 0, 1, 2, 0}); !slices.Equal(got, []int{2, 3, 0, 1, 4}) {
		t.Errorf("order %v", got)
	}
}
