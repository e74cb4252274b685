package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
)

// maxDamages bounds the list of a report; beyond, damage is only counted.
const maxDamages = 1000

// maxWait is how long a check that is slowed down waits at once: who wants its progress wants it
// meanwhile, too.
const maxWait = time.Second

// CheckOptions of a check. The zero value works.
type CheckOptions struct {
	BytesPerSec int64                       // how fast files are read; 0: without limit
	Damage      func(api.Damage)            // called for each damaged place when found; may be nil
	Progress    func(done *api.CheckReport) // called now and then, between steps; may be nil
}

// checker reads files and gathers what is wrong with them.
type checker struct {
	ctx    context.Context
	opt    CheckOptions
	report api.CheckReport
	began  time.Time
	shards int // of the store; 0: not known
}

func newChecker(ctx context.Context, opt CheckOptions) *checker {
	return &checker{ctx: ctx, opt: opt, began: time.Now()}
}

func (c *checker) end() api.CheckReport {
	c.report.TookNs = int64(time.Since(c.began))
	return c.report
}

func (c *checker) damaged(file string, offset int64, format string, args ...any) {
	d := api.Damage{File: file, Offset: offset, Reason: fmt.Sprintf(format, args...)}
	c.report.Damages++
	if len(c.report.Damage) < maxDamages {
		c.report.Damage = append(c.report.Damage, d)
	}
	if c.opt.Damage != nil {
		c.opt.Damage(d)
	}
}

// note takes the error of reading a file: damage goes into the report, all else is returned.
func (c *checker) note(err error) error {
	var damage *segment.CorruptError
	if !errors.As(err, &damage) {
		return err
	}
	reason := damage.Reason
	if damage.Err != nil {
		reason += ": " + damage.Err.Error()
	}
	c.damaged(damage.File, damage.Offset, "%s", reason)
	return nil
}

// read accounts for bytes that were read, and waits when that went too fast.
func (c *checker) read(bytes int64) error {
	c.report.Bytes += bytes
	for {
		if c.opt.Progress != nil {
			c.opt.Progress(&c.report)
		}
		wait := c.early()
		if wait <= 0 {
			return c.ctx.Err()
		}
		select {
		case <-time.After(wait):
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
}

// early returns how long to wait before going on reading, maxWait at most.
func (c *checker) early() time.Duration {
	if c.opt.BytesPerSec <= 0 {
		return 0
	}
	due := float64(c.report.Bytes) / float64(c.opt.BytesPerSec) // in seconds
	early := min(due-time.Since(c.began).Seconds(), maxWait.Seconds())
	return time.Duration(early * float64(time.Second))
}

// Check reads everything in the directory of a store that nobody has open, compares files with
// one another, and changes nothing.
//
// Errors: layout.ErrLocked when a process has it open, layout.ErrNoStore, ctx.Err(), and those of
// the file system. Damage is no error but in the report.
func Check(ctx context.Context, dir string, opt CheckOptions) (api.CheckReport, error) {
	c := newChecker(ctx, opt)
	lock, err := layout.LockToRead(dir)
	if err != nil {
		return c.end(), err
	}
	defer func() { _ = lock.Close() }() // nil or only read
	err = c.directory(dir)
	return c.end(), err
}

func (c *checker) directory(dir string) error {
	m, err := c.manifest(dir)
	if err != nil {
		return err
	}
	if err := c.segments(dir, m); err != nil {
		return err
	}
	if err := c.writers(dir, m); err != nil {
		return err
	}
	if err := c.snapshot(dir); err != nil {
		return err
	}
	return c.log(dir, m)
}

// manifest reads the manifest; it is nil when it is damaged.
func (c *checker) manifest(dir string) (*manifest, error) {
	name := filepath.Join(dir, layout.ManifestFile)
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		if err := checkEmpty(dir, name); err != nil {
			return nil, c.note(err)
		}
		return nil, fmt.Errorf("%s: %w", dir, layout.ErrNoStore)
	}
	return c.manifestFile(name)
}

func (c *checker) manifestFile(name string) (*manifest, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	return c.manifestText(name, data)
}

func (c *checker) manifestText(name string, data []byte) (*manifest, error) {
	m := newManifest()
	content, err := m.replay(name, data)
	if err != nil {
		return nil, c.note(err)
	}
	if content.Torn > 0 {
		c.report.Notes = append(c.report.Notes, fmt.Sprintf(
			"%s: a torn last line of %d bytes at offset %d, which opening cuts off", name,
			content.Torn, content.Size))
	}
	c.shards = m.shards
	return m, c.read(int64(len(data)))
}

// segments checks every segment file, and that those of a shard continue one another.
func (c *checker) segments(dir string, m *manifest) error {
	live := map[string]segmentMeta{}
	if m != nil {
		for _, meta := range m.live {
			live[layout.SegmentName(meta.ID)] = meta
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list directory: %w", err)
	}
	found := map[uint64]*checkedSegment{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		meta, isLive := live[e.Name()]
		switch {
		case strings.HasSuffix(e.Name(), ".tmp"), m != nil && !isLive &&
			strings.HasSuffix(e.Name(), layout.SegmentSuffix):
			c.report.Notes = append(c.report.Notes, path+": a leftover, which opening removes")
		case isLive:
			delete(live, e.Name())
			if found[meta.ID], err = c.segment(path, &meta); err != nil {
				return err
			}
		case strings.HasSuffix(e.Name(), layout.SegmentSuffix):
			if _, err = c.segment(path, nil); err != nil {
				return err
			}
		case e.Name() == layout.ScrubFile:
			if err = c.scrubFile(path); err != nil {
				return err
			}
		}
	}
	for name := range live {
		c.damaged(filepath.Join(dir, name), segment.WholeFile,
			"the file is missing; the manifest names it")
	}
	if m != nil {
		c.order(filepath.Join(dir, layout.ManifestFile), m, found)
	}
	return nil
}

// order checks that the segments of each shard cover log indexes one after another, and acqs, but
// for the backdated shards.
func (c *checker) order(name string, m *manifest, found map[uint64]*checkedSegment) {
	byShard := map[uint32][]segmentMeta{}
	for _, meta := range m.live {
		byShard[meta.Shard] = append(byShard[meta.Shard], meta)
	}
	for id, list := range byShard {
		slices.SortFunc(list, func(a, b segmentMeta) int {
			return cmp.Compare(a.FirstIndex, b.FirstIndex)
		})
		next := uint64(1)
		before := int64(-1 << 63)
		for _, meta := range list {
			next = m.endOf(id, next)
			if meta.FirstIndex != next || meta.LastIndex < meta.FirstIndex {
				c.damaged(name, 0, "segment %d of shard %d covers log indexes %d to %d; those "+
					"before cover up to %d", meta.ID, id, meta.FirstIndex, meta.LastIndex, next-1)
			}
			next = max(next, meta.LastIndex+1)
			seg := found[meta.ID]
			if seg != nil && seg.firstAcqNs <= before && !meta.isBackdated() {
				c.damaged(name, 0, "segment %d of shard %d starts at acq %d; the one before ends "+
					"at %d", meta.ID, id, seg.firstAcqNs, before)
			}
			before = max(before, meta.LastAcqNs)
		}
	}
}

func (c *checker) writers(dir string, m *manifest) error {
	name := filepath.Join(dir, layout.WritersFile)
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		if m != nil && m.clockNs != 0 {
			c.damaged(name, segment.WholeFile, "the file is missing, but the log was released")
		}
		return nil
	}
	return c.writersFile(name)
}

func (c *checker) writersFile(name string) error {
	buf, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read writers: %w", err)
	}
	if _, err := parseWriters(buf); err != nil {
		c.damaged(name, 0, "%v", err)
	}
	return c.read(int64(len(buf)))
}

// snapshot reads what makes a directory a snapshot, if it is one.
func (c *checker) snapshot(dir string) error {
	info, err := os.Stat(filepath.Join(dir, layout.SnapshotFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = ReadSnapshot(dir)
	}
	if err = c.note(err); err != nil {
		return err
	}
	return c.read(info.Size())
}
