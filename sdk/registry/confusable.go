package registry

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// script is one of those whose letters are taken for those of another.
type script struct {
	name  string
	table *unicode.RangeTable
}

// lookalikes are the scripts with letters that look like Latin ones.
var lookalikes = []script{{"Latin", unicode.Latin}, {"Greek", unicode.Greek},
	{"Cyrillic", unicode.Cyrillic}, {"Armenian", unicode.Armenian},
	{"Cherokee", unicode.Cherokee}, {"Coptic", unicode.Coptic}, {"Lisu", unicode.Lisu},
	{"Georgian", unicode.Georgian}, {"Deseret", unicode.Deseret}}

// checkName reports why a text must not be a name: because it is no text, or because it looks like
// another one. An empty one is none, and passes.
//
// A word may have letters of one script only of those that resemble each other, accents are parts
// of their letters, and there are no wide, styled or doubled characters. Words that are of one
// script as a whole, and look like words of another, pass: to tell them takes the tables of
// Unicode, which every client and node would have to have in the same version.
func checkName(what, name string) error {
	spaced := strings.TrimSpace(name) != name || strings.Contains(name, "  ")
	if plain(name) && !spaced && len(name) <= MaxTextBytes {
		return nil
	}
	what = "the " + what
	if err := checkText(what, name); err != nil {
		return err
	}
	quoted := excerpt.Of(name, 80)
	if spaced {
		return fmt.Errorf("%s %q begins or ends with a space, or has two in a row", what, quoted)
	}
	word := ""
	for _, r := range name {
		own := scriptOf(r)
		switch {
		case r >= 0xff00 && r <= 0xffef, r >= 0x1d400 && r <= 0x1d7ff:
			return fmt.Errorf("%s %q has the character %q (%U), which looks like a common one; "+
				"write that", what, quoted, r, r)
		case unicode.IsMark(r) && word != "":
			return fmt.Errorf("%s %q has an accent (%U) that is a character of its own; write "+
				"the letter with its accent as one (form NFC)", what, quoted, r)
		case own == "":
			word = ""
		case word != "" && own != word:
			return fmt.Errorf("%s %q has a word with both %s and %s letters, of which some look "+
				"alike; the %s one is %q (%U)", what, quoted, word, own, own, r, r)
		default:
			word = own
		}
	}
	return nil
}

// scriptOf returns which of the lookalikes a letter is of, "" for what is none.
func scriptOf(r rune) string {
	if r < 0x80 {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return lookalikes[0].name
		}
		return ""
	}
	for _, s := range lookalikes {
		if unicode.Is(s.table, r) && unicode.IsLetter(r) {
			return s.name
		}
	}
	return ""
}
