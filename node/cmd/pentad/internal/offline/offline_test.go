package offline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/leaks"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func newTest(t *testing.T, path string) *Runner {
	t.Helper()
	wasm, err := os.ReadFile("../../../../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func rows(values ...float64) *record.Batch {
	b := new(record.Batch)
	for i, v := range values {
		b.AppendStamped(record.Key{CID: int32(i % 2), MID: 7, CapNs: int64(i-1) * 10, AcqNs: 1},
			binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
	}
	return b
}

func TestAggregate(t *testing.T) {
	r := newTest(t, "plugins/stats/stats.wasm")
	params, err := r.Doc.EncodeParams(nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Run(t.Context(), rows(1, 0.1, 3, 0.2, 8), params,
		record.GroupBy{CID: true, CapBucketNs: 20})
	if err != nil || len(out.Groups) != 5 || out.Groups[0].CapNs != -20 ||
		out.Groups[1].CapNs != 0 || out.Groups[4].CID != 1 || out.Groups[4].CapNs != 20 ||
		out.Usage.PeakBudget == 0 || out.Usage.MemoryBytes == 0 || out.NsPerRecord <= 0 ||
		out.FuelPerRecord < 1 || out.FuelPerRecord > 512 {
		t.Fatalf("%+v, %v", out, err)
	}
	out, err = r.Run(t.Context(), rows(), params, record.GroupBy{})
	if err != nil || len(out.Groups) != 0 || !math.IsNaN(out.NsPerRecord) {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err = r.Run(t.Context(), rows(5), params, record.GroupBy{}); err != nil ||
		len(out.Groups) != 1 || out.Groups[0].Records != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	short := rows(1, 2)
	short.AppendStamped(record.Key{MID: 9}, []byte{1})
	var failed *wasmhost.Error
	if _, err = r.Run(t.Context(), short, params, record.GroupBy{}); !errors.As(err, &failed) ||
		!failed.Exact || failed.First.MID != 9 {
		t.Errorf("%v", err)
	}
}

// TestUndeclared: sums whose last bits depend on the order are noticed where a module is silent of
// them.
func TestUndeclared(t *testing.T) {
	wasm, err := os.ReadFile("../../../../../plugins/stats/stats.wasm")
	if err != nil {
		t.Fatal(err)
	}
	descriptor := bytes.Index(wasm, []byte("PTD1"))
	for _, flags := range []byte{plugin.FlagDependsOnBatches, 0} {
		wasm[descriptor+32] = flags
		r, err := New(t.Context(), wasm)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, values := range [][]float64{{0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, {1, 2, 3, 4}} {
			out, err := r.Run(t.Context(), rows(values...), nil, record.GroupBy{})
			if want := flags == 0 && values[0] < 1; err != nil || out.Undeclared != want {
				t.Errorf("flags %d, %v: %v, %v", flags, values, out.Undeclared, err)
			}
		}
	}
}

func TestFilter(t *testing.T) {
	r := newTest(t, "plugins/threshold/threshold.wasm")
	params, err := r.Doc.EncodeParams(map[string]string{"value": "2"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Run(t.Context(), rows(1, 3, 2, 5), params, record.GroupBy{})
	if err != nil || len(out.Kept) != 2 || out.Kept[0] != 1 || out.Kept[1] != 3 ||
		out.FuelPerRecord <= 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestCompare wants sums that differ in the last bits taken for equal, and other numbers not.
func TestCompare(t *testing.T) {
	f := func(a, b any, want bool) {
		t.Helper()
		if near(a, b) != want {
			t.Errorf("%v, %v: %v", a, b, !want)
		}
	}
	f(0.1+0.2, 0.3, true)
	f(1.0, 1.0001, false)
	f(math.NaN(), math.NaN(), true)
	f(math.NaN(), 1.0, false)
	f(math.Inf(1), math.Inf(1), true)
	f(math.Inf(1), 1.0, false)
	f(int64(1), int64(2), false)
	f(uint64(3), uint64(3), true)
	f([]any{1.0, 0.1 + 0.2}, []any{1.0, 0.3}, true)
	f([]any{1.0}, []any{1.0, 2.0}, false)
	f([]byte("a"), []byte("b"), false)
}

// TestWrongMerge has an aggregate whose merge does nothing.
func TestWrongMerge(t *testing.T) {
	wasm, err := os.ReadFile("testdata/forgets.wasm")
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var wrong *MergeError
	_, err = r.Run(t.Context(), rows(1, 2, 3), nil, record.GroupBy{})
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(),
		"count of group 1 is 3 in one instance and 1 in two that are merged") {
		t.Errorf("%v", err)
	}
}
