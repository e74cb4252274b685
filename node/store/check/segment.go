package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/sdk/record"
)

// checkedSegment is what a check of a segment learnt about it.
type checkedSegment struct {
	meta       manifest.Segment
	firstAcqNs int64
}

// segmentCheck is the check of one segment. What could not be read is nil, and not compared.
type segmentCheck struct {
	*Checker
	path       string
	file       *segment.File
	meta       *manifest.Segment
	idx        *index.Segment
	watermarks *index.Watermarks

	series  index.SeriesSet
	batch   record.Batch
	ranks   []uint64 // bitmap of those met
	rows    uint64
	unknown bool // a block could not be read: its rows are missing
}

// Segment checks a segment file as Directory does.
//
// Errors: those of the file system, ctx.Err(), *formats.Error.
func (c *Checker) Segment(path string, want *manifest.Segment) error {
	_, err := c.segment(path, want)
	return err
}

// segment checks a segment file: that it is what the manifest wants, if that is known, that all
// its blocks and chunks can be read, and that its index says what its blocks hold.
func (c *Checker) segment(path string, want *manifest.Segment) (*checkedSegment, error) {
	file, damage, err := segment.OpenDamaged(path)
	if err != nil {
		return nil, err
	}
	c.Report.Segments++
	for _, d := range damage {
		if err := c.Note(d); err != nil {
			return nil, err
		}
	}
	if file == nil {
		return nil, c.Read(0)
	}
	defer func() { _ = file.Close() }() // only read
	s := &segmentCheck{Checker: c, path: path, file: file,
		ranks: make([]uint64, (file.Rows()+63)/64)}
	if err := file.CatchPageFaults(func() error { return s.parse(want) }); err != nil {
		if err := c.Note(err); err != nil {
			return nil, err
		}
	}
	if err := s.blocks(); err != nil {
		return nil, err
	}
	if err := file.CatchPageFaults(func() error { s.compare(); return nil }); err != nil {
		if err := c.Note(err); err != nil {
			return nil, err
		}
	}
	if s.meta == nil || s.idx == nil {
		return nil, nil
	}
	return &checkedSegment{meta: *s.meta, firstAcqNs: s.idx.AcqOf(0)}, nil
}

// textOf is a description of a segment as its file and MANIFEST have it.
func textOf(meta *manifest.Segment) string {
	text, err := json.Marshal(meta)
	if err != nil {
		panic("BUG: describe segment: " + err.Error())
	}
	return string(text)
}

func (s *segmentCheck) damagedIndex(format string, args ...any) {
	s.Damaged(s.path, 0, "index: "+format, args...)
}

// parse reads the sections that were not found damaged.
//
// Errors: *formats.Error.
func (s *segmentCheck) parse(want *manifest.Segment) error {
	if text := s.file.Meta(); text != nil {
		s.meta = &manifest.Segment{}
		if err := json.Unmarshal(text, s.meta); err != nil {
			s.meta = nil
			s.Damaged(s.path, 0, "its description cannot be read: %v", err)
		}
	}
	if s.meta != nil && want != nil && *s.meta != *want {
		s.Damaged(s.path, 0, "it describes itself as %s; the manifest says %s",
			textOf(s.meta), textOf(want))
	}
	if s.meta != nil && int64(s.meta.Rows) != int64(s.file.Rows()) {
		s.Damaged(s.path, 0, "it has %d rows and describes %d", s.file.Rows(), s.meta.Rows)
	}
	directory := s.file.Section(layout.SectionDirectory)
	postings, ranks := s.file.Section(layout.SectionPostings), s.file.Section(layout.SectionRanks)
	if directory != nil && postings != nil && ranks != nil {
		var err error
		if s.idx, err = index.Parse(directory, postings, ranks); err != nil {
			if err := layout.BadSection(s.path, "index sections", err); formats.Is(err) {
				return err
			}
			s.damagedIndex("%v", err)
		}
	}
	if s.idx != nil && (s.idx.Rows() != s.file.Rows() || s.idx.Blocks() != s.file.Blocks()) {
		s.damagedIndex("%d rows in %d blocks; the file has %d in %d", s.idx.Rows(), s.idx.Blocks(),
			s.file.Rows(), s.file.Blocks())
		s.idx = nil
	}
	if text := s.file.Section(layout.SectionWatermarks); text != nil {
		var err error
		if s.watermarks, err = index.ParseWatermarks(text); err != nil {
			s.damagedIndex("%v", err)
		}
	}
	return nil
}

func (s *segmentCheck) blocks() error {
	var offsets []uint64
	var sizes []uint32
	if s.idx != nil {
		for i := range s.idx.Blocks() {
			offsets = append(offsets, s.idx.Block(uint32(i)).Offset)
			sizes = append(sizes, s.idx.Block(uint32(i)).Size)
		}
	}
	left := s.file.Size() // a damaged block may lie about its size
	err := s.file.CheckBlocks(offsets, sizes, func(
		i int, b *segment.Block, offset uint64, size uint32, damage *durable.CorruptError,
	) error {
		bytes := min(left, int64(size))
		left -= bytes
		if damage != nil {
			s.unknown = true
			if err := s.Note(damage); err != nil {
				return err
			}
			return s.Read(bytes)
		}
		s.Report.Blocks++
		if err := s.block(i, b); err != nil {
			s.Damaged(s.path, int64(offset), "block %d: %v", i, err)
		}
		return s.Read(bytes)
	})
	if err != nil {
		return err
	}
	return s.Read(left) // header, index and tail
}

// block compares what a whole block holds with the index.
func (s *segmentCheck) block(i int, b *segment.Block) error {
	s.batch.Reset()
	if err := b.GatherSpan(0, b.Rows(), true, &s.batch); err != nil {
		return err
	}
	s.rows += uint64(s.batch.Len())
	s.Report.Rows += int64(s.batch.Len())
	if s.idx != nil {
		if err := s.idx.CheckBlock(uint32(i), &s.batch, b.Describe().Flagged); err != nil {
			return err
		}
	}
	if s.watermarks != nil && !s.watermarks.Covers(&s.batch) {
		return fmt.Errorf("it holds caps above the watermarks of the segment")
	}
	s.series.AddRows(&s.batch)
	for _, rank := range s.batch.AcqNs {
		if uint64(rank) >= uint64(s.file.Rows()) {
			return fmt.Errorf("it holds rank %d of %d rows", rank, s.file.Rows())
		}
		if s.ranks[rank>>6]>>(rank&63)&1 != 0 {
			return fmt.Errorf("it holds rank %d, which another row has", rank)
		}
		s.ranks[rank>>6] |= 1 << (rank & 63)
	}
	return s.owner()
}

// owner checks that rows lie in the shard of their devices.
func (s *segmentCheck) owner() error {
	if s.meta == nil || s.Shards == 0 {
		return nil
	}
	for i := range s.batch.Len() {
		sh := layout.ShardOf(s.batch.CID[i], s.batch.MID[i], s.Shards)
		if s.meta.IsBackdated() {
			sh += s.Shards
		}
		if sh != int(s.meta.Shard) {
			return fmt.Errorf("it holds a row of shard %d in shard %d", sh, s.meta.Shard)
		}
	}
	return nil
}

// compare checks what only all blocks together tell.
func (s *segmentCheck) compare() {
	seen := 0
	for _, word := range s.ranks {
		seen += bits.OnesCount64(word)
	}
	if !s.unknown && (s.rows != uint64(s.file.Rows()) || seen != s.file.Rows()) {
		s.Damaged(s.path, 0, "its blocks hold %d rows of %d ranks; the tail says %d", s.rows, seen,
			s.file.Rows())
	}
	if s.idx == nil {
		return
	}
	table := s.file.Section(layout.SectionSeries)
	if table != nil && !s.unknown && !bytes.Equal(table, s.series.Table(s.file.Rows())) {
		s.damagedIndex("the series table is not that of the rows")
	}
	if err := s.idx.CheckPostings(); err != nil {
		s.damagedIndex("%v", err)
	}
	if s.meta != nil {
		if err := s.meta.CheckAcqs(s.idx); err != nil {
			s.damagedIndex("%v", err)
		}
	}
	last := s.idx.AcqOf(uint32(s.idx.Rows() - 1))
	if s.meta != nil && last != s.meta.LastAcqNs {
		s.damagedIndex("the last row has acq %d; the segment is described with %d", last,
			s.meta.LastAcqNs)
	}
}
