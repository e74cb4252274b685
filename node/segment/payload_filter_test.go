package segment

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
)

// filterPrograms are conditions for payloads of many types, of moids 0 and 1.
var filterPrograms = sync.OnceValue(func() (all []*where.Program) {
	add := func(text string, quantities ...plugin.Quantity) {
		bound, err := where.Bind(text, quantities, nil)
		if err != nil {
			panic(err)
		}
		p, err := where.Compile(bound)
		if err != nil {
			panic(err)
		}
		all = append(all, p)
	}
	for _, kind := range []string{"f64", "f32", "i64", "i32", "u32"} {
		for _, text := range []string{"value > 10", "value not in (3, 4, 1152921504606846976)",
			"value = -1..100 or value < -1000", "value > 1e30", where.Unreadable} {
			add(text, plugin.Quantity{Name: "a", Type: kind},
				plugin.Quantity{MOID: 1, Name: "b", Type: kind})
		}
	}
	add(`value ^= "abc"`, plugin.Quantity{Name: "a", Type: "text"})
	add(`value != "abcabcabcabcabc"`, plugin.Quantity{MOID: 1, Name: "b", Type: "text"})
	one := plugin.Quantity{Name: "c", Type: "struct", Fields: []plugin.QuantityField{
		{Name: "value", Type: "f64"}, {Name: "n", Type: "i64", Offset: 8}}}
	two := plugin.Quantity{MOID: 1, Name: "d", Type: "struct", Fields: []plugin.QuantityField{
		{Name: "value", Type: "i32", Offset: 3}, {Name: "n", Type: "u32", Offset: 12}}}
	add("value > 20 and n = 1", one, two)
	add("not (value > 20 or n != 0)", one, two)
	add(where.Unreadable, one, two)
	return all
})

// checkFilter holds what a filter keeps of all rows, or of some, against a look at each payload,
// which are nil for a damaged block.
func checkFilter(t *testing.T, b *Block, payloads [][]byte, moids []int32, some []uint32) {
	t.Helper()
	var dense, batch record.Batch
	for _, p := range filterPrograms() {
		for _, mode := range []string{"", "learn", "few"} {
			f := PayloadFilter{Program: p}
			none := f.Begin(b, 0, 1, mode == "few")
			rule, learn := f.Rule(), mode == "learn"
			if learn = learn && rule != nil && len(rule.Fields) > 0; learn {
				f.Learn()
			}
			sel := b.FilterSpan(record.CID, nil, 0, b.Rows(), nil)
			if !learn && some != nil {
				sel = slices.Clone(some)
			}
			asked := slices.Clone(sel)
			kept, err := f.Rows(sel)
			if payloads == nil { // it is damaged, and nothing must break
				if err == nil {
					_, _ = b.GatherDense(kept, AllColumns, &dense, &batch)
				}
				batch.Reset()
				continue
			}
			want := slices.DeleteFunc(asked, func(at uint32) bool {
				return !p.Match(moids[at], payloads[at])
			})
			if err != nil || !slices.Equal(kept, want) || none && len(want) > 0 {
				t.Fatalf("kind %d, %+v: none %v, kept %d, want %d; %v", b.kind, p.Rules, none,
					len(kept), len(want), err)
			}
			bounds, ok := f.Learned()
			if ok && rule.Excludes(bounds) && len(want) > 0 {
				t.Fatalf("%+v is excluded by %+v", rule, bounds)
			}
			checkDense(t, b, payloads, kept)
			f.End()
		}
	}
}

// checkDense gathers rows both ways.
func checkDense(t *testing.T, b *Block, payloads [][]byte, sel []uint32) {
	t.Helper()
	var scratch, got record.Batch
	ok, err := b.GatherDense(sel, AllColumns, &scratch, &got)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		if err := b.GatherColumns(sel, nil, AllColumns, &got); err != nil {
			t.Fatal(err)
		}
	}
	for k, at := range sel {
		if !bytes.Equal(got.Payload(k), payloads[at]) {
			t.Fatalf("row %d is %x, want %x", at, got.Payload(k), payloads[at])
		}
	}
}

// TestPayloadFilter filters blocks of every form of payloads.
func TestPayloadFilter(t *testing.T) {
	rng := randomSource(t)
	half := binary.LittleEndian.AppendUint32
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 5e-324}
	value := func(i int) float64 {
		if rng.IntN(200) == 0 {
			return odd[rng.IntN(len(odd))]
		}
		return float64(i-700) / 8
	}
	for name, payload := range map[string]payloadMaker{
		"doubles": func(_ *rand.Rand, i int) []byte {
			return appendWords(nil, math.Float64bits(value(i)))
		},
		"decimals": func(_ *rand.Rand, i int) []byte {
			return appendWords(nil, math.Float64bits(float64(i-700)/10))
		},
		"singles": func(_ *rand.Rand, i int) []byte {
			return half(nil, math.Float32bits(float32(value(i))))
		},
		"integers": func(_ *rand.Rand, i int) []byte { return half(nil, uint32(i-700)) },
		"pairs": func(_ *rand.Rand, i int) []byte {
			return appendWords(nil, math.Float64bits(value(i)), uint64(i%3))
		},
		"texts": func(_ *rand.Rand, i int) []byte { return []byte("abcabcabcabcabcab")[:2+i%15] },
		"sizes": randomPayload(0, 20),
		"large": func(_ *rand.Rand, i int) []byte { return randomPayload(400+i%2, 0)(rng, i) },
		"few": func(_ *rand.Rand, i int) []byte {
			return appendWords(nil, []uint64{1 << 60, 3, 1 << 50}[i%3])
		},
		"empty": func(*rand.Rand, int) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			in := &SealedInput{Rows: &record.Batch{}, BlockEnds: []uint32{1500}}
			var payloads [][]byte
			var moids []int32
			for i := range 1500 {
				moids = append(moids, rng.Int32N(3)/2)
				payloads = append(payloads, payload(rng, i))
				in.Rows.Append(record.Key{MOID: moids[i]}, payloads[i])
				in.Order = append(in.Order, uint32(i))
			}
			var some []uint32
			for i := range uint32(1500) {
				if rng.IntN(20) == 0 {
					some = append(some, i)
				}
			}
			b := firstBlock(t, mustSeal(t, in))
			checkFilter(t, b, payloads, moids, nil)
			checkFilter(t, b, payloads, moids, some)
		})
	}
}
