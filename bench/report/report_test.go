package report

import (
	"bytes"
	"math"
	"testing"
)

func TestTable(t *testing.T) {
	r := Result{Systems: []System{{Name: "a", Ingest: 1.5, BytesPerRecord: 9.4}, {Name: "b"}},
		Queries: []Query{{Name: "Q1", Rows: 19.4, Times: []Time{Summarise([]float64{9, 5, 7}),
			Summarise([]float64{7000})}}, {Name: "Q2", Times: []Time{Summarise([]float64{1}),
			Summarise(nil)}}}}
	var out bytes.Buffer
	if err := r.Table(&out); err != nil {
		t.Fatal(err)
	}
	want := "                     a      b\n" +
		"ingest, M records/s  1.500  0.000\n" +
		"bytes per record     9.4    0.0\n" +
		"Q1, 19 rows          7 us   7 ms (1000x)\n" +
		"Q2, 0 rows           1 us   - (-)\n"
	if out.String() != want {
		t.Errorf("table:\n%s\nwant:\n%s", &out, want)
	}
	if got := Summarise([]float64{9, 5, 7}); got != (Time{7, 5, 9, 3}) {
		t.Errorf("summary %+v", got)
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
}
