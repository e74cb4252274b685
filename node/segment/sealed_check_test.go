package segment

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// checkAll reads everything and returns the first damage.
func checkAll(s *File) error {
	rows := 0
	err := s.CheckBlocks(nil, nil, func(
		_ int, b *Block, _ uint64, _ uint32, d *durable.CorruptError,
	) error {
		if d != nil {
			return d
		}
		rows += b.Rows()
		return nil
	})
	if err == nil && rows != s.rows {
		return s.corrupt(s.end, "blocks hold %d rows, the tail says %d", rows, s.rows)
	}
	return err
}

// damageOf lists the offsets of everything that a check of a file names.
func damageOf(t *testing.T, path string, offsets []uint64, sizes []uint32) (at []int64) {
	t.Helper()
	s, damage, err := OpenDamaged(path)
	if err != nil {
		t.Fatal(err)
	}
	if s != nil {
		defer s.Close()
		err = s.CheckBlocks(offsets, sizes, func(
			_ int, _ *Block, _ uint64, _ uint32, d *durable.CorruptError,
		) error {
			if d != nil {
				damage = append(damage, d)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range damage {
		if d.File != path {
			t.Fatalf("damage in %s, not %s", d.File, path)
		}
		at = append(at, d.Offset)
	}
	return at
}

// Several places of one file are damaged: a check names each of them, and nothing else.
func TestCheckGoesOnAfterDamage(t *testing.T) {
	data := sealBytes(t, smallInputs(randomSource(t))["words"])
	path := filepath.Join(t.TempDir(), "1.seg")
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(data)
	if at := damageOf(t, path, nil, nil); len(at) != 0 {
		t.Fatalf("damage at %v of a whole file", at)
	}
	s, err := parseSealed(path, data)
	if err != nil {
		t.Fatal(err)
	}
	offsets, sizes, err := s.Locate()
	if err != nil {
		t.Fatal(err)
	}
	f := func(want []int64, places ...uint64) {
		t.Helper()
		corrupted := append([]byte(nil), data...)
		for _, place := range places {
			corrupted[place] ^= 4
		}
		write(corrupted)
		for _, known := range []bool{true, false} {
			o, z := offsets, sizes
			if !known {
				o, z = nil, nil
			}
			got := damageOf(t, path, o, z)
			if len(got) != len(want) {
				t.Fatalf("corrupted at %d: damage at %v, want %v", places, got, want)
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("corrupted at %d: damage at %v, want %v", places, got, want)
				}
			}
		}
	}
	first, second := int64(offsets[0]), int64(offsets[1])
	one, two := s.end+paddingBytes+4, s.end+paddingBytes+7 // the sections "one" and "two"
	f([]int64{first, second}, offsets[0]+30, offsets[1]+30)
	f([]int64{int64(one), int64(two), 0, first}, one, two, 0, offsets[0]+40)
	f([]int64{int64(s.end) + 3, second}, s.end+3, offsets[1]+30)
	f([]int64{int64(len(data)) - 64}, uint64(len(data))-60) // the tail: nothing else is found
	// Without the directory the size of a corrupted block leads nowhere.
	corrupted := append([]byte(nil), data...)
	corrupted[offsets[0]] ^= 4
	write(corrupted)
	if at := damageOf(t, path, nil, nil); len(at) != 1 || at[0] != first {
		t.Errorf("damage at %v", at)
	}
	if at := damageOf(t, path, offsets, sizes); len(at) != 1 || at[0] != first {
		t.Errorf("damage at %v", at)
	}
}

// A file is cut while it is mapped: reading it is an error and not the end of the process.
func TestReadBeyondACut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.seg")
	in := smallInputs(randomSource(t))["raw"]
	if _, err := WriteSealed(path, in); err != nil {
		t.Fatal(err)
	}
	s, err := OpenSealed(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	var damage *durable.CorruptError
	if _, _, err := s.Locate(); !errors.As(err, &damage) || damage.File != path {
		t.Fatal(err)
	}
}
