package segment

import "unsafe"

// clockDecoding is how packed caps become values.
type clockDecoding struct{ base, period, gcd, mask, low uint64 }

//go:noescape
func addClock(values unsafe.Pointer, eights int, c *clockDecoding)

// decodeClock makes values of the packed ones that were written, and returns of how many.
func (c *column) decodeClock(values unsafe.Pointer, n int) (done int) {
	t, eights := filterTables(), n/8
	if t == nil || !t.sixteens || eights == 0 {
		return 0
	}
	by := clockDecoding{c.base, c.period, c.gcd, c.lowMask(), uint64(c.low)}
	addClock(values, eights, &by)
	return 8 * eights
}
