package seal

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/sdk/record"
)

var vectorsFlag = flag.Bool("vectors", false, "write testdata/vectors.json, of a new format only")

const vectorsFile = "testdata/vectors.json"

// vectors are payloads and sums with what they hold, for implementations in other languages.
type vectors struct {
	Root     string          `json:"root"`
	KeyID    uint32          `json:"key_id"`
	CID      int32           `json:"cid"`
	Schemas  []schemaVector  `json:"schemas"`
	Payloads []payloadVector `json:"payloads"`
	Partials []partialVector `json:"partials"`
	Order    []orderVector   `json:"order"`
	Tokens   []tokenVector   `json:"tokens"`
}

type schemaVector struct {
	Definition  Definition `json:"definition"`
	Fingerprint string     `json:"fingerprint"`
}

type payloadVector struct {
	MID     int64    `json:"mid"`
	MOID    int32    `json:"moid"`
	CapNs   int64    `json:"cap_ns"`
	Values  []string `json:"values"` // numbers in units
	Opaque  string   `json:"opaque"`
	Payload string   `json:"payload"`
}

func (p *payloadVector) key(cid int32) record.Key {
	return record.Key{CID: cid, MID: p.MID, MOID: p.MOID, CapNs: p.CapNs}
}

type partialVector struct {
	Schema  uint16   `json:"schema"`
	Count   uint64   `json:"count"`
	Lanes   []string `json:"lanes"`
	Partial string   `json:"partial"`
}

type orderVector struct {
	Schema uint16 `json:"schema"`
	Field  string `json:"field"`
	MID    int64  `json:"mid"`
	MOID   int32  `json:"moid"`
	Value  int64  `json:"value"`
	Exact  bool   `json:"exact"` // its tag is not that of a bucket
	Tag    string `json:"tag"`
}

// tokenVector is what a query selects by: a range, or a value in a time.
type tokenVector struct {
	Schema uint16     `json:"schema"`
	Field  string     `json:"field"`
	Range  *[2]int64  `json:"range,omitempty"`
	Value  string     `json:"value,omitempty"` // of a range there is none
	During [2]int64   `json:"during_ns"`
	Series [][2]int64 `json:"series"` // mid and moid
	Token  string     `json:"token"`
}

// vectorDefinitions are the schemas of the vectors: the lean one of SEALING.md, and one with all
// that there is.
func vectorDefinitions() []Definition {
	return []Definition{
		{ID: 7, MaxRecords: 1e9, Fields: []Field{{ID: 1, Name: "t", Kind: Number, Digits: 3,
			Max: 1e6, Sum: true}}},
		{ID: 9, MaxRecords: 1e9, Envelope: true, MAC: &MAC{OfTenant}, Fields: []Field{
			{ID: 1, Name: "energy", Kind: Number, Digits: 3, Max: 1e6, Sum: true, SumSquares: true,
				Trend:     &Trend{OriginNs: 1e18, UnitNs: 1e9, MaxUnits: 1e10},
				Histogram: []int64{-500, 0, 1000}, Order: &Order{AcknowledgeLeakage: true}},
			{ID: 300, Name: "state", Kind: Text, Equal: &Equal{}},
			{ID: 5, Name: "far", Kind: Number, Max: 1 << 40, Order: &Order{Scope: OfTenant,
				AcknowledgeLeakage: true}},
			{ID: 6, Name: "coarse", Kind: Number, Max: 5000, Order: &Order{Low: -1000, Width: 100,
				Buckets: 20, AcknowledgeLeakage: true}, Equal: &Equal{PeriodNs: 86400e9}}}},
	}
}

func vectorTenant(t *testing.T) (*Tenant, []*Schema) {
	t.Helper()
	var keys MemoryKeyring
	keys.Add(1, 1, Key(bytes.Repeat([]byte{0x11}, KeyBytes)))
	var schemas []*Schema
	for _, def := range vectorDefinitions() {
		s, err := NewSchema(def)
		if err != nil {
			t.Fatal(err)
		}
		schemas = append(schemas, s)
	}
	tenant, err := OpenTenant(&keys, 1, schemas...)
	if err != nil {
		t.Fatal(err)
	}
	return tenant, schemas
}

// makeVectors makes what the file has: chains and nonces are random, so it is made once.
func makeVectors(t *testing.T) *vectors {
	tenant, schemas := vectorTenant(t)
	v := &vectors{Root: strings.Repeat("11", KeyBytes), KeyID: 1, CID: 1}
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range schemas {
		print := s.Fingerprint()
		v.Schemas = append(v.Schemas, schemaVector{s.Definition(), hex.EncodeToString(print[:])})
		p := NewPartial(s)
		for mid := int64(-1); mid < 2; mid++ {
			w, err := tenant.NewWriter(context.Background(), s, mid, 7)
			if err != nil {
				t.Fatal(err)
			}
			var before []Value
			for i := range 6 {
				reading := Reading{CapNs: 1.7e18 + int64(i)*900e9}
				for _, f := range s.def.Fields {
					value := Value{Number: r.Int64N(int64(2*f.Max+1)) - int64(f.Max)}
					if f.Kind == Text {
						value = Value{Text: []string{"", "on", "läuft"}[i%3]}
					}
					reading.Values = append(reading.Values, value)
				}
				if s.def.Envelope {
					reading.Opaque = bytes.Repeat([]byte{byte(i)}, i)
					if i == 3 {
						reading.Before, reading.CapNs = before, reading.CapNs-900e9
					}
				}
				before = reading.Values
				v.add(t, w, p, &reading, i != 4)
			}
			v.addOrder(s, &w.keys)
		}
		v.addPartial(t, tenant, p)
	}
	v.addTokens(t, tenant, schemas[1])
	return v
}

// add adds a reading, and to the sum unless it is a gap.
func (v *vectors) add(t *testing.T, w *Writer, p *Partial, r *Reading, summed bool) {
	payload, err := w.Append(nil, *r)
	if err != nil {
		t.Fatal(err)
	}
	one := payloadVector{MID: w.keys.mid, MOID: 7, CapNs: r.CapNs, Opaque: hex.EncodeToString(
		r.Opaque), Payload: hex.EncodeToString(payload), Values: texts(w.schema, r.Values)}
	v.Payloads = append(v.Payloads, one)
	if summed {
		if err := p.Add(one.key(1), payload); err != nil {
			t.Fatal(err)
		}
	}
}

func texts(s *Schema, values []Value) (all []string) {
	for i, value := range values {
		if s.def.Fields[i].Kind == Text {
			all = append(all, value.Text)
		} else {
			all = append(all, fmt.Sprint(value.Number))
		}
	}
	return all
}

func (v *vectors) addPartial(t *testing.T, tenant *Tenant, p *Partial) {
	sums, err := tenant.Decrypt(context.Background(), p, Expect{})
	if err != nil {
		t.Fatal(err)
	}
	one := partialVector{Schema: p.schema.ID(), Count: p.count,
		Partial: hex.EncodeToString(p.Append(nil))}
	for _, lane := range sums.lanes {
		one.Lanes = append(one.Lanes, lane.big().String())
	}
	v.Partials = append(v.Partials, one)
}

func (v *vectors) addOrder(s *Schema, keys *seriesKeys) {
	for _, sec := range s.order {
		f := &s.def.Fields[sec.field]
		key := orderKeyOf(keys.of(f.Order.Scope), keys.moid, s, f.ID)
		o, most := newOrderCipher(&key), int64(f.Max)
		for _, value := range []int64{-most, -1000, -1, 0, 1, 7, 999, most} {
			v.Order = append(v.Order, orderVector{s.ID(), f.Name, keys.mid, keys.moid, value,
				f.Order.Width == 0, hex.EncodeToString(o.tag(nil, f, sec.width, value))})
		}
	}
}

// addTokens adds tokens of all kinds: with and without ends, of 8 and 16 bytes, of buckets, of
// texts and of numbers in periods, of the scope of a device and of a tenant.
func (v *vectors) addTokens(t *testing.T, tenant *Tenant, s *Schema) {
	t.Helper()
	add := func(one tokenVector) {
		one.Schema, one.Series = s.ID(), [][2]int64{{-1, 7}, {1 << 40, 7}, {-1, 8}, {-1, 7}}
		var series []Series
		for _, id := range one.Series {
			series = append(series, Series{MID: id[0], MOID: int32(id[1])})
		}
		i, err := s.fieldOf(one.Field)
		if err != nil {
			t.Fatal(err)
		}
		ctx, value := context.Background(), Value{Text: one.Value}
		switch f := &s.def.Fields[i]; {
		case one.Range != nil:
			one.Token, err = tenant.RangeToken(ctx, s, one.Field, Range{one.Range[0], one.Range[1]},
				series...)
		default:
			if f.Kind == Number {
				if value.Number, err = f.Parse(one.Value); err != nil {
					t.Fatal(err)
				}
			}
			one.Token, err = tenant.EqualToken(ctx, s, one.Field, value, Period{one.During[0],
				one.During[1]}, series...)
		}
		if err != nil {
			t.Fatal(err)
		}
		v.Tokens = append(v.Tokens, one)
	}
	add(tokenVector{Field: "energy", Range: &[2]int64{-500, 1000}})
	add(tokenVector{Field: "energy", Range: &[2]int64{7, 1e6}})
	add(tokenVector{Field: "energy", Range: &[2]int64{-1e6, 1e6}})
	add(tokenVector{Field: "far", Range: &[2]int64{-1 << 40, 1 << 39}})
	add(tokenVector{Field: "coarse", Range: &[2]int64{-900, 299}})
	add(tokenVector{Field: "coarse", Range: &[2]int64{0, 5000}})
	add(tokenVector{Field: "state", Value: "läuft"})
	add(tokenVector{Field: "coarse", Value: "-31", During: [2]int64{-1, 2 * 86400e9}})
}

func readVectors(t *testing.T) *vectors {
	t.Helper()
	if *vectorsFlag {
		document, err := json.MarshalIndent(makeVectors(t), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(vectorsFile, append(document, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	source, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	v := &vectors{}
	if err := json.Unmarshal(source, v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestVectors opens the payloads and sums of the file, which other languages open, too.
func TestVectors(t *testing.T) {
	v := readVectors(t)
	tenant, schemas := vectorTenant(t)
	for i, s := range schemas {
		if print := s.Fingerprint(); hex.EncodeToString(print[:]) != v.Schemas[i].Fingerprint {
			t.Errorf("schema %d has the fingerprint %x", s.ID(), print)
		}
	}
	unhex := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for i, p := range v.Payloads {
		o, err := tenant.Open(context.Background(), p.key(v.CID), unhex(p.Payload))
		if err != nil || fmt.Sprint(texts(o.Schema, o.Values)) != fmt.Sprint(p.Values) ||
			hex.EncodeToString(o.Opaque) != p.Opaque {
			t.Errorf("payload %d: %v, %v, want %v", i+1, o.Values, err, p.Values)
		}
	}
	for i, want := range v.Partials {
		p, err := ParsePartial(schemas[i], unhex(want.Partial))
		if err != nil {
			t.Fatal(err)
		}
		got := &vectors{}
		got.addPartial(t, tenant, p)
		if fmt.Sprint(got.Partials[0]) != fmt.Sprint(want) {
			t.Errorf("partial %d: %v, want %v", i+1, got.Partials[0], want)
		}
	}
	got := &vectors{}
	for _, s := range schemas {
		for mid := int64(-1); mid < 2; mid++ {
			keys, err := tenant.seriesKeys(context.Background(), s, 1, mid, 7)
			if err != nil {
				t.Fatal(err)
			}
			got.addOrder(s, &keys)
		}
	}
	if fmt.Sprint(got.Order) != fmt.Sprint(v.Order) {
		t.Error("order tags differ from those of the file")
	}
	got.addTokens(t, tenant, schemas[1])
	for i := range got.Tokens {
		if i >= len(v.Tokens) || got.Tokens[i].Token != v.Tokens[i].Token {
			t.Errorf("token %d is %s, which is not that of the file", i+1, got.Tokens[i].Token)
		}
	}
}

// TestPython checks the vectors by the implementation in Python.
func TestPython(t *testing.T) {
	t.Parallel()
	var out []byte
	var err error
	for _, python := range []string{"python3", "/usr/bin/python3"} { // Debian's has its packages
		out, err = exec.Command(python, "-B", "python/pentad_seal.py", vectorsFile).CombinedOutput()
		if err == nil {
			break
		}
	}
	if errors.Is(err, exec.ErrNotFound) || strings.Contains(string(out), "No module named") {
		required.Skip(t, required.Sealed, "the implementation in Python; apt-get install "+
			"python3-cryptography")
	}
	const want = "checked 36 payloads, 2 partials, 72 order tags, 8 tokens"
	if err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v\n%s", err, out)
	}
}
