package csvimport

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLookupFileErrors: what is not a lookup file is named with its line and the way out.
func TestLookupFileErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ids.json")
	f := func(source, want string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenLookups(path)
		if err == nil || err.Error() != "lookup file "+path+want {
			t.Errorf("%q: %v\nwant %s", source, err, want)
		}
	}
	const way = "; --lookup-file takes a file that an import wrote; for a first import, name one " +
		"that is not there yet"
	const mend = "; correct it there, or restore the file from a copy"
	const head = "{\"format\":\"pentad-lookup-1\",\n\"tables\":{"
	f("name,id\nTE001,1\n", `:1: "name,id" is not the JSON of a lookup file`+way)
	f("\n\nsite: 1\n", `:3: "site: 1" is not the JSON of a lookup file`+way)
	f("[1]", `:1: "[1]" is not the JSON of a lookup file`+way)
	f("{}", `:1: no "format": "pentad-lookup-1"`+way)
	f(`{"format":"x"}`, `:1: format is "x", want "pentad-lookup-1"`+way)
	f("\n", " is empty; restore it from a copy, or remove it if no import has used it")
	f(head+"\"a\":\n{", ":3: the file ends in the middle of its JSON; restore it from a copy")
	f(head+"\"a\":\n{\"x\":1,\n}}}", `:3: the JSON is not valid at "{\"x\":1,"`+mend)
	f(head+"\"a\":\n{\"x\":\"1\"}}}", `:3: tables.a.x: string is not an id; write a whole number`)
	f(head+"\"a\":\n{\"x\":1.5}}}",
		`:3: tables.a.x: number 1.5 is not an id; write a whole number`)
	f(head+"\"a\":\n{\"x\":1,\n\"x\":2}}}", `:4: the key "x" occurs twice; remove one`)
	f("{\"format\":\"pentad-lookup-1\",\n\"table\":{}}",
		`:2: unknown field "table"; did you mean tables?; there are format, id and tables`)
	f(head+"}}\n{}", `:3: the JSON is not valid at "{}"`+mend)
	f(head+"\"a\":{\"x\":1,\"y\":1}}}", `: table "a" gives id 1 to "x" and to "y"`)
}
