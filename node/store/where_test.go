package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
)

// whereQuantities are of every type, also at odd places. Quantity 6 is not declared.
func whereQuantities() []plugin.Quantity {
	return []plugin.Quantity{
		{MOID: 0, Name: "a", Type: "f64"},
		{MOID: 1, Name: "b", Type: "struct", Fields: []plugin.QuantityField{
			{Name: "value", Type: "f64"}, {Name: "quality", Type: "u32", Offset: 8},
			{Name: "temp", Type: "f32", Offset: 12}}},
		{MOID: 2, Name: "c", Type: "i64"},
		{MOID: 3, Name: "d", Type: "f32"},
		{MOID: 4, Name: "e", Type: "text"},
		{MOID: 5, Name: "f", Type: "struct", Fields: []plugin.QuantityField{
			{Name: "value", Type: "i64", Offset: 8}, {Name: "odd", Type: "i32", Offset: 3},
			{Name: "note", Type: "text", Offset: 17}}}}
}

// wherePut makes payloads whose words are decimals, few values, floats of all kinds or integers.
// Unless all are wanted, those of a batch have one size.
func wherePut(rng *rand.Rand, all bool) *record.Batch {
	b := new(record.Batch)
	form, scale := rng.IntN(5), math.Pow(10, float64(rng.IntN(5)))
	quantities := [][]int32{{0, 2, 6}, {1}, {0, 1, 2, 3, 4, 5, 6}, {rng.Int32N(7)}}[rng.IntN(4)]
	if !all {
		quantities = []int32{0, 0, 0, 2, 2, 6}
	}
	varied := all && rng.IntN(4) == 0
	for range 1 + rng.IntN(900) {
		k := record.Key{CID: 1, MID: rng.Int64N(4), CapNs: rng.Int64N(60)}
		k.MOID = quantities[rng.IntN(len(quantities))]
		if rng.IntN(15) == 0 {
			b.AppendTomb(k)
			continue
		}
		f, n := float64(rng.IntN(400)-200)/scale, int64(rng.IntN(400)-200)*(1+int64(form))
		odds := []float64{math.NaN(), math.Copysign(0, -1), 0, math.Inf(1), math.Inf(-1),
			math.MaxFloat64, 5e-324, -math.NaN()}
		switch {
		case form == 0:
			f, n = float64(rng.IntN(7))-3, rng.Int64N(7)-3
		case form == 1 && rng.IntN(4) == 0:
			f = odds[rng.IntN(len(odds))]
			n = []int64{math.MaxInt64, math.MinInt64, 1 << 53, -1, 0}[rng.IntN(5)]
		case form == 2:
			f, n = rng.NormFloat64()*1e9, int64(rng.Uint64())
		case form == 3 && rng.IntN(50) == 0:
			f, n = odds[rng.IntN(len(odds))], 1<<62
		}
		p := wherePayload(rng, k.MOID, f, n)
		if varied && rng.IntN(40) == 0 { // another size
			p = p[:rng.IntN(len(p)+1)]
		} else if varied && rng.IntN(40) == 0 {
			p = append(p, 0, 0, 0, 0, 0, 0, 0, 0)
		}
		b.Append(k, p)
	}
	return b
}

func wherePayload(rng *rand.Rand, moid int32, f float64, n int64) (p []byte) {
	word, half := binary.LittleEndian.AppendUint64, binary.LittleEndian.AppendUint32
	texts := []string{"", "ok", "error 5", "err", "errä", "12345678"}
	switch moid {
	case 1:
		p = half(half(word(nil, math.Float64bits(f)), uint32(n)%4),
			math.Float32bits(float32(f)))
	case 2:
		p = word(nil, uint64(n))
	case 3:
		p = half(nil, math.Float32bits(float32(f)))
	case 4:
		p = []byte(texts[rng.IntN(len(texts))])
	case 5:
		p = append(word(make([]byte, 8), uint64(n)), 7)
		binary.LittleEndian.PutUint32(p[3:], uint32(n))
		p = append(p, texts[rng.IntN(len(texts))]...)
	default:
		p = word(nil, math.Float64bits(f))
	}
	return p
}

// whereCase is a condition, and what it means by a look at decoded values.
type whereCase struct {
	text  string
	used  []string
	meets func(value map[string]any) bool
}

// whereValues decodes the fields of a payload that are there.
func whereValues(all []plugin.Quantity, moid int32, payload string) map[string]any {
	out := map[string]any{}
	for _, q := range all {
		if q.MOID != moid {
			continue
		}
		fields := q.Fields
		if q.Type != plugin.Struct {
			fields = []plugin.QuantityField{{Name: "value", Type: q.Type}}
			sizes := map[string]int{"f64": 8, "i64": 8, "f32": 4}
			if size := sizes[q.Type]; size != 0 && size != len(payload) {
				return out
			}
		}
		for _, f := range fields {
			if len(payload) < int(f.Offset) {
				continue
			}
			rest := []byte(payload[f.Offset:])
			switch f.Type {
			case "text":
				out[f.Name] = string(rest)
			case "f64", "i64":
				if len(rest) >= 8 {
					out[f.Name] = int64(binary.LittleEndian.Uint64(rest))
					if f.Type == "f64" {
						out[f.Name] = math.Float64frombits(binary.LittleEndian.Uint64(rest))
					}
				}
			default:
				if len(rest) >= 4 {
					n := binary.LittleEndian.Uint32(rest)
					out[f.Name] = map[string]any{"i32": int64(int32(n)), "u32": int64(n),
						"f32": math.Float32frombits(n)}[f.Type]
				}
			}
		}
	}
	return out
}

// compareTo orders a value and a number; not ok for what is not a number.
func compareTo(v any, number string) (order int, ok bool) {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		panic(err)
	}
	switch v := v.(type) {
	case float64:
		return compareFloats(v, f)
	case float32:
		g, err := strconv.ParseFloat(number, 32)
		if err != nil { // beyond the type
			g = f
		}
		return compareFloats(float64(v), g)
	case int64:
		if math.IsInf(f, 0) {
			return compareFloats(0, f)
		}
		r, _ := new(big.Rat).SetString(number)
		return new(big.Rat).SetInt64(v).Cmp(r), true
	}
	return 0, false
}

func compareFloats(a, b float64) (order int, ok bool) {
	switch {
	case a < b:
		return -1, true
	case a > b:
		return 1, true
	}
	return 0, a == b
}

func randomNumber(rng *rand.Rand) string {
	switch rng.IntN(8) {
	case 0:
		return []string{"inf", "-inf", "9223372036854775808", "-9223372036854775808", "-0",
			"9223372036854775807", "1e300", "9007199254740993.5", "1e-310",
			"4294967296"}[rng.IntN(10)]
	case 1:
		return strconv.FormatFloat(rng.NormFloat64()*1e9, 'g', -1, 64)
	case 2, 3:
		return strconv.Itoa(rng.IntN(2000) - 1000)
	}
	return strconv.FormatFloat(float64(rng.IntN(400)-200)/math.Pow(10, float64(rng.IntN(4))), 'f',
		-1, 64)
}

// randomWhere makes a condition on fields: numbers, and the text note or, of moid 4, value.
func randomWhere(rng *rand.Rand, numbers, texts []string, depth int) whereCase {
	if depth > 0 && rng.IntN(2) == 0 {
		a := randomWhere(rng, numbers, texts, depth-1)
		b := randomWhere(rng, numbers, texts, depth-1)
		used := slices.Concat(a.used, b.used)
		switch rng.IntN(3) {
		case 0:
			sign := []string{" and ", ", "}[rng.IntN(2)]
			return whereCase{"(" + a.text + sign + b.text + ")", used, func(v map[string]any) bool {
				return a.meets(v) && b.meets(v)
			}}
		case 1:
			return whereCase{"(" + a.text + " or " + b.text + ")", used,
				func(v map[string]any) bool { return a.meets(v) || b.meets(v) }}
		}
		not := []string{"not ", "!"}[rng.IntN(2)]
		return whereCase{not + "(" + a.text + ")", a.used,
			func(v map[string]any) bool { return !a.meets(v) }}
	}
	if len(numbers) == 0 || len(texts) > 0 && rng.IntN(2) == 0 {
		return randomTextTest(rng, texts[rng.IntN(len(texts))])
	}
	return randomNumberTest(rng, numbers[rng.IntN(len(numbers))])
}

func randomTextTest(rng *rand.Rand, field string) whereCase {
	text := []string{"", "ok", "err", "error", "123", "12345678"}[rng.IntN(6)]
	used := []string{field}
	switch quoted := strconv.Quote(text); rng.IntN(3) {
	case 0:
		return whereCase{field + "^=" + quoted, used, func(v map[string]any) bool {
			return strings.HasPrefix(v[field].(string), text)
		}}
	case 1:
		return whereCase{field + " != " + quoted, used, func(v map[string]any) bool {
			return v[field] != text
		}}
	default:
		return whereCase{field + ` in ("ok", ` + quoted + ")", used, func(v map[string]any) bool {
			return v[field] == text || v[field] == "ok"
		}}
	}
}

func randomNumberTest(rng *rand.Rand, field string) whereCase {
	n, used := randomNumber(rng), []string{field}
	is := func(test func(order int) bool, number string) func(v map[string]any) bool {
		return func(v map[string]any) bool {
			order, ok := compareTo(v[field], number)
			return ok && test(order)
		}
	}
	equal := is(func(o int) bool { return o == 0 }, n)
	switch rng.IntN(8) {
	case 0:
		return whereCase{field + " < " + n, used, is(func(o int) bool { return o < 0 }, n)}
	case 1:
		return whereCase{field + "<=" + n, used, is(func(o int) bool { return o <= 0 }, n)}
	case 2:
		return whereCase{field + " > " + n, used, is(func(o int) bool { return o > 0 }, n)}
	case 3:
		return whereCase{field + ">=" + n, used, is(func(o int) bool { return o >= 0 }, n)}
	case 4:
		return whereCase{field + " != " + n, used, func(v map[string]any) bool { return !equal(v) }}
	case 5:
		m := randomNumber(rng)
		other := is(func(o int) bool { return o == 0 }, m)
		return whereCase{fmt.Sprintf("%s in (%s,%s)", field, n, m), used,
			func(v map[string]any) bool { return equal(v) || other(v) }}
	case 6:
		m := strconv.Itoa(rng.IntN(50))
		above, below := is(func(o int) bool { return o >= 0 }, "-"+m),
			is(func(o int) bool { return o <= 0 }, m)
		return whereCase{fmt.Sprintf("%s=-%s..=%s", field, m, m), used,
			func(v map[string]any) bool { return above(v) && below(v) }}
	}
	return whereCase{field + " == " + n, used, equal}
}

// TestWhereModel holds random conditions against a look at the decoded values of all rows that a
// view shows: in heads and blocks, with payloads of every form and size, tombstones, corrections
// and erased rows, of one quantity and of several.
func TestWhereModel(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	t.Run("words", func(t *testing.T) {
		if testWhere(t, false) == 0 {
			t.Error("no block was skipped")
		}
	})
	t.Run("all", func(t *testing.T) { testWhere(t, true) })
}

func testWhere(t *testing.T, all bool) (skipped uint64) {
	rng := randomSource(t)
	s := openTest(t, Options{Shards: 2, SealRows: 4000,
		Index: index.Options{BlockRows: 64 << rng.IntN(2)}})
	m, met, steps := &model{}, 0, rounds.Of(300, 120, 120)
	sh := shape{cids: 2, mids: 4, moids: 7, caps: 60}
	again := func(step int) bool { return !all && skipped == 0 && step < 9*steps }
	for step := 0; step < steps || again(step); step++ {
		switch op := rng.IntN(20); {
		case op < 3:
			b := wherePut(rng, all && step > steps/2)
			m.add(b, splitByShard(b, len(s.shards)), mustPut(t, s, b, WriterSeq{}))
		case op < 5:
			mustSeal(t, s)
		case op < 6 && step%8 == 0:
			sh.erase(t, rng, s, m)
		default:
			q := sh.query(rng, m)
			for d := range q.Box {
				if rng.IntN(2) == 0 {
					q.Box[d] = nil
				}
			}
			skipped += checkWhere(t, rng, s, m, q, &met)
		}
	}
	if met == 0 {
		t.Error("no row met a condition")
	}
	return skipped
}

func checkWhere(
	t *testing.T, rng *rand.Rand, s *Store, m *model, q *record.Query, met *int,
) (skipped uint64) {
	t.Helper()
	set := []int32{rng.Int32N(6)}
	numbers, texts := []string{"value"}, []string(nil)
	switch set[0] {
	case 0:
		set = []int32{0, 1, 2, 3}
	case 1:
		numbers = []string{"value", "quality", "temp"}
	case 4:
		numbers, texts = nil, numbers
	case 5:
		numbers, texts = []string{"value", "odd"}, []string{"note"}
	}
	q.Box[record.MOID] = nil
	var moids [][2]int64
	for _, one := range set {
		q.Box[record.MOID] = append(q.Box[record.MOID], record.At(int64(one)))
		moids = append(moids, [2]int64{int64(one), int64(one) + 1})
	}
	for range 2 { // the first lets the store learn bounds of fields, which the second uses
		c := randomWhere(rng, numbers, texts, rng.IntN(4))
		if rng.IntN(10) == 0 {
			c = whereCase{text: where.Unreadable}
		}
		skipped += checkCondition(t, s, m, q, c, moids, met)
	}
	return skipped
}

func checkCondition(t *testing.T, s *Store, m *model, q *record.Query, c whereCase,
	moids [][2]int64, met *int) (skipped uint64) {
	t.Helper()
	all := whereQuantities()
	var err error
	if q.Where, err = where.Bind(c.text, all, moids); err != nil {
		t.Fatalf("%s: %v", c.text, err)
	}
	if err := q.Normalize(); err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(m.query(q), func(r modelRow) bool {
		values := whereValues(all, r.key.MOID, r.payload)
		if c.text == where.Unreadable {
			return r.tomb || len(values) == max(1, len(all[r.key.MOID].Fields))
		}
		for _, field := range c.used {
			if _, ok := values[field]; !ok {
				return true
			}
		}
		return r.tomb || !c.meets(values)
	})
	*met += len(want)
	what := fmt.Sprintf("%s of quantities %v, %+v", c.text, moids, q.Box)
	compare(t, what, scanRows(t, s, q), want)
	if n, _, err := s.Count(t.Context(), q); err != nil || int(n) != len(want) {
		t.Fatalf("%s: count %d, %v; want %d", what, n, err, len(want))
	}
	x, err := s.Explain(t.Context(), q)
	if err != nil || int(x.Found) != len(want) {
		t.Fatalf("%s: explain %d, %v; want %d", what, x.Found, err, len(want))
	}
	return x.SkippedByWhere
}
