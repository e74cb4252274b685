package index

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// Where fields lie in the sections of a segment of one block, and of one row in its postings.
const (
	firstBlock  = blockDirectoryBytes
	acqZone     = firstBlock + int(record.Acq)*16
	rowsField   = firstBlock + record.NumDims*16 + 8 + 4
	flagField   = rowsField + 4
	firstSub    = flagField + 4
	firstList   = 4 + 4 + 8
	firstListed = firstList + 4 + 16 // behind size, cookie, count, key and offset
)

// TestParseRefuses bends one field after another.
func TestParseRefuses(t *testing.T) {
	b := new(record.Batch)
	for i := range 6 {
		b.AppendStamped(record.Key{MID: int64(i), CapNs: int64(i), AcqNs: int64(i + i/3*100)}, nil)
	}
	one := new(record.Batch)
	one.AppendStamped(record.Key{AcqNs: 1}, nil)
	var whole [2][3][]byte
	for i, rows := range []*record.Batch{b, one} {
		l := clusterRows(rows, Options{})
		s := Build(rows, l, []uint64{0}, []uint64{0}, []uint32{0})
		whole[i] = [3][]byte{s.AppendBlockDirectory(nil), s.AppendPostings(nil), s.AppendRanks(nil)}
	}
	f := func(section, at int, value uint32, want string) {
		t.Helper()
		of := whole[0]
		if section == 1 {
			of = whole[1]
		}
		of[section] = bytes.Clone(of[section])
		binary.LittleEndian.PutUint32(of[section][at:], value)
		_, err := Parse(of[0], of[1], of[2])
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("section %d, %d at %d: %v, want an error with %q", section, value, at, err,
				want)
		}
	}
	f(0, 0, 1, "parse directory: version 1")
	f(0, 4, 5, "ranks reach beyond 5 rows")
	f(0, 4, 7, "blocks hold 6 of 7 rows")
	f(0, 8, 0, "0 blocks in")
	f(0, 12, 2, "2 of 1 blocks are on time")
	f(0, firstBlock, 1, "block 0: cid ends before it starts")
	f(0, firstBlock+16+4, math.MaxInt32, "block 0: mid ends before it starts")
	f(0, acqZone+4, 1<<31, "ranks reach beyond 6 rows")
	f(0, acqZone+8, 6, "ranks reach beyond 6 rows")
	f(0, rowsField, 0, "sub-runs hold 6 of 0 rows")
	f(0, flagField, 7, "block 0: sub-runs hold")
	f(0, firstSub, 5, "block 0: sub-run 1 ends before it starts")
	f(0, firstSub+(subRuns-1)*subBytes, 7, "sub-runs hold 7 of 6 rows")
	f(1, 0, 2, "parse postings: version 2")
	f(1, 4, 0, "cid: 0 bins")
	f(1, firstList, 1<<30, "section ends inside a list")
	f(1, firstListed, 0x0000_0001, "list names block 1 of 1")
	f(2, 0, 1, "parse ranks: version 1")
	f(2, 4, 7, "table of 7 ranks, there are 6 rows")
}
