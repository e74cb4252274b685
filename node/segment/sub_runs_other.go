//go:build !amd64

package segment

func (c *deviceCursor) fillVector(_ []byte, number int, _ []int64) (done, last int) {
	return 0, number
}

func (b *Block) findFirsts(row, end, n, more int) (first, last int) {
	return b.skipTwice(row, end, n, more)
}
