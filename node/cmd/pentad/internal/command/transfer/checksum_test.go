package transfer

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseSum(t *testing.T) {
	const digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	f := func(text, want string) {
		t.Helper()
		sum, err := parseSum([]byte(text), "a.csv")
		got := fmt.Sprintf("%x", sum)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	f(digits+"  a.csv\n", digits)
	f(digits+" *a.csv\r\n", digits)
	f("x  b.csv\n"+strings.ToUpper(digits)+"  a.csv", digits)
	f("", "no checksum of a.csv")
	f(digits+"  b.csv\n", "no checksum of a.csv")
	f(digits+" a.csv\n", "no checksum of a.csv")
	f("ba78  a.csv\n", `"ba78" is not a SHA-256`)
	f(digits+"00  a.csv\n", `"`+digits+`00" is not a SHA-256`)
	f("z"+digits[1:]+"  a.csv\n", `"z`+digits[1:]+`" is not a SHA-256`)
}

func FuzzParseSum(f *testing.F) {
	f.Add([]byte("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n"), "a")
	f.Add([]byte("00  a\nx *b"), "b")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		sum, err := parseSum(text, name)
		if err != nil || strings.ContainsAny(name, "\r\n") {
			return
		}
		again, err := parseSum(fmt.Appendf(nil, "%x  %s\n", sum, name), name)
		if err != nil || again != sum {
			t.Fatalf("%x became %x, %v", sum, again, err)
		}
	})
}
