package layout_test

import (
	"testing"

	"github.com/pentad-db/pentad/node/store/layout"
)

// An applied entry that is cut or longer is none.
func FuzzParseAppliedEntry(f *testing.F) {
	f.Add(layout.AppliedEntry(1, 2).Data)
	f.Fuzz(func(t *testing.T, data []byte) {
		index, nextNs, err := layout.ParseAppliedEntry(data)
		if (err == nil) != (len(data) == 16) {
			t.Fatalf("%d bytes: %v", len(data), err)
		}
		if err == nil && string(layout.AppliedEntry(index, nextNs).Data) != string(data) {
			t.Fatalf("%x is %d, %d", data, index, nextNs)
		}
	})
}
