// Package rust holds the Rust half of a plugin, pentad.rs and what belongs to it or may be used
// beside it, for those who hand it to authors. Modules built in this repository name the files
// themselves.
package rust

import "embed"

//go:embed pentad.rs exports.rs growing.rs columns.rs sealed.rs sealed_sum.rs
var files embed.FS

// Names returns the names of the files.
func Names() []string {
	return []string{"pentad.rs", "exports.rs", "growing.rs", "columns.rs", "sealed.rs",
		"sealed_sum.rs"}
}

// File returns a file by its name. The bytes belong to the caller.
func File(name string) []byte {
	content, err := files.ReadFile(name)
	if err != nil {
		panic("BUG: a file of the sdk is not embedded: " + err.Error())
	}
	return content
}
