// Package dump hands out what the files of a store hold, one line at a time.
//
// It owns the lines. It changes nothing, and knows nothing of which files are live. Its function is
// [File], which starts no goroutine.
package dump

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// Options say how much is dumped.
type Options struct {
	Blocks bool // the blocks of a segment; the entries of a log file
	Rows   bool // and nothing else
}

// FileLine describes a file; it comes first.
type FileLine struct {
	File    string          `json:"file"`
	Kind    string          `json:"kind"`
	Bytes   int64           `json:"bytes"`
	Rows    int             `json:"rows,omitempty"`
	Blocks  int             `json:"blocks,omitempty"`
	Meta    json.RawMessage `json:"meta,omitempty"` // of a segment: what it says of itself
	Damages []api.Damage    `json:"damages,omitempty"`
}

// Section is a section of a segment.
type Section struct {
	Section string `json:"section"`
	Bytes   int    `json:"bytes"`
}

// Block is a block of a segment.
type Block struct {
	Block  int    `json:"block"`
	Offset uint64 `json:"offset"`
	Bytes  uint32 `json:"bytes"`
	segment.BlockDescription
}

// LogAppend is an append of a log file, or what is wrong where one should be.
type LogAppend struct {
	Seq     uint64  `json:"flush,omitempty"`
	Offset  int64   `json:"offset"`
	Bytes   int64   `json:"bytes,omitempty"`
	Entries int     `json:"entries,omitempty"`
	Damage  string  `json:"damage,omitempty"`
	Entry   []Entry `json:"entry,omitempty"`
}

// Entry is an entry of an append.
type Entry struct {
	Shard uint32 `json:"shard"`
	// Index is the LSN of rows; of "applied" that of a command, and of "lines" their number.
	Index   uint64 `json:"index,omitempty"`
	Kind    string `json:"kind"`
	Bytes   int    `json:"bytes"`
	Rows    int    `json:"rows,omitempty"`
	FirstNs int64  `json:"first_acq_ns,omitempty"`
	Writer  string `json:"writer,omitempty"`
	Seq     uint64 `json:"sequence,omitempty"`
	// Persistent is of the writer.
	Persistent bool `json:"persistent,omitempty"`
}

// Edit is a line of a manifest.
type Edit struct {
	Offset int64           `json:"offset"`
	Edit   json.RawMessage `json:"edit,omitempty"`
	Damage string          `json:"damage,omitempty"`
}

// Writer is a writer whose results are remembered.
type Writer struct {
	Writer     string `json:"writer"`
	Persistent bool   `json:"persistent,omitempty"`
	High       uint64 `json:"high"`
	Answers    int    `json:"answers"`
	LastAcqNs  int64  `json:"last_acq_ns"`
}

// Row is a row of a segment or of a log file.
type Row struct {
	CID     int32  `json:"cid"`
	MID     int64  `json:"mid"`
	MOID    int32  `json:"moid"`
	CapNs   int64  `json:"cap_ns"`
	AcqNs   int64  `json:"acq_ns"`
	Payload []byte `json:"payload"`
	Deleted bool   `json:"deleted,omitempty"` // a tombstone
}

// spanBytes bounds the payloads that are read at once.
const spanBytes = 8 << 20

// dumper hands out lines. What cannot be read is a line of its own and the first such an error at
// the end.
type dumper struct {
	opt    Options
	line   func(any) error
	damage error
}

func (d *dumper) damaged(err error) string {
	if d.damage == nil {
		d.damage = err
	}
	return err.Error()
}

// File hands out what a file of a store holds, one of the types of this package at a time.
//
// Errors: check.ErrUnknownFile; after all lines, the first damage as a *durable.CorruptError; what
// line returns.
func File(path string, opt Options, line func(any) error) error {
	kind, err := check.KindOf(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	d := &dumper{opt: opt, line: line}
	first := FileLine{File: path, Kind: string(kind), Bytes: info.Size()}
	switch kind {
	case check.KindSegment:
		err = d.segment(path, first)
	case check.KindLog:
		err = d.log(path, first)
	case check.KindManifest:
		err = d.manifest(path, first)
	default:
		err = d.writers(path, first)
	}
	if err == nil {
		err = d.damage
	}
	return err
}

func (d *dumper) segment(path string, first FileLine) error {
	file, damage, err := segment.OpenDamaged(path)
	if err != nil {
		return err
	}
	for _, one := range damage {
		d.damaged(one)
		first.Damages = append(first.Damages,
			api.Damage{File: path, Offset: one.Offset, Reason: one.Reason})
	}
	if file == nil {
		return d.line(first)
	}
	defer func() { _ = file.Close() }() // only read
	first.Rows, first.Blocks = file.Rows(), file.Blocks()
	if json.Valid(file.Meta()) {
		first.Meta = slices.Clone(file.Meta())
	}
	if d.opt.Rows {
		return d.rows(file)
	}
	if err := d.line(first); err != nil {
		return err
	}
	for _, s := range file.Sections() {
		if err := d.line(Section{sectionName(s.ID), len(s.Data)}); err != nil {
			return err
		}
	}
	if !d.opt.Blocks {
		return nil
	}
	return file.CheckBlocks(nil, nil, func(
		i int, b *segment.Block, offset uint64, size uint32, damage *durable.CorruptError,
	) error {
		if damage != nil {
			return d.line(LogAppend{Offset: int64(offset), Damage: d.damaged(damage)})
		}
		return d.line(Block{i, offset, size, b.Describe()})
	})
}

// rows hands out the rows of a segment in the order of the file.
func (d *dumper) rows(file *segment.File) error {
	idx, err := index.Parse(file.Section(layout.SectionDirectory),
		file.Section(layout.SectionPostings), file.Section(layout.SectionRanks))
	if err != nil {
		return layout.BadSection(file.Path(), "index sections", err)
	}
	var batch record.Batch
	return file.CheckBlocks(nil, nil, func(
		_ int, b *segment.Block, _ uint64, _ uint32, damage *durable.CorruptError,
	) error {
		if damage != nil {
			d.damaged(damage)
			return nil
		}
		for lo := 0; lo < b.Rows(); {
			hi := b.FitSpan(lo, b.Rows(), spanBytes)
			batch.Reset()
			if err := b.GatherSpan(lo, hi, false, &batch); err != nil {
				return err
			}
			for _, rank := range batch.AcqNs {
				if uint64(rank) >= uint64(idx.Rows()) {
					return &durable.CorruptError{File: file.Path(), Reason: fmt.Sprintf(
						"a block holds rank %d of %d rows", rank, idx.Rows())}
				}
			}
			idx.ReplaceByAcqs(batch.AcqNs)
			if err := d.batch(&batch); err != nil {
				return err
			}
			lo = hi
		}
		return nil
	})
}

func (d *dumper) batch(b *record.Batch) error {
	for i := range b.Len() {
		k := b.Key(i)
		row := Row{k.CID, k.MID, k.MOID, k.CapNs, k.AcqNs, b.Payload(i), b.Tomb(i)}
		if err := d.line(row); err != nil {
			return err
		}
	}
	return nil
}

func sectionName(id uint32) string {
	switch id {
	case 0:
		return "meta"
	case layout.SectionDirectory:
		return "directory"
	case layout.SectionPostings:
		return "postings"
	case layout.SectionRanks:
		return "ranks"
	case layout.SectionWatermarks:
		return "watermarks"
	case layout.SectionSeries:
		return "series"
	}
	return fmt.Sprintf("unknown %d", id)
}

func (d *dumper) log(path string, first FileLine) error {
	if !d.opt.Rows {
		if err := d.line(first); err != nil {
			return err
		}
	}
	var batch record.Batch
	tail, torn, err := wal.ReadFile(path, -1, func(
		f *wal.Append, damage *durable.CorruptError,
	) error {
		if damage != nil {
			return d.line(LogAppend{Offset: damage.Offset, Damage: d.damaged(damage)})
		}
		out := LogAppend{Seq: f.Number, Offset: f.Offset, Bytes: f.Bytes,
			Entries: len(f.Entries)}
		for i := range f.Entries {
			out.Entry = append(out.Entry, d.entry(&f.Entries[i], &batch))
			if d.opt.Rows && f.Entries[i].Kind == layout.EntryRows {
				if err := d.batch(&batch); err != nil {
					return err
				}
			}
		}
		if d.opt.Rows {
			return nil
		}
		if !d.opt.Blocks {
			out.Entry = nil
		}
		return d.line(out)
	})
	if err != nil || tail == nil {
		return err
	}
	out := LogAppend{Offset: tail.Offset, Damage: tail.Error()}
	if torn {
		out.Damage = "torn: " + tail.Reason
	} else {
		d.damaged(tail)
	}
	return d.line(out)
}

// entry describes an entry, and leaves its rows in batch.
func (d *dumper) entry(e *wal.Entry, batch *record.Batch) Entry {
	out := Entry{Shard: e.Shard, Index: e.LSN, Bytes: len(e.Data)}
	batch.Reset()
	var err error
	switch e.Kind {
	case layout.EntryRows:
		out.Kind = "rows"
		var h segment.RowsHeader
		if err = segment.ParseRowsEntry(e.Data, &h, batch); err == nil {
			out.Rows, out.FirstNs, out.Seq = batch.Len(), h.FirstAcqNs, h.Seq
			out.Writer, out.Persistent = fmt.Sprintf("%x", h.Writer), h.Persistent
		} else {
			batch.Reset()
		}
	case layout.EntryNextAcq:
		out.Kind = "clock"
		out.FirstNs, _, err = layout.ParseNextAcqEntry(e.Data)
	case layout.EntryApplied:
		out.Kind = "applied"
		out.Index, out.FirstNs, err = layout.ParseAppliedEntry(e.Data)
	case layout.EntryManifestLines:
		out.Kind = "lines"
		out.Index, err = layout.ParseManifestLinesEntry(e.Data)
	default:
		out.Kind = fmt.Sprintf("unknown %d", e.Kind)
	}
	if err != nil {
		out.Kind += ", damaged: " + d.damaged(err)
	}
	return out
}

func (d *dumper) manifest(path string, first FileLine) error {
	data, err := os.ReadFile(path)
	if err == nil {
		err = d.line(first)
	}
	if err != nil {
		return err
	}
	offset := int64(0)
	for text := range bytes.Lines(data) {
		out := Edit{Offset: offset}
		offset += int64(len(text))
		line := bytes.TrimSuffix(text, []byte("\n"))
		if _, err := manifest.ParseEdit(line); err != nil {
			out.Damage = d.damaged(&durable.CorruptError{File: path, Offset: out.Offset,
				Reason: err.Error()})
		} else {
			out.Edit = line[9:]
		}
		if err := d.line(out); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) writers(path string, first FileLine) error {
	buf, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var all []Writer
	err = writers.Parse(buf, func(w *writers.Writer) {
		all = append(all, Writer{fmt.Sprintf("%x", w.ID), w.Persistent, w.High, len(w.Results),
			w.LastAcqNs})
	})
	if err != nil {
		d.damaged(&durable.CorruptError{File: path, Reason: err.Error()})
		first.Damages, all = []api.Damage{{File: path, Reason: err.Error()}}, nil
	}
	if err := d.line(first); err != nil {
		return err
	}
	for _, w := range all {
		if err := d.line(w); err != nil {
			return err
		}
	}
	return nil
}
