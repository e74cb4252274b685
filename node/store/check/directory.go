package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/sdk/api"
)

// Directory reads everything in the directory of a closed store, compares files with
// one another, and changes nothing.
//
// Errors: layout.ErrLocked when a process has it open, layout.ErrNoStore, ctx.Err(), and those of
// the file system. Damage is no error but in the report.
func Directory(ctx context.Context, dir string, opt Options) (api.CheckReport, error) {
	c := New(ctx, opt)
	lock, err := layout.LockToRead(dir)
	if err != nil {
		return c.End(), err
	}
	defer func() { _ = lock.Close() }() // nil or only read
	err = c.directory(dir)
	return c.End(), err
}

func (c *Checker) directory(dir string) error {
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
func (c *Checker) manifest(dir string) (*manifest.Manifest, error) {
	name := filepath.Join(dir, layout.ManifestFile)
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		if err := manifest.CheckEmpty(dir, name); err != nil {
			return nil, c.Note(err)
		}
		return nil, fmt.Errorf("%s: %w", dir, layout.ErrNoStore)
	}
	return c.manifestFile(name)
}

func (c *Checker) manifestFile(name string) (*manifest.Manifest, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	return c.Manifest(name, data)
}

// Manifest checks the text of a manifest, of the file with this name.
//
// Returns: what it says; nil when it is damaged.
func (c *Checker) Manifest(name string, data []byte) (*manifest.Manifest, error) {
	m := manifest.New()
	content, err := m.Replay(name, data)
	if err != nil {
		return nil, c.Note(err)
	}
	if content.Torn > 0 {
		c.Report.Notes = append(c.Report.Notes, fmt.Sprintf(
			"%s: a torn last line of %d bytes at offset %d, which opening cuts off", name,
			content.Torn, content.Size))
	}
	c.Shards = m.Shards
	return m, c.Read(int64(len(data)))
}

// segments checks every segment file, and that those of a shard continue one another.
func (c *Checker) segments(dir string, m *manifest.Manifest) error {
	live := map[string]manifest.Segment{}
	if m != nil {
		for _, meta := range m.Live {
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
			c.Report.Notes = append(c.Report.Notes, path+": a leftover, which opening removes")
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
		c.Damaged(filepath.Join(dir, name), durable.WholeFile,
			"the file is missing; the manifest names it")
	}
	if m != nil {
		c.order(filepath.Join(dir, layout.ManifestFile), m, found)
	}
	return nil
}

// order checks that the segments of each shard cover log entries one after another, and acqs, but
// for the backdated shards.
func (c *Checker) order(name string, m *manifest.Manifest, found map[uint64]*checkedSegment) {
	byShard := map[uint32][]manifest.Segment{}
	for _, meta := range m.Live {
		byShard[meta.Shard] = append(byShard[meta.Shard], meta)
	}
	for id, list := range byShard {
		slices.SortFunc(list, func(a, b manifest.Segment) int {
			return cmp.Compare(a.FirstLSN, b.FirstLSN)
		})
		next := uint64(1)
		before := int64(-1 << 63)
		for _, meta := range list {
			next = m.SkipEmpty(id, next)
			if meta.FirstLSN != next || meta.LastLSN < meta.FirstLSN {
				c.Damaged(name, 0, "segment %d of shard %d covers log entries %d to %d; those "+
					"before cover up to %d", meta.ID, id, meta.FirstLSN, meta.LastLSN, next-1)
			}
			next = max(next, meta.LastLSN+1)
			seg := found[meta.ID]
			if seg != nil && seg.firstAcqNs <= before && !meta.IsBackdated() {
				c.Damaged(name, 0, "segment %d of shard %d starts at acq %d; the one before ends "+
					"at %d", meta.ID, id, seg.firstAcqNs, before)
			}
			before = max(before, meta.LastAcqNs)
		}
	}
}

func (c *Checker) writers(dir string, m *manifest.Manifest) error {
	name := filepath.Join(dir, layout.WritersFile)
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		if m != nil && m.NextAcqNs != 0 {
			c.Damaged(name, durable.WholeFile, "the file is missing, but the log was deleted")
		}
		return nil
	}
	return c.Writers(name)
}

// Writers checks a file WRITERS.
//
// Errors: those of the file system, ctx.Err().
func (c *Checker) Writers(name string) error {
	buf, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read writers: %w", err)
	}
	if err := writers.Parse(buf, func(*writers.Writer) {}); err != nil {
		c.Damaged(name, 0, "%v", err)
	}
	return c.Read(int64(len(buf)))
}

// snapshot reads what makes a directory a snapshot, if it is one.
func (c *Checker) snapshot(dir string) error {
	info, err := os.Stat(filepath.Join(dir, layout.SnapshotFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = layout.ReadSnapshot(dir)
	}
	if err = c.Note(err); err != nil {
		return err
	}
	return c.Read(info.Size())
}

// scrubFile reads the position of the search for damage.
func (c *Checker) scrubFile(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read position of the scrub: %w", err)
	}
	if _, err := ParsePosition(text); err != nil {
		c.Damaged(name, 0, "%v; nothing is lost: remove it, and the search begins again", err)
	}
	return c.Read(int64(len(text)))
}
