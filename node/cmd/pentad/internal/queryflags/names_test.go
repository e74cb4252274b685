package queryflags

import "testing"

func TestSelectNames(t *testing.T) {
	ids := map[string]int64{"06/037/1103": 1, "08/031/0002": 2, "a, b": 3, "7": 4}
	f := func(text, want string) {
		t.Helper()
		if got, err := selectNames(text, ids, "a.json"); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	f("*", "*")
	f("06/037/1103", "1")
	f("06/037/1103, 08/031/0002,9", "1,2,9")
	f("a, b", "3")
	f("7", "4") // a name
	f("8", "8")
	f("5..=7", "5..=7")
	f("-1..", "-1..")
	for text, want := range map[string]string{
		"06/037/1104": `"06/037/1104" is neither a number nor a name of a.json; did you ` +
			`mean 06/037/1103?`,
		"x":   `"x" is neither a number nor a name of a.json`,
		"1,x": `"x" is neither a number nor a name of a.json`,
	} {
		if got, err := selectNames(text, ids, "a.json"); err == nil || err.Error() != want {
			t.Errorf("%q: %q, %v, want %s", text, got, err, want)
		}
	}
}
