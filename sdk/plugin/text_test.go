package plugin

import (
	"testing"
	"unicode"
)

// What was stored under the rule before, which was unicode.IsPrint of some version of Go, is not
// refused; and what moves a cursor, ends a line or turns the direction is.
func TestOneLine(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		one := OneLine(string(r))
		switch {
		case r >= 0xd800 && r < 0xe000: // no characters: string(r) is another one
		case !one && unicode.IsPrint(r):
			t.Errorf("%U is refused", r)
		case one && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) ||
			unicode.IsSpace(r) && r != ' '):
			t.Errorf("%U is taken", r)
		}
	}
	f := func(text string, want bool) {
		t.Helper()
		if OneLine(text) != want {
			t.Errorf("%q", text)
		}
	}
	f("", true)
	f("Zähler °C m³/h \u0378", true) // the last one is not a character yet
	f("a\x1b[1m", false)
	f("a\xff", false)
	f("a\u202eb", false)
}
