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
// 2: an open quote ends where lines look like records. 3: quotes in fields without quotes, and
// points in numbers with decimal commas, are rejected.
const identityVersion = 3

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
	for _, join := range im.mapping.joins() {
		table := im.joins[join]
		fmt.Fprintf(digest, "join %d\n", len(table))
		for _, key := range slices.Sorted(maps.Keys(table)) {
			fmt.Fprintf(digest, "%q %q\n", key, table[key])
		}
	}
	for _, v := range im.mapping.Values {
		if v.ByMOID || v.assumed && im.mapping.byName(&v) && im.mapping.MOID.Types == nil {
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
	return im.mapping.Cap.Zone.IsSet() && im.mapping.Cap.Fold != FoldBoth
}

func (m *Mapping) usesFileName() bool {
	all := slices.Concat(m.Cap.Columns, m.Cap.Zone.references())
	for _, p := range m.parts() {
		all = append(all, p.references()...)
	}
	return slices.Contains(all, "@file")
}
