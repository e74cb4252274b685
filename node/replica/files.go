package replica

import (
	"os"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// Files and File are what a log is written through, for programs that bring their own.
type (
	Files = durable.Folder
	File  = durable.File
)

// Directory returns a directory of the operating system, and makes it when there is none. The owner
// of the data directory sees to it that no other process uses it at the same time.
func Directory(path string) (durable.Folder, error) {
	return durable.Dir(path), os.MkdirAll(path, 0o755)
}

// noSpace reports whether a write failed because there was no space for it.
func noSpace(err error) bool { return durable.IsNoSpace(err) }
