// Package rust holds the Rust half of a plugin, pentad.rs, for those who hand it to authors.
// Modules built in this repository name the file itself.
package rust

import _ "embed" // for the source

//go:embed pentad.rs
var source []byte

// Source returns pentad.rs. The bytes belong to the caller.
func Source() []byte { return append([]byte(nil), source...) }
