package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/layout"
)

// ExtraFile is a file that a part of a backup contains in addition to those of the store.
type ExtraFile struct {
	Name string // in the part
	Path string // of the source
	Once bool   // the name identifies the content: a file that an earlier part has is left out
}

// copyExtra copies the extra files into the part.
func (b *backup) copyExtra() error {
	for _, f := range b.opt.Extra {
		if !isExtraName(f.Name) {
			panic("BUG: a part has its own file " + f.Name)
		}
		if f.Once && slices.Contains(b.earlier, f.Name) {
			continue
		}
		content, err := os.ReadFile(f.Path)
		if errors.Is(err, os.ErrNotExist) {
			continue // a node that never had any
		}
		if err == nil {
			err = durable.ReplaceFile(filepath.Join(b.dir, f.Name), content)
		}
		var kept file
		if err == nil {
			err = b.describe(&kept, f.Name)
		}
		if err != nil {
			return fmt.Errorf("keep %s: %w", f.Path, err)
		}
		b.part.Beside = append(b.part.Beside, kept)
	}
	return nil
}

// isExtraName refuses the names of files that a part has of its own.
func isExtraName(name string) bool {
	return name == filepath.Base(name) && name != partFile && name != layout.WritersFile &&
		!strings.HasSuffix(name, layout.SegmentSuffix)
}

// besidesOf returns the newest file of each name in parts, the oldest of which comes first.
func besidesOf(parts []*Part) (files []ExtraFile) {
	for _, p := range slices.Backward(parts) {
		for _, f := range p.Beside {
			if !slices.ContainsFunc(files, func(o ExtraFile) bool { return o.Name == f.Name }) {
				files = append(files, ExtraFile{Name: f.Name, Path: filepath.Join(p.dir, f.Name)})
			}
		}
	}
	return files
}
