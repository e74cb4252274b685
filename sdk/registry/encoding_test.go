package registry

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// full has all that a description can have.
func full() *Description {
	return &Description{Name: "oulu/t7", Type: "thermometer", Group: "oulu/building-7/floor-3",
		Place: &Place{65.01, 25.47, 12.5, true},
		Attributes: map[string]Value{"floor": Number(3), "owner": Text("acme"),
			"in.use": Bool(true)},
		Metadata: "{\"note\":\n1}", Retired: true, Replaces: -4, ReplacedBy: 1 << 40}
}

func TestAppendParse(t *testing.T) {
	f := func(d *Description) {
		t.Helper()
		b, err := Append([]byte("x"), d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(b[1:])
		if err != nil || !reflect.DeepEqual(got, d) {
			t.Fatalf("%+v, %v, want %+v", got, err, d)
		}
		for n := range len(b) - 1 {
			if short, err := Parse(b[1 : 1+n]); err == nil && reflect.DeepEqual(short, d) {
				t.Fatalf("the first %d of %d bytes are the same", n, len(b)-1)
			}
		}
	}
	f(&Description{})
	f(full())
	f(&Description{Place: &Place{Lat: -90, Lon: 180}})
	f(&Description{Attributes: map[string]Value{"a": Text(""), "b": Number(-1e300)}})
	most := &Description{Attributes: map[string]Value{}}
	for i := range MaxAttributes {
		most.Attributes[fmt.Sprintf("a%d", i)] = Text("0123456789")
	}
	f(most)
}

// TestEncodingStays keeps the bytes of a description as they are stored.
func TestEncodingStays(t *testing.T) {
	b, err := Append(nil, &Description{Name: "t", Place: &Place{Lat: 1, Lon: -1},
		Attributes: map[string]Value{"f": Number(2), "k": Text("v"), "w": Bool(true)},
		Retired:    true, Replaces: 5})
	const want = "01" + "01010000" + "74" +
		"04100000" + "000000000000f03f" + "000000000000f0bf" +
		"05150000" + "0166" + "02" + "0000000000000040" +
		"016b" + "01" + "010076" + "0177" + "0301" +
		"07000000" + "08080000" + "0500000000000000"
	if got := hex.EncodeToString(b); err != nil || got != want {
		t.Fatalf("%s, %v, want %s", got, err, want)
	}
}

func TestParseRejects(t *testing.T) {
	f := func(bytes, want string) {
		t.Helper()
		b, err := hex.DecodeString(bytes)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v, want %q", err, want)
		}
	}
	f("", "ends early")
	f("02", "version 2, and version 1 is known here")
	f("0101", "ends early")
	f("0101ffffff74", "ends early")
	f("0101000000", "field 1 has 0 bytes")
	f("01020100007401010000"+"74", "field 1 comes after field 2")
	f("010a01000074", "field 10 is unknown")
	f("010101000009", "U+0009, which is not printable")
	f("010701000009", "field 7 has 1 bytes")
	f("01040100007f", "the place has 1 bytes")
	f("0104100000"+"000000000000f87f"+"0000000000000000", "the latitude NaN")
	f("0104100000"+"0000000000000080"+"0000000000000000", "negative zero")
	f("0105030000"+"016604", "the kind 4 is unknown")
	f("0105040000"+"01660302", "the boolean is 2")
	f("0105080000"+"01660301"+"01660301", `"f" comes after "f"`)
	f("0105050000"+"016601ffff", "ends early")
	f("0108040000"+"00000000", "field 8 has 4 bytes")
	f("0108080000"+"0000000000000000", "field 8 is 0")
	if _, err := Parse(make([]byte, MaxBytes+1)); err == nil {
		t.Fatal("a payload over the limit")
	}
}

func TestCheck(t *testing.T) {
	f := func(d Description, want string) {
		t.Helper()
		err := d.Check()
		if want == "" && err != nil || want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)) {
			t.Fatalf("%v, want %q", err, want)
		}
	}
	f(Description{Name: "meter 4711", Type: "Größe", Group: "Жилой дом 7/東京のmeter"}, "")
	f(Description{Name: "naïve kW 10 Ω"}, "")
	f(Description{Name: "a\nb"}, `the name "a\nb" has the character U+000A, which is not printable`)
	f(Description{Name: "a\u200bb"}, "U+200B")
	f(Description{Name: "a\u3164b"}, "U+3164")
	f(Description{Name: "\xff"}, "not UTF-8")
	f(Description{Name: strings.Repeat("a", 257)}, "has 257 bytes, at most 256")
	f(Description{Name: "p\u0430ris"}, `both Latin and Cyrillic letters`) // а of Cyrillic
	f(Description{Type: "\u03bfhm"}, `the type "οhm" has a word with both Greek and Latin letters`)
	f(Description{Name: "a\u0308"}, "form NFC")
	f(Description{Name: "ａ"}, "looks like a common one")
	f(Description{Name: " a"}, "begins or ends with a space")
	f(Description{Name: "a  b"}, "two in a row")
	f(Description{Group: "/oulu"}, `has the level ""`)
	f(Description{Group: "oulu/"}, `has the level ""`)
	f(Description{Group: "a/../b"}, `has the level ".."`)
	f(Description{Group: strings.Repeat("a/", 16) + "a"}, "17 levels, at most 16")
	f(Description{Place: &Place{Lat: math.NaN()}}, "the latitude NaN")
	f(Description{Place: &Place{Lon: 181}}, "the longitude 181")
	f(Description{Place: &Place{Alt: math.Inf(1), HasAlt: true}}, "the altitude +Inf")
	f(Description{Place: &Place{Alt: 1}}, "that there is none")
	f(Description{Metadata: "\xff"}, "the metadata")
	f(Description{Metadata: strings.Repeat("a", 1<<20)}, "bytes, at most 65536")
	attribute := func(key string, v Value) Description {
		return Description{Attributes: map[string]Value{key: v}}
	}
	f(attribute("", Bool(true)), "has 0 bytes")
	f(attribute("ключ", Bool(true)), "of ASCII")
	f(attribute("9a", Bool(true)), "a letter or _")
	f(attribute("name", Text("x")), `"name" is a word of selectors`)
	f(attribute("a", Number(math.NaN())), "not a finite number")
	f(attribute("a", Value{}), "has no value")
	f(attribute("a", Text("\x00")), "U+0000")
	many := Description{Attributes: map[string]Value{}}
	for i := range 10_000 {
		many.Attributes[fmt.Sprintf("a%d", i)] = Bool(true)
	}
	f(many, "10000 attributes, at most 1000")
}

func FuzzParse(f *testing.F) {
	for _, d := range []*Description{{}, full(), {Place: &Place{Lat: 1}}} {
		b, err := Append(nil, d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		d, err := Parse(payload)
		if err != nil {
			return
		}
		if d.Check() != nil { // of an older version
			if d.Name = ""; d.check() != nil {
				t.Fatalf("%x", payload)
			}
			return
		}
		again, err := Append(nil, d)
		if err != nil || !bytes.Equal(again, payload) {
			t.Fatalf("%x, %v, of %x", again, err, payload)
		}
	})
}
