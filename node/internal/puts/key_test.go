package puts

import (
	"testing"

	"github.com/pentad-db/pentad/node/store"
)

// TestKeys: a key names a writer that is not persistent, whatever its id begins with, and no key
// names a persistent one.
func TestKeys(t *testing.T) {
	edge := store.WriterSeq{ID: [16]byte{'e', 'd', 'g', 'e', 1}, Seq: 7}
	key := FormatKey(edge)
	got, err := ParseKey(key)
	if want := "65646765010000000000000000000000/7"; key != want || got != edge || err != nil {
		t.Errorf("%s is %+v, %v", key, got, err)
	}
	edge.Persistent = true
	for _, w := range []store.WriterSeq{edge, {}} {
		if key := FormatKey(w); key != "" {
			t.Errorf("%+v has the key %s", w, key)
		}
	}
}
