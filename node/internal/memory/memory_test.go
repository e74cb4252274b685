package memory

import "testing"

func TestPart(t *testing.T) {
	for _, c := range []struct {
		total             Total
		parts, most, want int64
	}{
		{128 << 20, 4, 1 << 30, 16 << 20}, {1 << 30, 4, 1 << 30, 232 << 20},
		{256 << 20, 4, 1 << 30, 40 << 20}, {1000, 4, 300, 125}, {1000, 4, 100, 100},
		{0, 4, 100, 100}, {3, 4, 100, 1},
	} {
		if got := c.total.Part(c.parts, c.most); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
