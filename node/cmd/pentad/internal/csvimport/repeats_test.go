package csvimport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// importRepeats imports files and returns the repeats; change prepares what finds them.
func importRepeats(
	t *testing.T, mapping string, change func(*repeatFinder), files ...string,
) Repeats {
	t.Helper()
	m, err := ParseMapping([]byte(mapping))
	if err != nil {
		t.Fatal(err)
	}
	im, err := New(m, Options{Repeats: true,
		Send: func(context.Context, *record.Batch) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	change(im.repeats)
	for i, text := range files {
		name := fmt.Sprintf("%d.csv", i+1)
		if err := im.File(t.Context(), name, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if im.Summary().Rejected > 0 {
		t.Fatal(im.Summary().First)
	}
	return im.Summary().Repeats
}

// Lines that repeat a key are counted, and told apart where they say the same.
func TestRepeats(t *testing.T) {
	const header = "meter,time,kwh\n"
	f := func(mapping string, lines, equal int64, first *Repeat, files ...string) {
		t.Helper()
		r := importRepeats(t, mapping, func(*repeatFinder) {}, files...)
		switch {
		case r.Lines != lines || r.Equal != equal || r.AtLeast:
			t.Errorf("%+v, want %d and %d", r, lines, equal)
		case (first == nil) != (r.First == nil) || first != nil && *r.First != *first:
			t.Errorf("%+v, want %+v", r.First, first)
		}
	}
	f(simple, 0, 0, nil, header+"1,0,1\n1,1,1\n2,0,1\n")
	f(simple, 1, 0, &Repeat{"1.csv", 4, "1.csv", 2}, header+"1,0,1\n1,1,1\n1,0,2\n")
	f(simple, 1, 1, &Repeat{"1.csv", 5, "1.csv", 2}, header+"1,0,1\n\n1,1,1\n1,0,1.0\n")
	// The third is compared with the second, and empty files are between.
	f(simple, 2, 1, &Repeat{"3.csv", 2, "1.csv", 3}, header+"2,0,1\n1,0,1\n", header,
		header+"1,0,2\n1,0,2\n")
	f(simple+"deleted: gone\n", 2, 1, &Repeat{"1.csv", 3, "1.csv", 2},
		"meter,time,kwh,gone\n1,0,1,\n1,0,,true\n1,0,,true\n")
	f(simple+"  - {column: volt, moid: 2}\n", 1, 0, &Repeat{"1.csv", 3, "1.csv", 2},
		"meter,time,kwh,volt\n1,0,1,2\n1,0,1,3\n2,0,,\n2,0,,\n")
	f(simple+"  - {column: volt, moid: 1}\n", 1, 0, &Repeat{"1.csv", 2, "1.csv", 2},
		"meter,time,kwh,volt\n1,0,1,1\n")
}

// TestRepeatsModel compares with a map of all keys. With less memory the count is a lower bound
// that says so, unless the times of each series ascend or descend.
func TestRepeatsModel(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, order := range []string{"ascending", "descending", "random"} {
		for _, memory := range []int{maxKeyBytes, firstKeySlots * keyBytes * 3 / 2} {
			for _, spans := range []int{maxKeySpans, 5} {
				var text strings.Builder
				text.WriteString("meter,time,kwh\n")
				keys := map[[2]int]bool{}
				want := int64(0)
				for i := range 4000 {
					key := [2]int{rng.IntN(10), i / 2}
					switch order {
					case "descending":
						key[1] = -key[1]
					case "random":
						key[1] = rng.IntN(2000)
					}
					if keys[key] {
						want++
					}
					keys[key] = true
					fmt.Fprintf(&text, "%d,%d,1\n", key[0], key[1])
				}
				r := importRepeats(t, simple, func(f *repeatFinder) {
					f.maxBytes, f.maxSpans = memory, spans
				}, text.String())
				exact := memory == maxKeyBytes || order != "random" && spans == maxKeySpans
				if r.AtLeast == exact || exact && r.Lines != want || r.Lines > want ||
					r.Equal != r.Lines {
					t.Errorf("seed %d, %s, %d bytes, %d spans: %+v, want %d", seed, order, memory,
						spans, r, want)
				}
			}
		}
	}
}

func BenchmarkRepeats(b *testing.B) {
	r := newRepeatFinder()
	p := &plan{keys: make([]record.Key, 1), ends: []int{8}, payloads: make([]byte, 8)}
	b.ReportAllocs()
	n := int64(0)
	for b.Loop() {
		n++
		p.keys[0] = record.Key{CID: 1, MID: n % 1000, MOID: 1, CapNs: n / 1000}
		r.add(n, p)
	}
}
