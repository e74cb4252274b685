package segment

import (
	"encoding/binary"
	"slices"
	"syscall"
	"testing"
)

// TestReadNoFurther: what filters and decodes columns of all widths, which end where memory does,
// reads loadBytes beyond their values at most, and finds what the filter of single rows finds.
func TestReadNoFurther(t *testing.T) {
	rng := randomSource(t)
	end, page := 1<<16, syscall.Getpagesize()
	mem, err := syscall.Mmap(-1, 0, end+page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(mem) }()
	if err := syscall.Mprotect(mem[end:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	for i := range end {
		mem[i] = byte(rng.Uint32())
	}
	for width := 1; width <= maxPackedWidth; width++ {
		for tail := loadBytes; tail <= loadBytes+40; tail++ {
			for _, rows := range []int{1, 3, 7, 8, 9, 15, 16, 17, 31, 64, 100, 4096, maxBlockRows} {
				c := column{forCoding: forCoding{gcd: 1, width: uint8(width)},
					body: mem[end-(rows*width+7)/8-tail : end : end]}
				c.maxPacked = c.mask()
				lo := rng.IntN(rows)
				m := match{low: rng.Uint64() & c.maxPacked}
				m.span = rng.Uint64() & (c.maxPacked - m.low)
				words := make([]byte, 8*(rows-lo))
				w := newWordWriter(words, rows-lo, 8)
				v := c.vectors()
				c.writeRun(&v, lo, rows, &w)
				for i := range rows - lo {
					got := binary.LittleEndian.Uint64(words[8*i:])
					if want := c.value(lo + i); got != want {
						t.Fatalf("width %d, row %d of %d from %d, %d bytes behind: decoded to %x, "+
							"want %x", width, lo+i, rows, lo, tail, got, want)
					}
				}
				got, want := make([]uint32, rows-lo), make([]uint32, rows-lo)
				got = got[:c.filterSpan(m, lo, got)]
				want = want[:c.filterRows(m, lo, rows-lo, want)]
				if !slices.Equal(got, want) {
					t.Fatalf("width %d, rows [%d, %d), %d bytes behind: got %d rows, want %d",
						width, lo, rows, tail, len(got), len(want))
				}
			}
		}
	}
}
