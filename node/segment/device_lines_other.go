//go:build !amd64

package segment

func (c *column) addLines(values []int64, row int) (done int) { return 0 }
