//go:build !amd64

package segment

func (c *column) gatherVector([]uint32, *wordWriter) bool { return false }
