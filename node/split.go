package node

import (
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/record"
)

// splitByGroup copies the rows of a batch into one part for each group of slots that has any; the
// parts of the others are nil. Rows keep their order within a part, so versions of one reading do.
//
// Groups acknowledge their parts one by one: a batch is whole or not there only within a group.
func splitByGroup(b *record.Batch, groups int) []*record.Batch {
	parts := make([]*record.Batch, groups)
	group := 0
	for from, to := 0, 0; from < b.Len(); from = to {
		for to = from; to < b.Len(); to++ {
			g := group
			if to == 0 || b.CID[to] != b.CID[to-1] || b.MID[to]>>6 != b.MID[to-1]>>6 {
				g = slots.Part(slots.Of(b.CID[to], b.MID[to]), groups)
			}
			if to > from && g != group {
				break
			}
			group = g
		}
		if parts[group] == nil {
			parts[group] = new(record.Batch)
		}
		parts[group].AppendRows(b, from, to)
	}
	return parts
}
