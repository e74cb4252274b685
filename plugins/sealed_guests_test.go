package plugins_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
	"github.com/pentad-db/pentad/wasmhost"
)

const rustGuests = "../sdk/plugin/rust/testdata"

// sealedOwner seals records of two tenants by a random schema, with corrections, corrections by
// difference, and gaps.
type sealedOwner struct {
	*testing.T
	rng    *rand.Rand
	schema *seal.Schema
	keys   seal.MemoryKeyring
	values []seal.Reading // of rows, in their order
}

func newSealedOwner(t *testing.T, rng *rand.Rand) *sealedOwner {
	o := &sealedOwner{T: t, rng: rng}
	def := seal.Definition{ID: uint16(rng.IntN(1 << 16)), MaxRecords: 1e9, Fields: []seal.Field{
		{ID: 1, Name: "x", Kind: seal.Number, Max: 1000, Sum: true}}}
	scopes := []seal.Scope{seal.OfDevice, seal.OfTenant}
	if rng.IntN(3) > 0 { // else the leanest of all
		def.Envelope = true
		def.Fields[0] = seal.Field{ID: 1, Name: "x", Kind: seal.Number, Max: 1 << 40, Sum: true,
			SumSquares: rng.IntN(2) == 0, Histogram: []int64{-5, 5}[:rng.IntN(3)],
			Trend: &seal.Trend{OriginNs: -3, UnitNs: 7, MaxUnits: 1 << 50}}
	}
	def.Fields[0].Order = &seal.Order{AcknowledgeLeakage: true, Scope: scopes[rng.IntN(2)]}
	def.Fields = append(def.Fields, seal.Field{ID: 4, Name: "state", Kind: seal.Number, Max: 3,
		Sum: true, Equal: &seal.Equal{Scope: scopes[rng.IntN(2)], PeriodNs: rng.Int64N(2) * 1e15}})
	if rng.IntN(2) == 0 {
		def.MAC = &seal.MAC{Scope: seal.OfTenant}
	}
	var err error
	if o.schema, err = seal.NewSchema(def); err != nil {
		t.Fatal(err)
	}
	o.keys.Generate(1)
	o.keys.Generate(2)
	return o
}

func (o *sealedOwner) tenant(cid int32) *seal.Tenant {
	o.Helper()
	tenant, err := seal.OpenTenant(&o.keys, cid, o.schema)
	if err != nil {
		o.Fatal(err)
	}
	return tenant
}

// rows seals n records of tenants up to cids.
func (o *sealedOwner) rows(n, groups int, cids int32) *rows {
	o.Helper()
	out := &rows{}
	o.values = nil
	for out.batch.Len() < n {
		k := record.Key{CID: 1 + o.rng.Int32N(cids), MID: o.rng.Int64N(3) - 1,
			MOID: o.rng.Int32N(2)}
		if o.rng.IntN(9) == 0 {
			o.keys.Generate(k.CID)
		}
		w, err := o.tenant(k.CID).NewWriter(context.Background(), o.schema, k.MID, k.MOID)
		if err != nil {
			o.Fatal(err)
		}
		var before []seal.Value
		most := int64(o.schema.Definition().Fields[0].Max)
		for range 1 + o.rng.IntN(n) {
			x := seal.Reading{CapNs: o.rng.Int64N(1e15) - 5e14, Values: []seal.Value{
				{Number: o.rng.Int64N(min(2*most, 40)) - min(most, 20)},
				{Number: o.rng.Int64N(4)}}, Correction: o.rng.IntN(9) == 0}
			if before != nil && o.schema.Definition().Envelope && o.rng.IntN(5) == 0 {
				x.Before = before
			}
			before = x.Values
			p, err := w.Append(nil, x)
			if err != nil {
				o.Fatal(err)
			}
			if k.CapNs = x.CapNs; out.batch.Len() < n && o.rng.IntN(10) > 0 {
				out.batch.AppendStamped(k, p)
				out.gid = append(out.gid, uint32(o.rng.IntN(groups)))
				o.values = append(o.values, x)
			}
		}
	}
	return out
}

// TestSealedGuests builds and compiles the guests in Go and Rust once for all questions to them.
func TestSealedGuests(t *testing.T) {
	goModule := load(t, newHost(t), buildGo(t, "./testdata/sealed"))
	c, _ := standard(t, "sealed-stats")
	siblings := []sibling{{"C", c}, {"Go", goModule},
		{"Rust", loadFile(t, filepath.Join(rustGuests, "sums.wasm"))}}
	t.Run("sums", func(t *testing.T) {
		for range 8 {
			sameSums(t, siblings, true)
			sameSums(t, siblings, false)
		}
	})
	t.Run("refused", func(t *testing.T) { sameRefusals(t, siblings) })
	t.Run("fuel", func(t *testing.T) {
		s, all := sealedRows(t, seeded(t), 8000, 1)
		for _, one := range siblings[1:] {
			sealedFuel(t, one.module, paramsOf(t, one.module,
				map[string]string{"layout": s.Layout()}), all)
		}
	})
	rust := loadFile(t, filepath.Join(rustGuests, "selects.wasm"))
	t.Run("tokens", func(t *testing.T) {
		for range 4 {
			sameSelections(t, goModule, rust)
		}
	})
}

// paramsOf encodes parameters as a module declares them; a text that is not given is -.
func paramsOf(t *testing.T, m *wasmhost.Module, given map[string]string) []byte {
	t.Helper()
	doc, err := plugin.ParseDoc(m.Describe().Doc)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, p := range doc.Params {
		if text, ok := given[p.Name]; ok {
			values[p.Name] = text
		} else if p.Type == plugin.Text {
			values[p.Name] = "-"
		}
	}
	return encode(t, doc, values)
}

// sameSums has all languages add up the same records, in the same batches, and merge each other's
// states: all save and return the same.
func sameSums(t *testing.T, all []sibling, inOrder bool) {
	rng := seeded(t)
	const groups = 2
	o := newSealedOwner(t, rng)
	leaves := make([]chorus, 1+rng.IntN(3))
	for i := range leaves {
		leaves[i].languages = all
		for _, s := range all {
			leaves[i].aggregates = append(leaves[i].aggregates, newAggregate(t, s.module,
				paramsOf(t, s.module, map[string]string{"layout": o.schema.Layout()})))
		}
	}
	whole := o.rows(1+rng.IntN(600), groups, 2)
	batches := batchesOf(rng, whole, inOrder)
	for i, x := range batches {
		leaf := leaves[i*len(leaves)/len(batches)]
		if !inOrder {
			leaf = leaves[rng.IntN(len(leaves))]
		}
		for k, a := range leaf.aggregates {
			if err := a.Add(t.Context(), &x.batch, x.gid, groups); err != nil {
				t.Fatalf("%s: %v", all[k].language, err)
			}
		}
		leaf.sameSealed(t, o.schema, inOrder)
	}
	for _, leaf := range leaves[1:] {
		states := leaf.sameSealed(t, o.schema, inOrder)
		leaves[0].merge(t, states, nil, rng.IntN(len(all)))
	}
	leaves[0].sameSealed(t, o.schema, inOrder)
	if inOrder {
		leaves[0].sameResults(t, "merged")
	}
}

// sameSealed returns the states of all, having compared each with those of C: of records that came
// in order all bytes, of others what a reader makes of them, who sorts what there was no fuel to.
func (c *chorus) sameSealed(t *testing.T, s *seal.Schema, inOrder bool) [][]byte {
	t.Helper()
	if inOrder {
		return c.sameStates(t, "in order")
	}
	all := make([][]byte, len(c.aggregates))
	for i, a := range c.aggregates {
		all[i] = statesOf(t, a)
		if want := canonical(t, s, all[0]); !bytes.Equal(canonical(t, s, all[i]), want) {
			t.Fatalf("%s has another sum than C: %x, %x", c.languages[i].language, all[i], all[0])
		}
	}
	return all
}

// batchesOf cuts rows into batches, in their order or after some of them changed places.
func batchesOf(rng *rand.Rand, all *rows, inOrder bool) (out []*rows) {
	order := make([]int, all.batch.Len())
	for i := range order {
		order[i] = i
	}
	for range len(order) / 4 {
		if inOrder {
			break
		}
		i := rng.IntN(len(order))
		j := min(i+rng.IntN(20), len(order)-1)
		order[i], order[j] = order[j], order[i]
	}
	for _, i := range order {
		if len(out) == 0 || rng.IntN(60) == 0 {
			out = append(out, &rows{})
		}
		last := out[len(out)-1]
		last.batch.AppendStamped(all.batch.Key(i), all.batch.Payload(i))
		last.gid = append(last.gid, all.gid[i])
	}
	return out
}

// sameRefusals holds the errors for rows that are of another schema, and for damaged states.
func sameRefusals(t *testing.T, all []sibling) {
	rng := seeded(t)
	o := newSealedOwner(t, rng)
	x := o.rows(3, 1, 1)
	layout := o.schema.Layout()
	digits := strings.Index(layout, ":")
	changed := layout[:digits+1] + "00a0ff" + layout[digits+7:]
	for _, text := range []string{"1" + layout[digits:], changed, "-", "7", layout + ",5",
		layout + " ", layout[:digits] + ":00a0ff 24 0 8", strings.ToUpper(changed)} {
		var want string
		for i, s := range all {
			got := refusal(t, s.module, text, x)
			if i == 0 {
				want = got
			}
			if got != want || got == "" {
				t.Errorf("layout %q: %s says %q, C %q", text, s.language, got, want)
			}
		}
	}
	for _, s := range all {
		a := newAggregate(t, s.module, paramsOf(t, s.module,
			map[string]string{"layout": layout}))
		if err := a.Add(t.Context(), &x.batch, x.gid, 1); err != nil {
			t.Fatal(err)
		}
		states := statesOf(t, a)
		states[len(states)-5] ^= 0x55
		states[4] ^= 1 // the version
		err := a.Merge(t.Context(), states, nil)
		wantStatus(t, err, -101, "a saved sum is damaged")
	}
}

// refusal is what a module says of a layout, or of rows that are not of it.
func refusal(t *testing.T, m *wasmhost.Module, layout string, x *rows) string {
	t.Helper()
	params := paramsOf(t, m, map[string]string{"layout": layout})
	a, err := m.NewAggregate(t.Context(), params)
	if err == nil {
		defer a.Close()
		err = a.Add(t.Context(), &x.batch, x.gid, 1)
	}
	return said(err)
}

// said is what a plugin says with an error.
func said(err error) string {
	var e *wasmhost.Error
	if !errors.As(err, &e) {
		return ""
	}
	return fmt.Sprint(e.Status, " ", cmp.Or(e.Message, e.Reason))
}

// sameSelections compares what tokens select with the values that were sealed, in each language.
func sameSelections(t *testing.T, inGo, inRust *wasmhost.Module) {
	rng := seeded(t)
	o := newSealedOwner(t, rng)
	x := o.rows(400, 1, 1)
	series := []seal.Series{}
	for mid := int64(-1); mid < 2; mid++ {
		series = append(series, seal.Series{MID: mid, MOID: 0}, seal.Series{MID: mid, MOID: 1})
	}
	ctx, tenant := context.Background(), o.tenant(1)
	r := seal.Range{Low: rng.Int64N(20) - 20, High: rng.Int64N(20)}
	if rng.IntN(2) == 0 {
		r.Low = seal.Everything.Low
	}
	inRange, err := tenant.RangeToken(ctx, o.schema, "x", r, series...)
	if err != nil {
		t.Fatal(err)
	}
	during := seal.Period{FromNs: -6e14, ToNs: 6e14}
	isTwo, err := tenant.EqualToken(ctx, o.schema, "state", seal.Value{Number: 2}, during,
		series...)
	if err != nil {
		t.Fatal(err)
	}
	one, err := tenant.RangeToken(ctx, o.schema, "x", r, seal.Series{MID: 9, MOID: 9})
	if err != nil {
		t.Fatal(err)
	}
	rangeC, _ := standard(t, "sealed-range")
	equalC, _ := standard(t, "sealed-equal")
	for _, c := range []struct {
		by, token string
		c         *wasmhost.Module
		is        func(seal.Reading) bool
	}{
		{"range", inRange, rangeC, func(v seal.Reading) bool {
			return v.Values[0].Number >= r.Low && v.Values[0].Number <= r.High
		}},
		{"equal", isTwo, equalC, func(v seal.Reading) bool { return v.Values[1].Number == 2 }},
		{"range", one, rangeC, nil},
		{"range", isTwo[:len(isTwo)-1], rangeC, nil}, {"equal", isTwo + ";", equalC, nil},
		{"equal", inRange + ",-", equalC, nil}, {"range", ":", rangeC, nil},
	} {
		_, want := selected(t, c.c, map[string]string{"token": c.token}, x)
		for language, m := range map[string]*wasmhost.Module{"Go": inGo, "Rust": inRust} {
			keep, got := selected(t, m, map[string]string{"token": c.token, "by": c.by}, x)
			if c.is == nil && got == want {
				continue
			}
			for i := range o.values {
				if c.is != nil && (keep[i>>6]>>(i&63)&1 != 0) != c.is(o.values[i]) {
					t.Fatalf("%s, %s: row %d with %v, %s", language, c.by, i, o.values[i], got)
				}
			}
			if c.is == nil && got == "" {
				t.Errorf("%s takes %q, C says %q", language, c.token, want)
			}
		}
	}
}

// selected is what a filter keeps, or what it says.
func selected(t *testing.T, m *wasmhost.Module, values map[string]string, x *rows) (
	keep []uint64, text string) {
	t.Helper()
	keep = make([]uint64, (x.batch.Len()+63)/64)
	f, err := m.NewFilter(t.Context(), paramsOf(t, m, values))
	if err == nil {
		defer f.Close()
		err = f.Keep(t.Context(), &x.batch, keep)
	}
	return keep, said(err)
}
