// Package c holds the C half of a plugin, pentad.h, for those who hand it to authors. C sources
// include the file itself.
package c

import _ "embed" // for the header

//go:embed pentad.h
var header []byte

// Header returns pentad.h. The bytes belong to the caller.
func Header() []byte { return append([]byte(nil), header...) }
