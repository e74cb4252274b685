package csvimport

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
)

// identityVersion counts changes of how the same file and mapping become records. 1: first;
// 2: an open quote ends where lines look like records.
const identityVersion = 2

// Identify writes to a digest all that decides which records a file becomes, in addition to its
// content and to the files before it: the mapping, the tables that it joins, the lookup file, and
// the name of the file where the mapping asks for it.
func (im *Importer) Identify(digest io.Writer, fileName string) error {
	fmt.Fprintf(digest, "csvimport %d\n", identityVersion)
	text, err := json.Marshal(im.mapping)
	if err != nil {
		return fmt.Errorf("mapping: %w", err)
	}
	fmt.Fprintf(digest, "%d %s\n", len(text), text)
	for _, part := range im.mapping.parts() {
		if part.Join == nil {
			continue
		}
		table := im.joins[part.Join]
		fmt.Fprintf(digest, "join %d\n", len(table))
		for _, key := range slices.Sorted(maps.Keys(table)) {
			fmt.Fprintf(digest, "%q %q\n", key, table[key])
		}
	}
	for _, v := range im.mapping.Values {
		if v.ByMOID {
			fmt.Fprintf(digest, "types %v\n", im.opt.Types)
		}
	}
	if im.lookups != nil {
		fmt.Fprintf(digest, "lookups %s\n", im.lookups.id)
	}
	if im.mapping.usesFileName() {
		fmt.Fprintf(digest, "file %q\n", filepath.Base(fileName))
	}
	return nil
}

// FilesDepend reports whether a line may be rejected for what an earlier file of the import has.
func (im *Importer) FilesDepend() bool {
	return im.mapping.Cap.Zone != "" && im.mapping.Cap.Fold != FoldBoth
}

func (m *Mapping) usesFileName() bool {
	for _, p := range m.parts() {
		if p.Column == "@file" {
			return true
		}
	}
	return slices.Contains(m.Cap.Columns, "@file")
}
