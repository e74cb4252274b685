package store

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/sdk/record"
)

// carryGrowth is how many times as many rows as a segment the one may have that takes over its
// blocks as they are: the square root of it is how many times as many blocks as need be a query of
// one device may open.
const carryGrowth = 5

// chooseCarried chooses the blocks that are taken over as they are encoded: those of segments that
// were sealed from full heads, or are as large. So a row is encoded again in each second merge. It
// returns how many rows they have.
func (m *merger) chooseCarried() (carriedRows uint32) {
	m.carried = make([][]uint32, len(m.run))
	m.isCarried = make([][]uint64, len(m.run))
	full := m.store.opt.SealRows
	for i, seg := range m.run {
		rows := seg.Index.Rows()
		if _, ok := m.ranks.Shift(i); !ok || rows < full/2 || rows > 2*full ||
			m.ranks.Rows() > carryGrowth*rows || seg.Meta.CarriedRows > 0 {
			continue
		}
		m.isCarried[i] = make([]uint64, (seg.Index.Blocks()+63)/64)
		for b := range uint32(seg.Index.OnTime()) {
			if seg.Index.IsCarriable(b, m.store.opt.Index) {
				m.carried[i] = append(m.carried[i], b)
				m.isCarried[i][b>>6] |= 1 << (b & 63)
				carriedRows += seg.Index.Block(b).Rows
			}
		}
	}
	return carriedRows
}

// carries reports whether a block of an input is taken over as it is.
func (m *merger) carries(i int, block uint32) bool {
	return m.isCarried != nil && m.isCarried[i] != nil &&
		m.isCarried[i][block>>6]>>(block&63)&1 != 0
}

// carry hands over the blocks that are taken over. They are verified.
func (m *merger) carry(add func(*segment.CarriedBlock) error) error {
	return segment.CatchPageFaults(func() error {
		for i := range m.carried {
			if err := m.carryOf(i, add); err != nil {
				return err
			}
		}
		return nil
	}, m.files)
}

func (m *merger) carryOf(i int, add func(*segment.CarriedBlock) error) error {
	if len(m.carried[i]) == 0 {
		return nil
	}
	seg := m.run[i]
	shift, _ := m.ranks.Shift(i)
	candidates := make([]index.Candidate, len(m.carried[i]))
	for k, b := range m.carried[i] {
		candidates[k].Block = b
	}
	m.store.readahead.Clock.Refresh()
	m.store.readahead.Prefetch(seg, candidates)
	for _, c := range candidates {
		if m.store.closed.Load() {
			return ErrClosed
		}
		info, err := m.reader.Open(&blocks.PlannedSegment{Segment: seg}, c)
		if err != nil {
			return err
		}
		if seg.Series == nil {
			if err := m.addSeriesOf(m.reader.Block); err != nil {
				return err
			}
		}
		m.builder.Carry(info, shift)
		if err := add(&segment.CarriedBlock{Block: m.reader.Block, RankShift: shift}); err != nil {
			return err
		}
	}
	if seg.Series == nil {
		return nil
	}
	// Of all its rows, so also of those that are clustered again.
	if err := seg.Series.Each(&record.Box{}, func(s index.SeriesCap) {
		m.series.Add(s.Series, s.MaxCapNs)
	}); err != nil {
		return corrupt(seg.File.Path(), 0, err.Error())
	}
	return nil
}

// addSeriesOf notes the series of a block.
func (m *merger) addSeriesOf(b *segment.Block) error {
	m.rows.Reset()
	if err := b.GatherSpan(0, b.Rows(), true, &m.rows); err != nil {
		return err
	}
	m.series.AddRows(&m.rows)
	return nil
}
