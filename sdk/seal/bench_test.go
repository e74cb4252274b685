package seal

import (
	"context"
	"crypto/rand"
	"math/big"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

func benchTenant(b *testing.B, def Definition) (*Tenant, *Writer) {
	b.Helper()
	s, err := NewSchema(def)
	if err != nil {
		b.Fatal(err)
	}
	var keys MemoryKeyring
	keys.Generate(1)
	tenant, err := OpenTenant(&keys, 1, s)
	if err != nil {
		b.Fatal(err)
	}
	w, err := tenant.NewWriter(context.Background(), s, 42, 7)
	if err != nil {
		b.Fatal(err)
	}
	return tenant, w
}

func lean() Definition {
	return Definition{ID: 7, MaxRecords: 1e12, Fields: []Field{{ID: 1, Name: "x", Kind: Number,
		Max: 1e6, Sum: true}}}
}

func standard() Definition {
	d := lean()
	d.Envelope = true
	f := &d.Fields[0]
	f.SumSquares, f.Max = true, 1<<40
	f.Order = &Order{AcknowledgeLeakage: true}
	d.Fields = append(d.Fields, Field{ID: 2, Name: "state", Kind: Text, Equal: &Equal{}})
	return d
}

// BenchmarkSeal: nanoseconds per record, in batches of 1,000 and one by one.
func BenchmarkSeal(b *testing.B) {
	for name, def := range map[string]Definition{"lean": lean(), "standard": standard()} {
		values := []Value{{Number: 21500}, {Text: "on"}}[:len(def.Fields)]
		readings := make([]Reading, 1000)
		for i := range readings {
			readings[i] = Reading{CapNs: int64(i), Values: values}
			if def.Envelope {
				readings[i].Opaque = make([]byte, 24)
			}
		}
		b.Run(name+"/batch", func(b *testing.B) {
			_, w := benchTenant(b, def)
			var out [][]byte
			b.ReportAllocs()
			for range b.N {
				var err error
				if out, err = w.AppendBatch(out[:0], readings); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
		})
		b.Run(name+"/one", func(b *testing.B) {
			_, w := benchTenant(b, def)
			var out []byte
			b.ReportAllocs()
			for range b.N {
				var err error
				if out, err = w.Append(out[:0], readings[0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDecrypt: a sum over a million records in one run, in 1,000 runs, and of 10,000 devices.
func BenchmarkDecrypt(b *testing.B) {
	tenant, _ := benchTenant(b, lean())
	s := tenant.schemas[7]
	partial := func(devices, runsOf int) *Partial {
		p := NewPartial(s)
		for mid := range devices {
			var all runs
			per := 1_000_000 / devices / runsOf
			for i := range runsOf {
				from := uint32(1 + i*(per+1))
				all = append(all, run{from, from + uint32(per) - 1})
			}
			p.series[seriesID{1, int64(mid), 7}] = map[chainID]runs{{9, 1}: all}
			p.count += all.count()
		}
		return p
	}
	for name, p := range map[string]*Partial{"one run": partial(1, 1),
		"1,000 runs": partial(1, 1000), "10,000 devices": partial(10_000, 1)} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				if _, err := tenant.Decrypt(context.Background(), p, Expect{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAdd: nanoseconds per record of a partial that is made by Go.
func BenchmarkAdd(b *testing.B) {
	tenant, w := benchTenant(b, lean())
	s := tenant.schemas[7]
	payloads, err := w.AppendBatch(nil, make1000())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p := NewPartial(s)
		for _, payload := range payloads {
			if err := p.Add(record.Key{CID: 1, MID: 42, MOID: 7}, payload); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func make1000() []Reading {
	out := make([]Reading, 1000)
	for i := range out {
		out[i] = Reading{Values: []Value{{Number: int64(i)}}}
	}
	return out
}

// BenchmarkPaillier: what other stores add encrypted numbers with, of 2048 bits: one number
// encrypted, one added to a sum, a sum decrypted.
func BenchmarkPaillier(b *testing.B) {
	prime := func() *big.Int {
		p, err := rand.Prime(rand.Reader, 1024)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	one, p, q := big.NewInt(1), prime(), prime()
	n := new(big.Int).Mul(p, q)
	square := new(big.Int).Mul(n, n)
	p1, q1 := new(big.Int).Sub(p, one), new(big.Int).Sub(q, one)
	lambda := new(big.Int).Mul(p1, q1)
	mu := new(big.Int).ModInverse(lambda, n)
	mod := func(v *big.Int) *big.Int { return v.Mod(v, square) }
	encrypt := func(m int64) *big.Int { // (1+n)^m r^n modulo n^2
		r, err := rand.Int(rand.Reader, n)
		if err != nil {
			b.Fatal(err)
		}
		g := new(big.Int).Mul(n, big.NewInt(m))
		return mod(g.Mul(g.Add(g, one), r.Exp(r, n, square)))
	}
	sum, next := encrypt(3), encrypt(4)
	b.Run("encrypt", func(b *testing.B) {
		for b.Loop() {
			encrypt(21500)
		}
	})
	b.Run("add", func(b *testing.B) {
		to := new(big.Int).Set(sum)
		for b.Loop() {
			mod(to.Mul(to, next))
		}
	})
	b.Run("decrypt", func(b *testing.B) {
		var got *big.Int
		for b.Loop() {
			u := new(big.Int).Exp(mod(new(big.Int).Mul(sum, next)), lambda, square)
			u.Div(u.Sub(u, one), n)
			got = u.Mod(u.Mul(u, mu), n)
		}
		if got.Int64() != 7 {
			b.Fatalf("3 and 4 are %v", got)
		}
	})
}
