package tstorage

import (
	"github.com/pentad-db/pentad/sdk/record"
)

// sortLater keeps a unit of a PUTA that is too large to be gathered, and whose records must be
// stored in the order of acq, until all of it has come.
func (m *committer) sortLater(u unit) error {
	if m.sorter == nil {
		m.sorter = m.server.opt.Database.ByAcq()
	}
	for _, b := range u.pieces {
		for _, acq := range b.AcqNs {
			if err := checkAcq(acq); err != nil {
				return err
			}
		}
		if err := m.sorter.Add(m.server.running, b); err != nil {
			return err
		}
	}
	return nil
}

// storeSorted stores what was kept, in the order of acq, piece by piece.
func (m *committer) storeSorted() error {
	var some record.Batch
	store := func() error {
		defer some.Reset()
		return m.restorePieces(&some)
	}
	err := m.sorter.Each(m.server.running, func(b *record.Batch) error {
		some.AppendRows(b, 0, b.Len())
		if some.Len() < pieceRows && len(some.Data) < pieceBytes {
			return nil
		}
		return store()
	})
	if err == nil && some.Len() > 0 {
		err = store()
	}
	return err
}

// endSorted ends the sorter, after what it has was stored if that is to be kept.
func (m *committer) endSorted(keep bool) {
	if m.sorter == nil {
		return
	}
	defer m.sorter.Close()
	if !keep || m.failed() != nil {
		return
	}
	if err := m.storeSorted(); err != nil {
		m.fault.Store(&err)
	}
}
