package excerpt

import "testing"

func TestOf(t *testing.T) {
	f := func(text string, most int, want string) {
		t.Helper()
		if got := Of(text, most); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := Of([]byte(text), most); got != want {
			t.Errorf("of bytes: %q, want %q", got, want)
		}
	}
	f("", 0, "")
	f("abc", 3, "abc")
	f("abcd", 3, "abc...")
	f("aäb", 2, "a...")
	f("aäb", 3, "aä...")
	f("a€b", 3, "a...")
	f("a€b", 0, "...")
	f("\x80\x80\x80\x80\x80\x80", 5, "\x80...")
}
