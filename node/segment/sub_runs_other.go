//go:build !amd64

package segment

func (t *subRunTable) findOnes(bit, end, n, more int) (first, last int) {
	return t.skipOnes(bit, end, n, more)
}

func (t *subRunTable) expandBits(e *expansion, out []int64) { t.expandByRow(e, out) }

func (t *subRunTable) numberBits(e *expansion, out []uint32, rows int) {
	t.numberByRow(e, out, rows)
}
