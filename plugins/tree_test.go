package plugins_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// mergeTree gives random batches to a few instances, shows each to seen, merges the instances in
// random order until one is left and finishes that one.
func mergeTree(t testing.TB, r *rand.Rand, m *wasmhost.Module, params []byte, s *series,
	seen func(*rows)) [][]byte {
	t.Helper()
	leaves := make([]*wasmhost.Aggregate, 1+r.IntN(4))
	for i := range leaves {
		leaves[i] = newAggregate(t, m, params)
		for range r.IntN(3) {
			x := s.make(r)
			seen(x)
			if err := leaves[i].Add(t.Context(), &x.batch, x.gid, s.groups); err != nil {
				t.Fatalf("%+v: %v", *s, err)
			}
		}
	}
	// Batches without rows make groups and nothing else.
	if err := leaves[0].Add(t.Context(), &record.Batch{}, nil, s.groups); err != nil {
		t.Fatal(err)
	}
	for len(leaves) > 1 {
		i := 1 + r.IntN(len(leaves)-1)
		states, err := leaves[i].States(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		into := leaves[r.IntN(i)]
		if err := into.Merge(t.Context(), states, nil); err != nil {
			t.Fatal(err)
		}
		leaves[i].Close()
		leaves = append(leaves[:i], leaves[i+1:]...)
	}
	results, err := leaves[0].Finish(t.Context())
	if err != nil || len(results) != s.groups {
		t.Fatalf("%+v: %d results, %v", *s, len(results), err)
	}
	leaves[0].Close()
	return results
}

// wantStatus wants an error of a guest's status that says a text.
func wantStatus(t testing.TB, err error, status int32, text string) {
	t.Helper()
	var e *wasmhost.Error
	if !errors.As(err, &e) || e.Status != status || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want status %d and %q", err, status, text)
	}
}

// Payloads that end before the number are named, by every plugin and in every form of batch.
func TestShortPayloads(t *testing.T) {
	f := func(name string, values map[string]string) {
		t.Helper()
		m, doc := standard(t, name)
		values["offset"] = "4"
		checkShortPayloads(t, m, encode(t, doc, values))
	}
	f("stats", map[string]string{})
	f("histogram", map[string]string{"lo": "0", "hi": "1"})
	f("threshold", map[string]string{"value": "1"})
	f("threshold", map[string]string{"value": "1", "op": "ne"})
	for _, name := range []string{"between", "delta", "downsample", "first-last", "outliers",
		"quantiles", "rate-of-change", "top-k"} {
		f(name, map[string]string{})
	}
	f("distinct", map[string]string{"of": "number"})
}

// checkShortPayloads is given a plugin that reads an f64 from byte 4 on.
func checkShortPayloads(t *testing.T, m *wasmhost.Module, params []byte) {
	t.Helper()
	f := func(text string, sizes ...int) {
		t.Helper()
		var b record.Batch
		for _, n := range sizes {
			b.AppendStamped(record.Key{}, make([]byte, n))
		}
		var err error
		if m.Describe().Kinds == plugin.KindFilter {
			filter, newErr := m.NewFilter(t.Context(), params)
			if newErr != nil {
				t.Fatal(newErr)
			}
			err = filter.Keep(t.Context(), &b, make([]uint64, 1))
			filter.Close()
		} else {
			err = newAggregate(t, m, params).Add(t.Context(), &b, make([]uint32, len(sizes)), 1)
		}
		wantStatus(t, err, -2, text+" bytes, the number ends at byte 12")
	}
	f("record 0 of the batch has a payload of 0", 0)
	f("record 0 of the batch has a payload of 11", 11, 11)
	f("record 1 of the batch has a payload of 11", 12, 11)
	f("record 2 of the batch has a payload of 0", 100, 13, 0, 5)
	f("record 0 of the batch has a payload of 8", 8, 8, 8)
}
