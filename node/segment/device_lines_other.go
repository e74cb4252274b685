//go:build !amd64

package segment

func (c *column) addLines(values []int64, row int) (done int) { return 0 }

func (c *column) decodeLinesAt(values []int64, sel []uint32) (done int) { return 0 }
