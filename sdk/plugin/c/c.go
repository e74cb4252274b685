// Package c holds the C half of a plugin, pentad.h and what may be used beside it, for those who
// hand it to authors. C sources include the files themselves.
package c

import "embed"

//go:embed pentad.h columns.h sealed.h sealed_sum.h sealed_rows.h
var files embed.FS

// Names returns the names of the files.
func Names() []string {
	return []string{"pentad.h", "columns.h", "sealed.h", "sealed_sum.h", "sealed_rows.h"}
}

// File returns a file by its name. The bytes belong to the caller.
func File(name string) []byte {
	content, err := files.ReadFile(name)
	if err != nil {
		panic("BUG: a file of the sdk is not embedded: " + err.Error())
	}
	return content
}
