package wasmhost

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// shortAt is records with 8 bytes of payload, but for some that have 3.
func shortAt(rows int, short ...int) *record.Batch {
	b := new(record.Batch)
	for i := range rows {
		k := record.Key{CID: 1, MID: int64(i), MOID: 2, CapNs: 1e18, AcqNs: int64(i) + 1}
		payload := make([]byte, 8)
		for _, s := range short {
			if i == s {
				payload = payload[:3]
			}
		}
		b.AppendStamped(k, payload)
	}
	return b
}

// TestFailingRecord hands standard plugins records of which some are too short for them.
func TestFailingRecord(t *testing.T) {
	h := newTestHost(t, Options{})
	load := func(name string) *Module {
		wasm, err := os.ReadFile("../plugins/" + name + "/" + name + ".wasm")
		if err != nil {
			t.Fatal(err)
		}
		return mustLoad(t, h, wasm)
	}
	stats, threshold := load("stats"), load("threshold")
	defer stats.Close()
	defer threshold.Close()
	params := make([]byte, 32)
	f := func(export string, b *record.Batch, mid int64) {
		t.Helper()
		before := h.Stats()
		var err error
		if export == exportAdd {
			a, e := stats.NewAggregate(t.Context(), nil)
			if e != nil {
				t.Fatal(e)
			}
			err = a.Add(t.Context(), b, nil, 1)
			_ = a.Close()
		} else {
			k, e := threshold.NewFilter(t.Context(), params)
			if e != nil {
				t.Fatal(e)
			}
			err = k.Keep(t.Context(), b, make([]uint64, (b.Len()+63)/64))
			_ = k.Close()
		}
		var failed *Error
		if !errors.As(err, &failed) {
			t.Fatalf("%s: %v", export, err)
		}
		if !failed.Exact || failed.First.MID != mid || failed.Last != failed.First ||
			failed.Export != export || failed.Kind != Status || failed.FuelUsed == 0 ||
			failed.MemoryBytes == 0 || failed.Message == "" ||
			!strings.Contains(err.Error(), "; at the record cid 1, mid ") {
			t.Errorf("%s: %+v", export, failed)
		}
		after := h.Stats()
		if after.Failures[Status] != before.Failures[Status]+1 ||
			after.Instances != before.Instances {
			t.Errorf("%s: failures %v, instances %d, before %v, %d", export, after.Failures,
				after.Instances, before.Failures, before.Instances)
		}
	}
	for _, export := range []string{exportAdd, exportFilter} {
		f(export, shortAt(1, 0), 0)
		f(export, shortAt(100, 99), 99)
		f(export, shortAt(100, 0), 0)
		f(export, shortAt(5000, 4500, 4600), 4500)
	}
}

// TestNoFailingRecord has a plugin that fails at several records and not at one of them alone.
func TestNoFailingRecord(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(func(a *asm) {
		// Traps when the batch has more than one row.
		a.replace(exportAdd, "", cat(add(cat(get(0), load(4)), i32c(-1)),
			when(ops(opUnreachable)), i32c(0)))
	}))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	err = a.Add(t.Context(), shortAt(50), nil, 1)
	var failed *Error
	if !errors.As(err, &failed) || failed.Exact || failed.Rows != 50 || failed.First.MID != 0 ||
		failed.Last.MID != 49 ||
		!strings.Contains(err.Error(), "; in 50 records from cid 1, mid 0") {
		t.Errorf("%v", err)
	}
}
