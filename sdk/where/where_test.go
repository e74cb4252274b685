package where

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
)

func declared() []plugin.Quantity {
	return []plugin.Quantity{{MOID: 1, Name: "power", Type: "f64"},
		{MOID: 2, Name: "state", Type: "struct", Fields: []plugin.QuantityField{
			{Name: "value", Type: "i32"}, {Name: "air quality", Type: "u32", Offset: 4},
			{Name: "note", Type: "text", Offset: 8}}},
		{MOID: 3, Name: "blob", Type: "bytes"}, {MOID: 4, Name: "name", Type: "text"}}
}

// TestBindRefuses: errors point at the character, and say what to do.
func TestBindRefuses(t *testing.T) {
	f := func(text string, moid int64, want string) {
		t.Helper()
		_, err := Bind(text, declared(), [][2]int64{{moid, moid + 1}})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	f("", 1, "at its end: want a condition, e.g. value > 20")
	f("value >", 1, "at its end: want a number behind the sign, e.g. value >= 2")
	f("value > x", 1, `character 9 ("x"): want a number behind the sign, e.g. value >= 2`)
	f("value ~ 5", 1, `character 7 ("~ 5"): want =, !=, <, <=, >, >=, ^= or in behind `+
		`value, e.g. value > 20`)
	f("value > 5 value < 7", 1, `character 11 ("value < 7"): conditions follow each `+
		`other; write a comma, and or or between them`)
	f("(value > 5", 1, "at its end: want ) for the parenthesis of character 1")
	f("value > 5)", 1, `character 10 (")"): a parenthesis that none opened`)
	f("value = 4..2", 1, `character 9 ("4..2"): 4..2 ends before it begins`)
	f("value = 2..2", 1, `character 9 ("2..2"): 2..2 holds nothing; 2..=2 includes its end`)
	f("value = ..", 1, `character 9 (".."): ".." is not a range of numbers, e.g. 2..4; `+
		`quote it if it is a text`)
	f("value in (1, 2..3)", 1, `character 14 ("2..3)"): a list has values, and no ranges; `+
		`join conditions by or`)
	f("value = nan", 1, `character 9 ("nan"): value of quantity 1 (power) is a number, and `+
		`"nan" is not one; what is not a number meets not (value >= -inf)`)
	f("value > 0 and qualty = 0", 1, `character 15 ("qualty = 0"): quantity 1 (power) has `+
		`no field qualty; it has value`)
	f("qualty = 0", 2, `character 1 ("qualty = 0"): quantity 2 (state) has no field `+
		`qualty; it has value, air quality, note`)
	f("note > 5", 2, `character 1 ("note > 5"): note of quantity 2 (state) is text, which `+
		`=, !=, ^= and in compare`)
	f(`value ^= "5"`, 2, `character 1 ("value ^= \"5\""): ^= is about texts, and value of `+
		`quantity 2 (state) is i32`)
	f("value = 1e999999", 2, `character 9 ("1e999999"): "1e999999" cannot be compared with an `+
		`integer; its exponent is not of -400 to 400`)
	f("cap > 5", 1, `character 1 ("cap > 5"): quantity 1 (power) has no field cap; it has value; `+
		`the parts of keys are chosen beside the condition`)
	f("value = 5z", 3, `character 9 ("5z"): value of quantity 3 (blob) is bytes, and "5z" `+
		`has not an even number of hex digits; sealed payloads are asked for by pentad seal sum `+
		`--where`)
	f("value > 5", 9, "quantity 9 is not declared; declare it with pentad quantity set, or name "+
		"the type of its payloads; conditions on sealed payloads are those of pentad seal sum "+
		"--where")
	f("not unreadable", 1, `character 5 ("unreadable"): unreadable is a condition by itself; ask `+
		`for it without others`)
	f("value > \x01", 1, `character 9 ("\x01"): a character that is not printable`)
	f(strings.Repeat("(", 40)+"value > 5", 1, `character 33 ("((((((((value > 5"): more `+
		`than 32 levels of parentheses and negations`)
	f(strings.Repeat("!", 40)+"value > 5", 1, `character 33 ("!!!!!!!!value > 5"): more `+
		`than 32 levels of parentheses and negations`)
}

// TestMatch: what conditions mean for payloads, at the edges.
func TestMatch(t *testing.T) {
	f := func(text string, moid int32, payload string, want bool) {
		t.Helper()
		bound, err := Bind(text, declared(), nil)
		if err != nil {
			bound, err = Bind(text, declared(), [][2]int64{{int64(moid), int64(moid) + 1}})
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		p, err := Compile(bound)
		if err != nil {
			t.Fatalf("%s: %v", bound, err)
		}
		if got := p.Match(moid, []byte(payload)); got != want {
			t.Errorf("%s of %q: %v", text, payload, got)
		}
		if Text(bound) != text {
			t.Errorf("the text of %s is %s", bound, Text(bound))
		}
	}
	const nan, zero = "\x00\x00\x00\x00\x00\x00\xf8\x7f", "\x00\x00\x00\x00\x00\x00\x00\x80" // -0
	for _, op := range []string{"=", "<", "<=", ">", ">="} {
		f("value "+op+" 0", 1, nan, false)
		f("not value "+op+" 0", 1, nan, true)
	}
	f("value != 0", 1, nan, true)
	f("value = -inf..", 1, nan, false)
	f("not value >= -inf", 1, nan, true)
	f("value = 0", 1, zero, true)
	f("value < 0", 1, zero, false)
	f("value >= 0", 1, zero, true)
	f("value >= 0 or value < 0", 1, zero[:7], false) // of another size
	f("not value >= 0", 1, zero[:7], false)
	f("not value >= 0", 1, zero+"\x00", false)
	f("value = -1 and \"air quality\" in (7)", 2, "\xff\xff\xff\xff\x07\x00\x00\x00", true)
	f("value > -1.5, value < -0.5", 2, "\xff\xff\xff\xff", true)
	f(`note ^= "err" and not note = "err"`, 2, "\x00\x00\x00\x00\x07\x00\x00\x00error", true)
	f(`note = ""`, 2, "\x00\x00\x00\x00\x07\x00\x00\x00", true)
	f(`note = ""`, 2, "\x00\x00\x00\x00\x07\x00\x00", false)
	f("value ^= 00ff", 3, "\x00\xff\x01", true)
	f("value = 00ff", 3, "\x00\xff\x01", false)
	f(`value = "a \"b\" \\"`, 4, `a "b" \`, true)
	f(`value = "1..2"`, 4, "1..2", true)
	f("value < 1e400 and value > -1e400", 1, zero, true)
	f("value = Inf and value >= +Infinity", 1, "\x00\x00\x00\x00\x00\x00\xf0\x7f", true)
	f("value > -INF", 1, "\x00\x00\x00\x00\x00\x00\xf0\xff", false)
	f("value > 1e400 or value = 1e400", 1, "\x00\x00\x00\x00\x00\x00\xf0\x7f", true) // infinite
	f("unreadable", 1, zero, false)
	f("unreadable", 1, zero[:7], true)
	f("unreadable", 1, zero+"1", true)
	f("unreadable", 2, zero, false)
	f("unreadable", 2, zero[:7], true)
	f("unreadable", 4, "", false)
}

// TestManyTypes: a condition that is bound costs no more than a little for its size.
func TestManyTypes(t *testing.T) {
	text := `{"where":"value in (` + strings.Repeat("1,", 990) + `1)","layouts":[` +
		strings.Repeat(`{"moids":[[1,2]],"type":"f64"},`, 100) + `{"type":"f64"}]}`
	if err := Check(text); err == nil || !strings.Contains(err.Error(), "are too many") {
		t.Errorf("100 types and 992 values: %v", err)
	}
}

// FuzzBind reads conditions: they are refused, or bound to one that can be read, bound or not.
func FuzzBind(f *testing.F) {
	for _, text := range []string{"value > -5 and (value = 0 or !value in (1,2))", "value=-1..=2e3",
		`note ^= "x" or "air quality" != 7`, `{"where":"value > 1","layouts":[{"type":"f64"}]}`,
		`{"where":"value^=\"a\"","layouts":[{"moids":[[1,2]],"type":"text"},{"type":"bytes"}]}`} {
		f.Add(text, []byte("12345678|\x00\x00\x00\x00\x00\x00\xf8\x7f|\x01\x02\x03\x04"))
	}
	f.Fuzz(func(t *testing.T, text string, payload []byte) {
		for _, moids := range [][][2]int64{{{1, 2}}, {{2, 3}}, {{3, 4}}, {{4, 5}}} {
			bound, err := Bind(text, declared(), moids)
			if err != nil {
				if err.Error() == "" {
					t.Fatal("an error that says nothing")
				}
				continue
			}
			p, err := Compile(bound)
			if err != nil {
				if IsBound(text) {
					continue
				}
				t.Fatalf("%q is bound as %s: %v", text, bound, err)
			}
			for _, q := range declared() {
				p.Match(q.MOID, payload)
			}
			for i := range p.Rules {
				checkBounds(t, &p.Rules[i], payload)
			}
		}
	})
}

// checkBounds: a rule that excludes payloads by their bounds is met by none of them.
func checkBounds(t *testing.T, r *Rule, text []byte) {
	t.Helper()
	var bounds []Bounds
	for range r.Fields {
		bounds = append(bounds, NoBounds())
	}
	met := false
	for _, payload := range bytes.Split(text, []byte("|")) {
		r.AddPayload(bounds, payload)
		met = met || r.Match(payload)
	}
	if met && len(bounds) > 0 && r.Excludes(bounds) {
		t.Fatalf("%+v excludes %q by %+v", r.Node, text, bounds)
	}
}
