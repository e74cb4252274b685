package plugin

import (
	"slices"
	"unicode/utf8"
)

// hidden are the characters that a text of one line does not have: controls, separators, marks
// without a form of their own, private ones and those that will never be any. The list is our own
// and does not grow: replicas of programs that know different versions of Unicode must agree.
var hidden = [...][2]rune{
	{0, 0x1f}, {0x7f, 0xa0}, {0xad, 0xad}, {0x61c, 0x61c}, {0x1680, 0x1680}, {0x180e, 0x180e},
	{0x2000, 0x200f}, {0x2028, 0x202f}, {0x205f, 0x206f}, {0x3000, 0x3000}, {0xe000, 0xf8ff},
	{0xfdd0, 0xfdef}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe00ff},
	{0xf0000, 0x10ffff},
}

// OneLine reports whether a text is UTF-8 that can be shown on one line, and does nothing else to a
// terminal: no controls, no spaces but the usual one, no marks that turn the direction.
func OneLine(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		_, is := slices.BinarySearchFunc(hidden[:], r, func(span [2]rune, r rune) int {
			switch {
			case span[1] < r:
				return -1
			case span[0] > r:
				return 1
			}
			return 0
		})
		if is {
			return false
		}
	}
	return true
}
