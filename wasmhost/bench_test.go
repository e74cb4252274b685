package wasmhost

import "testing"

// BenchmarkCall is one call of an export that does nothing, with its fuel and its counters.
func BenchmarkCall(b *testing.B) {
	h := newTestHost(b, Options{})
	m := mustLoad(b, h, good(nil))
	defer m.Close()
	a, err := m.NewAggregate(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	f := a.guest.export(exportABI)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.guest.call(&f, fuelBase); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMoving moves 10,000 states of one row into another instance, which grow or do not.
func BenchmarkMoving(b *testing.B) {
	const groups = 10_000
	h := newTestHost(b, Options{})
	for _, f := range []struct {
		name   string
		change func(*asm)
	}{{"plain", nil}, {"growing", growing}} {
		m := mustLoad(b, h, good(f.change))
		defer m.Close()
		gid := make([]uint32, groups)
		for i := range gid {
			gid[i] = uint32(i)
		}
		b.Run(f.name, func(b *testing.B) {
			from, err := m.NewAggregate(b.Context(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer from.Close()
			if err := from.Add(b.Context(), values(make([]int64, groups)...), gid,
				groups); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				into, err := m.NewAggregate(b.Context(), nil)
				if err != nil {
					b.Fatal(err)
				}
				states, err := from.States(b.Context())
				if err == nil {
					err = into.Merge(b.Context(), states, nil)
				}
				if err != nil {
					b.Fatal(err)
				}
				into.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/groups, "ns/state")
		})
	}
}

// BenchmarkInstance is an instance with its parameters, and its end: a fresh one, and one that the
// owner had before; of a small plugin, and of a program built by Go.
func BenchmarkInstance(b *testing.B) {
	h := newTestHost(b, Options{GoProfile: true})
	for name, wasm := range map[string][]byte{"plain": good(nil), "go": buildGoStats(b)} {
		m := mustLoad(b, h, wasm)
		defer m.Close()
		owner := uint64(0)
		run := func(kind string, next uint64) {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					owner += next
					a, err := m.NewAggregateFor(b.Context(), OwnerOf(owner), nil)
					if err != nil {
						b.Fatal(err)
					}
					a.Close()
				}
			})
		}
		run("fresh", 1)
		run("spare", 0)
	}
}
