package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
)

// skipCase is a quantity, and the payload of its reading i of skipRows.
type skipCase struct {
	name  string
	kind  string
	field plugin.QuantityField // of a struct
	make  func(i int) []byte
	// condition is met by the readings of a few blocks, and never by none.
	condition, never string
	// atOnce: the headers of columns tell, else the first scan.
	atOnce bool
}

const skipRows = 8000

func skipCases() []skipCase {
	word, half := binary.LittleEndian.AppendUint64, binary.LittleEndian.AppendUint32
	double := func(f float64) []byte { return word(nil, math.Float64bits(f)) }
	single := func(f float64) []byte { return half(nil, math.Float32bits(float32(f))) }
	field := func(name, kind string, at uint32) plugin.QuantityField {
		return plugin.QuantityField{Name: name, Type: kind, Offset: at}
	}
	const high, above = "x = 700..=710", "x > 1e6"
	return []skipCase{
		{"decimals", "f64", plugin.QuantityField{},
			func(i int) []byte { return double(float64(i) / 10) },
			"value = 700..=710", "value > 1e6", true},
		{"doubles", "f64", plugin.QuantityField{},
			func(i int) []byte { return double(float64(i) / 10 * 1.0000001) },
			"value = 700..=710", "value > 1e6", false},
		{"doubles of both signs", "f64", plugin.QuantityField{},
			func(i int) []byte { return double(float64(i%2*2-1) * float64(i) / 10 * 1.0000001) },
			"value >= 790", "value > 1e6", false},
		{"singles", "f32", plugin.QuantityField{},
			func(i int) []byte { return single(float64(i) / 10) },
			"value = 700..=710", "value > 1e6", false},
		{"negative integers", "i64", plugin.QuantityField{},
			func(i int) []byte { return word(nil, uint64(-int64(i))) },
			"value in (-7000, -7001)", "value > 0", true},
		{"short integers", "i32", plugin.QuantityField{},
			func(i int) []byte { return half(nil, uint32(-int32(i))) },
			"value < -7990", "value > 0", false},
		{"counters", "u32", plugin.QuantityField{},
			func(i int) []byte { return half(nil, uint32(i)) }, "value < 10", "value > 1e6", false},
		{"texts", "text", plugin.QuantityField{},
			func(i int) []byte { return fmt.Appendf(nil, "%03d of a text", i/10) },
			`value ^= "70"`, `value = "x"`, false},
		{"bytes", "bytes", plugin.QuantityField{},
			func(i int) []byte { return []byte{byte(i >> 8), byte(i)} },
			"value = 1b58", "value ^= ff", false},
		{"singles in a word", "struct", field("x", "f32", 4),
			func(i int) []byte { return append(half(nil, uint32(i)), single(float64(i)/10)...) },
			high, above, false},
		{"after a text of some length", "struct", field("x", "f64", 0),
			func(i int) []byte {
				return append(double(float64(i)/10), "a note of some length"[:i%20]...)
			}, high, above, false},
		{"integers at odd places", "struct", field("x", "i64", 3),
			func(i int) []byte { return append([]byte{1, 2, 3}, word(nil, uint64(i/10))...) },
			high, above, false},
	}
}

// TestWhereSkips: of every type of fields, blocks are left unread in which no payload can meet a
// condition, at once or once they were read.
func TestWhereSkips(t *testing.T) {
	for moid, c := range skipCases() {
		t.Run(c.name, func(t *testing.T) { c.check(t, int32(moid), false) })
		if c.kind != "text" && c.kind != "bytes" { // of which all fit
			t.Run(c.name+", and others that do not fit", func(t *testing.T) {
				c.check(t, int32(moid), true)
			})
		}
	}
}

// check stores ascending readings, and with mixed some whose payloads have other sizes.
func (c *skipCase) check(t *testing.T, moid int32, mixed bool) {
	s := openTest(t, Options{Shards: 1, Index: index.Options{BlockRows: 256}})
	b, expected := new(record.Batch), uint64(0)
	for i := range skipRows {
		b.Append(record.Key{CID: 1, MID: 1, MOID: moid, CapNs: int64(2 * i)}, c.make(i))
		if mixed && i%3 == 0 {
			b.Append(record.Key{CID: 1, MID: 1, MOID: moid, CapNs: int64(2*i + 1)},
				make([]byte, i%4))
		}
	}
	mustPut(t, s, b, WriterSeq{})
	mustSeal(t, s)
	q := plugin.Quantity{MOID: moid, Name: "a", Type: c.kind}
	if c.kind == plugin.Struct {
		q.Fields = []plugin.QuantityField{c.field}
	}
	explain := func(text string) (found uint64, skipped, opened uint64) {
		t.Helper()
		ask := record.Query{Box: record.Box{record.MOID: {record.At(int64(moid))}}}
		var err error
		ask.Where, err = where.Bind(text, []plugin.Quantity{q}, [][2]int64{{int64(moid),
			int64(moid) + 1}})
		if err != nil {
			t.Fatal(err)
		}
		if err := ask.Normalize(); err != nil {
			t.Fatal(err)
		}
		x, err := s.Explain(t.Context(), &ask)
		if err != nil {
			t.Fatal(err)
		}
		return x.Found, x.SkippedByWhere, x.Opened
	}
	for round, text := range []string{c.condition, c.never, c.condition, c.never} {
		found, skipped, opened := explain(text)
		t.Logf("%s: found %d; %d of %d blocks skipped", text, found, skipped, opened)
		if round == 0 {
			expected = found
		}
		if c.atOnce && !mixed || round > 1 {
			if text == c.never && skipped != opened || skipped+10 < opened || opened < 8 {
				t.Errorf("%s: %d of %d blocks are skipped", text, skipped, opened)
			}
		}
		if want := []uint64{expected, 0}[round%2]; found != want || expected == 0 {
			t.Errorf("%s: found %d, want %d", text, found, want)
		}
	}
}
