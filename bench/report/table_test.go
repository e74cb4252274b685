package report

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// smallRun has a system of either class, one that cannot answer and a workload without queries.
func smallRun() *Run {
	first := Summarise([]float64{9, 5, 7})
	second := Summarise([]float64{7000})
	second.Ratio = SummariseRatios([]float64{1000, 800, 1200})
	return &Run{Machine: "a machine_1", LoadEnd: "0.5", Command: "bench run",
		When: time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC), Took: time.Minute,
		Results: []Result{
			{Workload: "meters", Phase: "loaded", Records: 4_020_000, Series: 12,
				Systems: []System{
					{Name: "pentad", Ingest: 1.5, Settled: 1.1, BytesPerRecord: 9.4,
						DurabilityClass: classSynced},
					{Name: "b|c", Ingest: 0.034, BytesPerRecord: 523,
						DurabilityClass: classWritten}},
				Queries: []Query{
					{Name: "Q1", About: "a device", Rows: 19.4, Times: []Time{first, second}},
					{Name: "Q2", Rows: 12345, Times: []Time{Summarise([]float64{1}),
						{Unsupported: "no <versions>"}}}},
				LeftOut: []string{"d: not here"}},
			{Workload: "empty", Systems: []System{{Name: "pentad"}}},
		}}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := smallRun().Table(&out); err != nil {
		t.Fatal(err)
	}
	want := `meters, loaded: 4,020,000 records of 12 series
                           rows  pentad           b|c
ingest, M records/s                1.50       0.034 *
until ready for queries            1.10             -
bytes/record                        9.4           523
Q1 a device                  19    7 us  7 ms (1000x)
Q2                       12,345    1 us         - [1]
* acknowledged when the kernel has it: survives the end of the process, not a power failure
[1] b|c: no <versions>
left out: d: not here

empty: 0 records
                     rows  pentad
ingest, M records/s             -
bytes/record                    -
`
	if out.String() != want {
		t.Errorf("table:\n%s\nwant:\n%s", &out, want)
	}
}

func TestTableFits(t *testing.T) {
	var out bytes.Buffer
	if err := sampleRun(14, 6).Table(&out); err != nil {
		t.Fatal(err)
	}
	first := 0
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(line); n > 150 {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.Contains(line, "rows   pentad  ") {
			first++
		}
	}
	if first != 18 {
		t.Errorf("the first system heads %d blocks, want 18", first)
	}
}

func TestMarkdown(t *testing.T) {
	var out bytes.Buffer
	if err := smallRun().Markdown(&out); err != nil {
		t.Fatal(err)
	}
	want := "- command: `bench run`" + `
- date: 2026-11-21, took 1m0s
- machine: a machine\_1

` + "Medians. In brackets, or alone where the time is unknown: how many times " +
		"as long as the first\nsystem, the median over pairs of runs.\n" + `
**meters, loaded: 4,020,000 records of 12 series**

| | rows | pentad | b\|c |
|---|---:|---:|---:|
| ingest, M records/s | | 1.50 | 0.034 \* |
| until ready for queries | | 1.10 | - |
| bytes/record | | 9.4 | 523 |
| Q1: a device | 19 | 7 us | 7 ms (1000x) |
| Q2 | 12,345 | 1 us | - \[1\] |

- \* acknowledged when the kernel has it: survives the end of the process, not a power failure
- \[1\] b\|c: no &lt;versions>
- left out: d: not here

**empty: 0 records**

| | rows | pentad |
|---|---:|---:|
| ingest, M records/s | | - |
| bytes/record | | - |
`
	if out.String() != want {
		t.Errorf("markdown:\n%s\nwant:\n%s", &out, want)
	}
}

func TestUnits(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(Duration(0.5), "0.5 us")
	f(Duration(1234), "1.23 ms")
	f(Duration(2.5e6), "2.5 s")
	f(Duration(math.NaN()), "-")
	f(Times(0.3), "0.30x")
	f(Times(12.34), "12.3x")
	f(Times(1234), "1234x")
	f(count(0), "0")
	f(count(999), "999")
	f(count(1234567.4), "1,234,567")
	f(number(0.034), "0.034")
	f(number(1.5), "1.50")
	f(number(1234.5), "1,234")
	f(weight(9.4), "9.4")
	f(cut("one two", 5), "one…")
	f(cut("one", 3), "one")
}
