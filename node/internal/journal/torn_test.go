package journal

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/sector"
)

// The last line of a file is cut, or lacks sectors: that is torn. One bit of it flips, or a line
// before it is changed: that is damage.
func TestTorn(t *testing.T) {
	var data []byte
	for len(data) < 3*sector.Size-9 {
		data = AppendLine(data, "a line before")
	}
	at := len(data)
	data = AppendLine(data, map[string]string{"@": strings.Repeat(" @ ", 300)})
	for cut := at + 1; cut < len(data); cut++ {
		if !torn(data[:cut], at) {
			t.Fatalf("a line that is cut at %d of %d bytes is not torn", cut-at, len(data)-at)
		}
	}
	for bit := 8 * at; bit < 8*len(data); bit++ {
		bent := bytes.Clone(data)
		bent[bit/8] ^= 1 << (bit % 8)
		if torn(bent, at) {
			t.Fatalf("a line of which bit %d is flipped is torn", bit-8*at)
		}
	}
	for range 100 {
		left := bytes.Clone(data)
		for from := at; from < len(left); from = (from/sector.Size + 1) * sector.Size {
			if rand.IntN(3) == 0 {
				clear(left[from:min(len(left), (from/sector.Size+1)*sector.Size)])
			}
		}
		if !slices.Equal(left, data) && !torn(left, at) {
			t.Fatal("a line that lacks sectors is not torn")
		}
	}
	if torn(data, len(data)) || torn(data, 3) {
		t.Error("the end of a file, or what is before other lines, is torn")
	}
}
