package manifest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/record"
)

// The manifest is cut at every byte and corrupted at every bit: what complete lines say, or an
// error that names the file.
func TestManifestDamage(t *testing.T) {
	dir := t.TempDir()
	m, _, err := Open(dir, 4, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		e := Edit{Add: []Segment{{ID: uint64(i + 1), Shard: uint32(i), Rows: 9, LastLSN: 3}}}
		if i == 3 {
			e.Remove = []uint64{1}
		}
		if err := m.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, layout.ManifestFile)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		got := readManifest(t, whole[:cut])
		complete := bytes.Count(whole[:cut], []byte("\n"))
		if complete == 0 != (got == nil) {
			t.Fatalf("cut at %d: opened %v with %d complete lines", cut, got != nil, complete)
		}
	}
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	edge := (last/sector.Size + 1) * sector.Size
	if edge >= len(whole) {
		t.Fatalf("the last line, at %d, is in one sector", last)
	}
	for _, lost := range [][2]int{{last, edge}, {edge, len(whole)}, {last, len(whole)}} {
		torn := bytes.Clone(whole)
		clear(torn[lost[0]:lost[1]])
		if got := readManifest(t, torn); got == nil || len(got.Live) != 3 || got.Live[0].ID != 1 {
			t.Fatalf("bytes %v of the last line are not written: opened %v", lost, got != nil)
		}
	}
	for bit := range 8 * len(whole) {
		corrupted := bytes.Clone(whole)
		corrupted[bit/8] ^= 1 << (bit % 8)
		if m := readManifest(t, corrupted); m != nil {
			t.Fatalf("bit %d flipped: the manifest opens with %d live segments", bit, len(m.Live))
		}
	}
}

func readManifest(t *testing.T, data []byte) *Manifest {
	t.Helper()
	m := New()
	_, err := m.Replay(layout.ManifestFile, data)
	if err != nil {
		var damage *durable.CorruptError
		if !errors.As(err, &damage) || damage.File == "" {
			t.Fatalf("error does not name the file: %v", err)
		}
		return nil
	}
	return m
}

func FuzzParseEdit(f *testing.F) {
	line := AppendEdit(nil, Edit{Format: 1, Shards: 8, Add: []Segment{{ID: 1}},
		Remove: []uint64{4}, Lineage: record.Lineage{{ID: 1 << 63, FromNs: 7}}})
	f.Add(bytes.TrimSuffix(line, []byte("\n")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, err := ParseEdit(data); err == nil {
			again := bytes.TrimSuffix(AppendEdit(nil, e), []byte("\n"))
			if _, err := ParseEdit(again); err != nil {
				t.Fatalf("%q parses, %q does not: %v", data, again, err)
			}
		}
	})
}
