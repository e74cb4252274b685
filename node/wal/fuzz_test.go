package wal

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
	"github.com/pentad-db/pentad/sdk/crc32c"
)

// FuzzOpen opens any bytes as a log, with checksums put right or not. What opens has the same
// entries when it is opened again.
func FuzzOpen(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	d := newMemoryFolder()
	writeLog(f, d, rng, 5, 1<<20)
	good := d.names[fileName(1)].data
	f.Add(good, true)
	f.Add(good[:len(good)-3], false)
	f.Add(append(good[:len(good):len(good)], make([]byte, 100)...), true)
	f.Add(good[40:], false)
	f.Fuzz(func(t *testing.T, data []byte, mend bool) {
		if mend {
			mendChecksums(data)
		}
		_, _, err := readFile("log", slices.Clone(data),
			func(*Append, *durable.CorruptError) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		d := newMemoryFolder()
		d.names[fileName(1)] = &memoryFile{folder: d, data: data}
		var got, again []Entry
		_, report, err := openFolder(d, "log", Options{}, replayed(&got))
		if err != nil {
			var damage *durable.CorruptError
			if !errors.As(err, &damage) {
				t.Fatal(err)
			}
			return
		}
		if report.TornSize < 0 || report.TornSize > int64(len(data)) || len(got) != report.Entries {
			t.Fatalf("%+v", report)
		}
		l, report, err := openFolder(d, "log", Options{}, replayed(&again))
		if err != nil || report.TornSize != 0 || !sameEntries(got, again) {
			t.Fatalf("%+v, %v", report, err)
		}
		if _, err := l.Append(got); err != nil {
			t.Fatal(err)
		}
	})
}

// mendChecksums makes the checksums of the appends right.
func mendChecksums(data []byte) {
	for at := uint64(0); at+headerBytes <= uint64(len(data)); {
		src := data[at:]
		size := binary.LittleEndian.Uint64(src[24:])
		end := sector.Round(headerBytes + size)
		if size > uint64(len(src)) || end > uint64(len(src)) {
			return
		}
		binary.LittleEndian.PutUint32(src[40:], crc32c.Sum(src[headerBytes:end]))
		binary.LittleEndian.PutUint32(src[44:], crc32c.Sum(src[:44]))
		at += end
	}
}
