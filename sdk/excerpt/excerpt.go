// Package excerpt shortens texts that errors quote.
//
// It has no types and starts no goroutines.
package excerpt

import "unicode/utf8"

// Of returns a text of at most a number of bytes as it is, and the beginning of a longer one, with
// three dots behind it. It cuts no character of UTF-8.
func Of[T ~string | ~[]byte](text T, most int) string {
	if len(text) <= most {
		return string(text)
	}
	end := most
	for end > 0 && end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return string(text[:end]) + "..."
}
