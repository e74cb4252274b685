package segment

import (
	"math"
	"testing"
)

// What the inverses lack is what the remainders of divisions say.
func TestInversesOf10(t *testing.T) {
	for i, by := range inversesOf10 {
		power := powersOf10[i]
		nearest := 1 / power
		lack := math.FMA(-nearest, power, 1) / power
		if by.nearest != nearest || by.lack != lack {
			t.Errorf("1 / %v is %v, %v; want %v, %v", power, by.nearest, by.lack, nearest, lack)
		}
	}
}
