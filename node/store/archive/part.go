package archive

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/journal"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/sdk/crc32c"
)

const (
	// partFile makes a directory a part of a backup; it is written last. It holds one line
	// "crc32c json", as those of MANIFEST.
	partFile   = "PART"
	partPrefix = "part-"
	// partFormat of a part. 1: first; 2: 256 devices share a slot; 3: as format 4 of a store.
	partFormat = 3
)

// file is one of a part.
type file struct {
	Name       string `json:"name"`
	Bytes      int64  `json:"bytes"`
	CRC32C     uint32 `json:"crc32c"`
	Shard      uint32 `json:"shard"`
	Rows       uint32 `json:"rows,omitempty"` // 0: the writers
	FirstAcqNs int64  `json:"first_acq_ns,omitempty"`
	LastAcqNs  int64  `json:"last_acq_ns,omitempty"`
}

// exported is the segment that the file is.
func (f *file) exported() store.Exported {
	return store.Exported{Name: f.Name, Shard: f.Shard, Rows: f.Rows, FirstAcqNs: f.FirstAcqNs,
		LastAcqNs: f.LastAcqNs}
}

// Part is what one run of a backup wrote: the rows with FromAcqNs <= acq < UntilAcqNs.
type Part struct {
	Format     int    `json:"format"`
	Store      string `json:"store"` // of which it is
	Shards     int    `json:"shards"`
	FromAcqNs  int64  `json:"from_acq_ns"`
	UntilAcqNs int64  `json:"until_acq_ns"`
	Rows       int64  `json:"rows"`
	Bytes      int64  `json:"bytes"`
	CreatedNs  int64  `json:"created_ns"`

	Files   []file        `json:"files"` // of each shard in acq order
	Writers file          `json:"writers"`
	State   manifest.Edit `json:"state"` // what the manifest said besides segments
	// Aside says, by shard, up to which LSN the part has all rows that were put below the
	// horizon, wherever their acqs lie. Without, none were since the part before that has it.
	Aside  []uint64 `json:"aside,omitempty"`
	Beside []file   `json:"beside,omitempty"`

	dir string
}

// partName sorts parts by their ends. Ends of stores whose clock starts before 1970 do not.
func partName(untilNs int64) string { return fmt.Sprintf("%s%020d", partPrefix, untilNs) }

// appendPart appends the line of a part.
func appendPart(dst []byte, p *Part) []byte { return journal.AppendLine(dst, p) }

// parsePart reads what appendPart wrote.
func parsePart(text []byte) (*Part, error) {
	body, ended := bytes.CutSuffix(text, []byte("\n"))
	if !ended {
		return nil, errors.New("the line does not end")
	}
	p := &Part{}
	if err := journal.ParseLine(body, p); err != nil {
		return nil, err
	}
	if e := formats.Of("", "", uint64(p.Format), partFormat); e != nil {
		return nil, e
	}
	if p.Format != partFormat {
		return nil, fmt.Errorf("format %d; this version reads format %d", p.Format, partFormat)
	}
	return p, p.check()
}

// all lists the files of a part but the one that describes it.
func (p *Part) all() []file {
	return slices.Concat(p.Files, []file{p.Writers}, p.Beside)
}

func (p *Part) check() error {
	if p.Shards < 1 || p.Shards > layout.MaxShards || p.FromAcqNs >= p.UntilAcqNs {
		return fmt.Errorf("it names %d shards, and acqs from %d to %d", p.Shards,
			p.FromAcqNs, p.UntilAcqNs)
	}
	last := make([]int64, p.Shards)
	for i := range last {
		last[i] = math.MinInt64
	}
	rows := int64(0)
	for _, f := range p.all() {
		if f.Name == "" || f.Name != filepath.Base(f.Name) || f.Bytes < 0 {
			return fmt.Errorf("it names a file %q of %d bytes", f.Name, f.Bytes)
		}
	}
	for _, f := range p.Beside {
		if !isExtraName(f.Name) {
			return fmt.Errorf("it names %s as a file beside the store, which it is not",
				f.Name)
		}
	}
	for _, f := range p.Files {
		aside := p.isBackdated(&f)
		if int64(f.Shard) >= 2*int64(p.Shards) || f.Rows == 0 || f.LastAcqNs < f.FirstAcqNs ||
			aside && p.Aside == nil ||
			!aside && (f.FirstAcqNs < p.FromAcqNs || f.LastAcqNs >= p.UntilAcqNs) {
			return fmt.Errorf("it names the file %s with %d rows of shard %d with acqs %d to %d, "+
				"which cannot be", f.Name, f.Rows, f.Shard, f.FirstAcqNs, f.LastAcqNs)
		}
		rows += int64(f.Rows)
		if aside {
			continue
		}
		if f.FirstAcqNs <= last[f.Shard] {
			return fmt.Errorf("its file %s starts at acq %d; the one before ends "+
				"at %d", f.Name, f.FirstAcqNs, last[f.Shard])
		}
		last[f.Shard] = f.LastAcqNs
	}
	if rows != p.Rows {
		return fmt.Errorf("its files have %d rows; it names %d", rows, p.Rows)
	}
	return nil
}

// Parts lists the parts of a backup, oldest first, and checks that each continues the one
// before.
//
// Errors: *durable.CorruptError for a part that cannot be read; gaps, overlaps and parts of
// different stores.
func Parts(dir string) ([]*Part, error) {
	parts, err := readParts(dir)
	if err != nil {
		return nil, err
	}
	for i := 1; i < len(parts); i++ {
		if err := parts[i].follows(parts[i-1]); err != nil {
			return nil, fmt.Errorf("backup %s: %w", dir, err)
		}
	}
	return parts, nil
}

// readParts lists the parts of a backup, oldest first, whether they fit together or not.
func readParts(dir string) ([]*Part, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list backup: %w", err)
	}
	var parts []*Part
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), partPrefix) || strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		name := filepath.Join(dir, e.Name(), partFile)
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read part of backup: %w", err)
		}
		p, err := parsePart(text)
		if formats.Is(err) {
			return nil, formats.In(name, err)
		}
		if err != nil {
			return nil, &durable.CorruptError{File: name, Offset: durable.WholeFile,
				Reason: err.Error()}
		}
		if e.Name() != partName(p.UntilAcqNs) {
			return nil, &durable.CorruptError{File: name, Offset: durable.WholeFile,
				Reason: "it is the part " + partName(p.UntilAcqNs)}
		}
		p.dir = filepath.Dir(name)
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b *Part) int {
		return cmp.Compare(a.UntilAcqNs, b.UntilAcqNs)
	})
	return parts, nil
}

// ErrGap means that parts of a backup do not fit together.
var ErrGap = errors.New("the parts of the backup do not fit together")

// starts says when a part that is the first is not the beginning of a backup.
func (p *Part) starts() error {
	if p.FromAcqNs == math.MinInt64 {
		return nil
	}
	return fmt.Errorf("%w: the first part, %s, starts at acq %d; the parts before are missing",
		ErrGap, filepath.Base(p.dir), p.FromAcqNs)
}

// follows says when a part does not continue the one before.
func (p *Part) follows(before *Part) error {
	a, b := filepath.Base(before.dir), filepath.Base(p.dir)
	switch {
	case p.Shards != before.Shards || before.timeline() == 0 && p.Store != before.Store:
		return fmt.Errorf("%w: %s and %s are of different stores", ErrGap, a, b)
	case p.FromAcqNs > before.UntilAcqNs:
		return fmt.Errorf("%w: a part between %s and %s is missing: acqs from %d to %d",
			ErrGap, a, b, before.UntilAcqNs, p.FromAcqNs)
	case p.FromAcqNs < before.UntilAcqNs:
		return fmt.Errorf("%w: %s and %s overlap: acqs from %d to %d are in both", ErrGap, a,
			b, p.FromAcqNs, before.UntilAcqNs)
	}
	lack := p.State.Lineage.Lacks(before.timeline(), before.UntilAcqNs)
	if lack == nil {
		return nil
	}
	lack.FromNs, lack.Known = p.State.Lineage.Fork(before.State.Lineage)
	if !lack.Known && p.Store != before.Store {
		return fmt.Errorf("%w: %s and %s are of different stores", ErrGap, a, b)
	}
	return fmt.Errorf("%w: %s does not continue %s: %w", ErrGap, b, a, lack)
}

// timeline returns the one that the newest acqs of a part are of, 0 of a store without.
func (p *Part) timeline() uint64 { return p.State.Lineage.At(p.UntilAcqNs) }

// verify reads every file of a part and compares it with its checksum.
func (p *Part) verify(c *check.Checker) error {
	for _, f := range p.all() {
		sum, size, err := checksumFile(filepath.Join(p.dir, f.Name), c.Read)
		if err == nil && size == f.Bytes && sum != f.CRC32C {
			c.Damaged(filepath.Join(p.dir, f.Name), durable.WholeFile, "its checksum differs: its "+
				"%d bytes have %08x, what was written has %08x", size, sum, f.CRC32C)
		} else if err = p.checkSize(c, &f, size, err); err != nil {
			return err
		}
	}
	return nil
}

// verifySizes looks whether every file of a part is there and as long as what was written.
func (p *Part) verifySizes(c *check.Checker) error {
	for _, f := range p.all() {
		size := int64(0)
		info, err := os.Stat(filepath.Join(p.dir, f.Name))
		if err == nil {
			size = info.Size()
		}
		if err := p.checkSize(c, &f, size, err); err != nil {
			return err
		}
	}
	return nil
}

// checkSize notes that a file is missing, or is not as long as what was written.
func (p *Part) checkSize(c *check.Checker, f *file, size int64, err error) error {
	path := filepath.Join(p.dir, f.Name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		c.Damaged(path, durable.WholeFile, "the file is missing; %s names it", partFile)
	case err != nil:
		return err
	case size != f.Bytes:
		c.Damaged(path, durable.WholeFile, "it has %d bytes; %d were written", size, f.Bytes)
	}
	return nil
}

// ErrPartDamaged means that a part of a backup, which another one is to continue, is damaged.
var ErrPartDamaged = errors.New("what is in the backup already is damaged, and nothing was " +
	"added; put a copy of that part back, or begin a new backup in an empty directory")

// verifyEarlier checks the parts that a new one is to continue: that all their files are there and
// as long as what was written, and the checksums of the newest one. So each part is read once more,
// by the backup that comes after it; Check reads all.
//
// Cost: a look at the size of each file, and reading the newest part.
// Errors: ErrPartDamaged with a *durable.CorruptError.
func verifyEarlier(c *check.Checker, parts []*Part) error {
	for i, p := range parts {
		verify := p.verifySizes
		if i == len(parts)-1 {
			verify = p.verify
		}
		if err := verify(c); err != nil {
			return err
		}
	}
	if c.Report.Damages == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrPartDamaged, firstDamage(c))
}

// firstDamage returns what a check that found some found first.
func firstDamage(c *check.Checker) error {
	d := c.Report.Damage[0]
	return &durable.CorruptError{File: d.File, Offset: d.Offset, Reason: d.Reason}
}

// copyBytes is how much of a file is read at once.
const copyBytes = 1 << 20

func checksumFile(path string, read func(int64) error) (sum uint32, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	buf := make([]byte, max(1, min(info.Size(), copyBytes))) // most files are small
	for {
		n, err := f.Read(buf)
		sum = crc32c.Update(sum, buf[:n])
		size += int64(n)
		if err := read(int64(n)); err != nil {
			return 0, 0, err
		}
		if errors.Is(err, io.EOF) {
			return sum, size, nil
		}
		if err != nil {
			return 0, 0, fmt.Errorf("read %s: %w", path, err)
		}
	}
}

// newestBackdated returns the newest part that has backdated rows, nil when none has. It has all of
// them up to then: such rows do not fit among acqs that were backed up.
func newestBackdated(parts []*Part) *Part {
	for _, p := range slices.Backward(parts) {
		if p.Aside != nil {
			return p
		}
	}
	return nil
}

// isBackdated reports whether a file of the part holds backdated rows.
func (p *Part) isBackdated(f *file) bool { return int64(f.Shard) >= int64(p.Shards) }
