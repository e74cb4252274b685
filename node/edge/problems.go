package edge

import (
	"fmt"

	"github.com/pentad-db/pentad/node/internal/health"
)

// Problems implements node.Outbox.
func (x *shipper) Problems() []health.Problem {
	e := (*Edge)(x)
	if !e.meter.isCounted() {
		return nil // it is starting
	}
	var all []health.Problem
	if err := e.outbox.failure(); err != nil {
		all = append(all, health.Problem{Code: "outbox_failed", Message: err.Error(),
			NotReady: true, Restart: true, Advice: "nothing is shipped or taken; find out from " +
				"the kernel's log what is wrong with the disk, then start the process again"})
	}
	if s := e.outbox.now(); s.Lack != nil && (s.NextNs < s.SentNs ||
		s.Lack.Gone > 0 && e.lacked.Load()) {
		addr, _ := e.up.pick()
		all = append(all, health.Problem{Code: "upstream_lost", Subject: addr,
			Message: s.Lack.String(), Advice: "find out why; if the newer directory of that " +
				"node is there yet, put it back: the edge goes on from what it has. What is " +
				"lost here, too, is in a backup or a copy of that node, if anywhere. Start the " +
				"edge again to end this"})
	}
	s := e.Shipping()
	if s.Error != "" {
		all = append(all, health.Problem{Code: "shipping_failed", Subject: s.Upstream,
			Message: fmt.Sprintf("upstream has taken nothing since %s: %s", orNever(s.AckedNs),
				s.Error),
			Advice: "records wait here and are shipped when upstream is there; check the network " +
				"and that node"})
	}
	if refused := min(e.refused.Load(), s.Quota); refused > 0 && s.WaitingBytes+refused > s.Quota {
		all = append(all, health.Problem{Code: "outbox_full", NotReady: true,
			Message: fmt.Sprintf("%d bytes of records wait to be shipped, the quota is %d: puts "+
				"are refused", s.WaitingBytes, s.Quota),
			Advice: "make upstream reachable, or raise --edge-quota"})
	}
	return all
}
