package versions

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// ScanHead hands out the rows of a head that are shown of a partition, and returns how many a newer
// version hides. What emit gets is valid during the call.
//
// Errors: ctx.Err(), and those of emit.
func (r *Resolver) ScanHead(
	p *Partition, h *index.Head, keysOnly bool, emit func(b *record.Batch) error,
) (superseded uint64, err error) {
	take := func(b *record.Batch, _ []uint64) error {
		if err := r.Ctx.Err(); err != nil {
			return err
		}
		r.DropCovered(b)
		if !p.headsKnowSuperseded {
			superseded += r.DropSuperseded(p, b, 0)
		}
		if b.Len() == 0 {
			return nil
		}
		return emit(b)
	}
	if !p.headsKnowSuperseded {
		err = h.Scan(&p.Box, r.Horizon, keysOnly, take)
		return superseded, err
	}
	box := p.Box
	box[record.Acq] = nil
	leftOut, err := h.ScanLatest(&box, r.UpperAcqNs, keysOnly, take)
	return uint64(leftOut), err
}
