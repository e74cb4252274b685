package transfer

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// firstExport are the records of the files in testdata/exports: 100 readings of 5 devices, of which
// one has a second version and one a tombstone, and payloads that are no number.
func firstExport() []record.Record {
	var out []record.Record
	add := func(mid, cap int64, payload []byte) {
		out = append(out, record.Record{Key: record.Key{CID: 1, MID: mid, MOID: 2, CapNs: cap,
			AcqNs: 1_795_219_200_000_000_000 + int64(len(out))}, Payload: payload})
	}
	for i := range int64(100) {
		add(1+i%5, 1_767_225_600_000_000_001+i/5*900_000_000_000,
			binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(i)/4)))
	}
	add(1, 1_767_225_600_000_000_001, binary.LittleEndian.AppendUint64(nil,
		math.Float64bits(1000)))
	add(2, 1_767_225_600_000_000_001, nil)
	out[len(out)-1].Tomb = true
	add(math.MaxInt64-1, math.MinInt64, []byte{})
	add(math.MinInt64, math.MaxInt64-1, []byte("text, \"quoted\"\n"))
	return out
}

// What the first version wrote is read for ever. The files are never regenerated.
func TestOldExports(t *testing.T) {
	want := firstExport()
	for _, format := range exportFormats() {
		file, err := os.ReadFile(filepath.Join("testdata", "exports", "v1."+string(format)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := readBack(file)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %d records, want %d, %v", format, len(got), len(want), err)
		}
		for i := range want {
			if !sameRecord(got[i], want[i]) {
				t.Errorf("%s: record %d: %+v, want %+v", format, i, got[i], want[i])
			}
		}
	}
}
