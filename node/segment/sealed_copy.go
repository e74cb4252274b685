package segment

import (
	"fmt"
	"path/filepath"
)

// CopySealed writes a segment that holds what src holds, but for the caller's description, and
// makes it durable as WriteSealed does. The blocks are copied as they are, and not looked at.
func CopySealed(path string, src *Sealed, meta []byte) error {
	sections := []Section{{ID: sectionMeta, Data: meta}}
	for _, s := range src.sections {
		if s.ID != sectionMeta {
			sections = append(sections, s)
		}
	}
	write := func(w *sealedWriter) (info SealedInfo, err error) {
		err = src.Guard(func() error {
			if err := w.append(src.data[:src.end+paddingBytes]); err != nil {
				return err
			}
			return w.writeSections(sections, src.rows, src.blocks, int64(src.end))
		})
		if err == nil {
			err = w.flush()
		}
		return SealedInfo{}, err
	}
	_, err := writeAndRename(osFolder(filepath.Dir(path)), filepath.Base(path), write)
	if err != nil {
		return fmt.Errorf("copy segment to %s: %w", path, err)
	}
	return nil
}
