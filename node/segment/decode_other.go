//go:build !amd64

package segment

type vectors struct{ loads *PrefetchQueue }

func interleavesPrefetch() bool { return false }

func (c *column) vectors() vectors { return vectors{} }

func (v *vectors) rebase(base uint64) {}

func (c *column) writeVector(*vectors, int, int, *wordWriter) (done int) { return 0 }
