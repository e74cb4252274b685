package expr

import (
	"cmp"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// bare is a language with all that a language may have.
func bare() *Language {
	number := func(word string) float64 {
		n, _ := strconv.ParseFloat(word, 64)
		return n
	}
	return &Language{Example: "a > 20", Bare: true, Calls: []string{"within", "near"},
		IsNumber: func(word string) bool {
			_, err := strconv.ParseFloat(word, 64)
			return err == nil
		},
		Compare: func(a, b string) int { return cmp.Compare(number(a), number(b)) }}
}

func TestParse(t *testing.T) {
	f := func(text string, want Expr) {
		t.Helper()
		got, _, err := bare().Parse(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	word := func(text string, at int) Literal { return Literal{Text: text, At: at} }
	is := func(key string, at int) *Test {
		return &Test{Key: key, At: at, Values: []Literal{word("true", at)}}
	}
	f("a or b,c", Any{is("a", 0), All{is("b", 5), is("c", 7)}})
	f("(a or b) and !c", All{Any{is("a", 1), is("b", 6)}, Not{is("c", 14)}})
	f("order", is("order", 0))
	f("a!=1", Not{&Test{Key: "a", Values: []Literal{word("1", 3)}}})
	f("a not in (1)", Not{&Test{Key: "a", Values: []Literal{word("1", 10)}}})
	f(`"b c"^="\"\\"`, &Test{Key: "b c", Op: Prefix, Values: []Literal{{`"\`, true, 7}}})
	f("a=1..=2", &Test{Key: "a", Op: Between, Closed: true,
		Values: []Literal{word("1", 2), word("2", 2)}})
	f("near(1, 2,3m)", &Call{Name: "near", End: 12, Args: []Literal{word("1", 5), word("2", 8),
		word("3m", 10)}})
	f("a=o'brien", &Test{Key: "a", Values: []Literal{word("o'brien", 2)}})
}

// TestMisspelled: errors point at the character, say what is expected and guess what was meant.
func TestMisspelled(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, _, err := bare().Parse(text)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	const follow = "conditions follow each other; write a comma, and or or between them"
	f("withn(1,2)", `character 1 ("withn(1,2)"): there is no withn(...); did you mean within?`)
	f("nott (a)", `character 1 ("nott (a)"): there is no nott(...); did you mean not?`)
	f("within", "at its end: want ( behind within; in quotes it is a name")
	f("near(1,2", "at its end: want ) or a comma behind a value of near(...)")
	f("near()", `character 6 (")"): want a value of near(...)`)
	f("a AND b", `character 3 ("AND b"): `+follow+`; did you mean and?`)
	f("ä && b", `character 3 ("&& b"): `+follow+`; did you mean and?`)
	f("a || b", `character 3 ("|| b"): `+follow+`; did you mean or?`)
	f("a = kWh 5", `character 9 ("5"): `+follow+`; a text of several words is in double quotes`)
	f("a between 2 and 4", `character 3 ("between 2 and 4"): `+follow+`; a range is = 2..=4`)
	f("a in (b*)", `character 7 ("b*)"): * is like other characters; a text that begins so is `+
		`found by ^= without it; quote it if it is meant`)
	f("a not b", `character 3 ("not b"): `+follow)
	f("a <> 5", `character 3 ("<> 5"): <> is not a comparison; did you mean a !=?`)
	f("a => 5", `character 3 ("=> 5"): => is not a comparison; did you mean a >=?`)
	f("a === 5", `character 3 ("=== 5"): === is not a comparison; did you mean a =?`)
	f("5 < a", `character 1 ("5 < a"): 5 is a number, and a condition begins with a name, e.g. `+
		`a > 20`)
	f("5", `character 1 ("5"): 5 is a number, and a condition begins with a name, e.g. a > 20`)
	f("a = 'kWh'", `character 5 ("'kWh'"): ' does not quote a text; write "..."`)
	f("a = “kWh”", `character 5 ("“kWh”"): “ does not quote a text; write "..."`)
	f("a=", "at its end: want a value behind a =")
	f("a in (1,)", `character 9 (")"): want a value of a list`)
	f("a > 1e5x", `character 5 ("1e5x"): want a number behind the sign, e.g. a >= 2`)
	f(strings.Repeat("a,", 1000)+"a",
		`character 2001 ("a"): more than 1000 conditions and values`)
	f(strings.Repeat(" ", MaxBytes+1), `character 1 ("`+strings.Repeat(" ", 20)+
		`..."): it has 16385 bytes, at most 16384`)
}

// FuzzParse: a text is refused at a character of it, or has values that read as they are written.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"a > -5 and (b = 0 or !c in (1,2))", "a=-1..=2e3",
		`n ^= "x" or d`, "within(1,2,3,4), near(1,2,3km)", `"a b" not in ("\"", x) or b != "\\"`,
		"((((a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		x, _, err := bare().Parse(text)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset > len(text) || err.Error() == "" {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		checkLiterals(t, x)
	})
}

func checkLiterals(t *testing.T, x Expr) {
	t.Helper()
	var literals []Literal
	switch x := x.(type) {
	case All:
		for _, one := range x {
			checkLiterals(t, one)
		}
	case Any:
		for _, one := range x {
			checkLiterals(t, one)
		}
	case Not:
		checkLiterals(t, x.Expr)
	case *Call:
		literals = x.Args
	case *Test:
		if literals = x.Values; x.Op == Between {
			return
		}
	}
	for _, l := range literals {
		text := AppendLiteral([]byte("a in ("), l)
		again, n, err := bare().Parse(string(append(text, ')')))
		if err != nil || n != 2 {
			t.Fatalf("%q is written as %q: %v", l.Text, text, err)
		}
		got := again.(*Test).Values[0]
		if got.Text != l.Text || l.Quoted && !got.Quoted {
			t.Fatalf("%q is written as %q, and read as %q", l.Text, text, got.Text)
		}
	}
}
