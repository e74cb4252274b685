package wasmhost

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// TestResultLies: results that differ in size say how long they are, and must not be believed.
func TestResultLies(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(name, want string, c code) {
		t.Helper()
		fails(t, h, name, Output, want, func(a *asm) {
			a.data[descAt] = descriptor(func(field func(int, uint32)) { field(24, 0) })
			a.replace(exportFinish, "", c)
		})
	}
	first := func(size int32) code { return store(0, get(2), i32c(size)) }
	f("a result of 4 GiB", "result 0 says it has 4294967295 bytes, 8 are left",
		cat(first(-1), i32c(12)))
	f("a result that would overflow", "result 0 says it has 4294967293 bytes, 0 are left",
		cat(first(-3), i32c(4)))
	f("fewer results", "wrote 1 of 3 results", cat(first(0), i32c(4)))
	f("no results", "wrote 0 of 3 results", i32c(0))
	f("more results", "4 bytes are left over after 3 results", cat(first(0), i32c(16)))
}

// FuzzAppendResults: what a module wrote is taken apart as one that believes nothing does it, and
// takes no more memory than was written.
func FuzzAppendResults(f *testing.F) {
	f.Add([]byte("\x05\x00\x00\x00hello\x00\x00\x00\x00\x00\x00\x00"), uint8(2), uint8(0))
	f.Add([]byte("\xff\xff\xff\xffhello"), uint8(1), uint8(0))
	f.Add([]byte("eight by"), uint8(2), uint8(4))
	f.Fuzz(func(t *testing.T, written []byte, n, fixed uint8) {
		all, ends, err := appendResults(nil, nil, written, int(n), int(fixed))
		if err != nil {
			return
		}
		if len(all) > len(written) || len(ends) != int(n) {
			t.Fatalf("%d results of %d bytes from %d", len(ends), len(all), len(written))
		}
		var again []byte
		from := 0
		for _, end := range ends {
			if fixed == 0 {
				again = binary.LittleEndian.AppendUint32(again, uint32(end-from))
			}
			again = append(again, all[from:end]...)
			if fixed == 0 {
				padding := written[len(again):min(len(written), (len(again)+3)&^3)]
				again = append(again, padding...)
			}
			from = end
		}
		if !bytes.Equal(again, written) {
			t.Errorf("%x comes apart as %x with ends %v", written, all, ends)
		}
	})
}
