package node

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	// atRestFirst is the longest wait before the first search, so that nodes that are started
	// together do not read together, and atRestLeast the shortest between two.
	atRestFirst = time.Minute
	atRestLeast = 10 * time.Millisecond
)

// searchAtRest scrubs files that are not of a store: modules, and in a cluster the log files of its
// groups that are not written to any more. A pass takes as long as that of a store, which scrubs
// its own files. After a start it begins at the first file; opening has verified all of them.
func (n *Node) searchAtRest() {
	scrub := n.opt.Store.Scrub
	if scrub.Every() <= 0 {
		return
	}
	next := rand.N(min(scrub.Every()/100, atRestFirst) + 1)
	for {
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-n.open.Done():
			timer.Stop()
			return
		}
		began := time.Now()
		n.verifyAtRest()
		next = max(scrub.Every()-time.Since(began), atRestLeast)
	}
}

func (n *Node) verifyAtRest() {
	pace := n.opt.Store.Scrub.Wait
	mended, err := n.plugins.Verify(n.open, func(bytes int64) error {
		return pace(n.open, bytes, math.MaxInt64)
	})
	if m := n.member.Load(); m != nil && err == nil {
		var more []string
		more, err = m.Verify(n.open, pace)
		mended = append(mended, more...)
	}
	for _, text := range mended {
		n.log.Warn("a damaged module was fetched again from another node", "err", text)
	}
	if err != nil && n.open.Err() == nil {
		n.log.Warn("search for damage", "err", err)
	}
}
