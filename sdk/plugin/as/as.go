// Package as holds the AssemblyScript half of a plugin, pentad.ts and what may be used beside it,
// and what pins the compiler, for those who hand them to authors. Modules built in this repository
// name the files themselves.
package as

import "embed"

//go:embed pentad.ts growing.ts columns.ts package.json package-lock.json
var files embed.FS

// Names returns the names of the files.
func Names() []string {
	return []string{"pentad.ts", "growing.ts", "columns.ts", "package.json", "package-lock.json"}
}

// File returns a file by its name. The bytes belong to the caller.
func File(name string) []byte {
	content, err := files.ReadFile(name)
	if err != nil {
		panic("BUG: a file of the sdk is not embedded: " + err.Error())
	}
	return content
}
