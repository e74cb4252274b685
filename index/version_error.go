package index

import "fmt"

// VersionError says that a part of an index was written in another version of its form. The caller
// has verified its checksum, so it is not damaged.
type VersionError struct{ Version, Known uint32 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("version %d; this program reads version %d", e.Version, e.Known)
}
