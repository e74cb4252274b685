package memory

import "testing"

func TestPart(t *testing.T) {
	for _, c := range []struct {
		total             Total
		parts, most, want int64
	}{
		{64<<20 + 1000, 4, 16 << 20, 8<<20 + 125}, {1 << 30, 4, 1 << 30, 240 << 20},
		{256 << 20, 4, 1 << 30, 48 << 20}, {1000, 4, 300, 125}, {1000, 4, 100, 100},
		{0, 4, 100, 100}, {3, 4, 100, 1},
	} {
		if got := c.total.Part(c.parts, c.most); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
