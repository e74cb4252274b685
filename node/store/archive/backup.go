// Package archive keeps copies of stores: backups, which are directories of parts that continue one
// another, and the stores that are restored from them.
//
// It owns the directory of a backup. It knows nothing of the files of a store: package store
// exports rows, and builds a store of them. Its main type is [Part]. It starts no goroutine.
package archive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/record"
)

// BackupOptions of one run of a backup. The zero value continues where the newest part ended, up
// to the horizon.
type BackupOptions struct {
	From       *int64 // first acq; nil: where the newest part ended, or everything
	UntilAcqNs int64  // acq after the last, at most the horizon; 0: the horizon
	// Extra is kept with the part. Files that are not there are left out.
	Extra []ExtraFile
	// Progress is called now and then with the rows written and those there are; may be nil. An
	// error ends the backup.
	Progress func(done, total int64) error
}

// Backup writes the rows that came since the newest part in a directory, or all of them, into a
// part of their own. Segments that hold no others are copied, the rest is written again. The part
// appears whole or not at all, and everything in it was read back and found right. Writes go on.
// Before, the newest part is read and compared with its checksums, and all others with their sizes.
//
// Returns: the part; nil when no acq has passed since the last one.
// Errors: layout.ErrLocked when another backup writes there, ErrGap, ErrPartDamaged,
// *durable.CorruptError for damage of the store, store.ErrClosed, and those of the file system.
func Backup(
	ctx context.Context, s *store.Store, to string, opt BackupOptions,
) (*Part, error) {
	source, err := s.Export()
	if err != nil {
		return nil, err
	}
	defer source.Close()
	if err := durable.MakeDir(to); err != nil {
		return nil, fmt.Errorf("backup to %s: %w", to, err)
	}
	lock, err := layout.Lock(to)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	defer func() { _ = lock.Close() }() // it is empty
	b := &backup{ctx: ctx, source: source, opt: opt}
	if err := b.begin(to); err != nil || b.part == nil {
		return nil, err
	}
	if err := b.write(to); err != nil {
		return nil, fmt.Errorf("backup to %s: %w", to, err)
	}
	return b.part, nil
}

// backup is one run.
type backup struct {
	ctx     context.Context
	source  *store.Export
	opt     BackupOptions
	part    *Part
	dir     string   // where the part is written
	earlier []string // names of files beside stores in the parts before
	known   []uint64 // as Aside of the newest part that has it
}

// begin finds out which rows are to be written. The part stays nil when there can be none.
func (b *backup) begin(to string) error {
	parts, err := Parts(to)
	if errors.As(err, new(*durable.CorruptError)) {
		err = fmt.Errorf("%w: %w", ErrPartDamaged, err)
	}
	if err == nil {
		err = verifyEarlier(check.New(b.ctx, check.Options{}), parts)
	}
	if err != nil {
		return err
	}
	for _, f := range besidesOf(parts) {
		b.earlier = append(b.earlier, f.Name)
	}
	of, err := b.source.Origin(b.ctx)
	if err != nil {
		return err
	}
	until := of.HorizonNs
	if b.opt.UntilAcqNs > until {
		return fmt.Errorf("backup until acq %d: above the horizon, %d; choose an acq up to it",
			b.opt.UntilAcqNs, until)
	}
	if b.opt.UntilAcqNs != 0 {
		until = b.opt.UntilAcqNs
	}
	if newest := newestBackdated(parts); newest != nil && newest.Store == of.Store {
		b.known = newest.Aside // a store that was restored has other LSNs
	}
	part := &Part{Format: partFormat, Store: of.Store, Shards: of.Shards,
		FromAcqNs: math.MinInt64, UntilAcqNs: until, CreatedNs: of.NowNs, State: of.State,
		dir: filepath.Join(to, partName(until))}
	if b.opt.From != nil {
		part.FromAcqNs = *b.opt.From
	}
	if len(parts) > 0 {
		newest := parts[len(parts)-1]
		if b.opt.From == nil {
			part.FromAcqNs = newest.UntilAcqNs
		}
		if err := part.follows(newest); err != nil {
			if errors.As(err, new(*record.LackError)) {
				err = fmt.Errorf("%w; begin a new backup in an empty directory", err)
			}
			return fmt.Errorf("backup to %s: %w", to, err)
		}
	}
	if part.FromAcqNs < until {
		b.part, b.dir = part, part.dir+".tmp"
	}
	return nil
}

func (b *backup) write(to string) error {
	if err := removeTemporary(to); err != nil {
		return err
	}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		return err
	}
	err := b.files()
	if err == nil {
		err = durable.ReplaceFile(filepath.Join(b.dir, partFile), appendPart(nil, b.part))
	}
	if err == nil {
		err = os.Rename(b.dir, b.part.dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(b.dir))
	}
	return durable.SyncDir(to)
}

// removeTemporary removes what interrupted runs left.
func removeTemporary(to string) error {
	entries, err := os.ReadDir(to)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), partPrefix) && strings.HasSuffix(e.Name(), ".tmp") {
			if err := os.RemoveAll(filepath.Join(to, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// files writes the rows, the results of puts and what others keep with the part.
func (b *backup) files() error {
	p := b.part
	aside, err := b.source.Write(b.ctx, store.ExportOptions{Dir: b.dir, FromAcqNs: p.FromAcqNs,
		UntilAcqNs: p.UntilAcqNs, Aside: b.known, Take: b.add, Progress: b.opt.Progress})
	if err != nil {
		return err
	}
	p.Aside = aside
	writers := b.source.Writers(p.UntilAcqNs)
	if err := durable.ReplaceFile(filepath.Join(b.dir, layout.WritersFile), writers); err != nil {
		return err
	}
	if err := b.describe(&p.Writers, layout.WritersFile); err != nil {
		return err
	}
	return b.copyExtra()
}

// add lists a segment in the part.
func (b *backup) add(seg store.Exported) error {
	f := file{Shard: seg.Shard, Rows: seg.Rows, FirstAcqNs: seg.FirstAcqNs,
		LastAcqNs: seg.LastAcqNs}
	if err := b.describe(&f, seg.Name); err != nil {
		return err
	}
	b.part.Files = append(b.part.Files, f)
	b.part.Rows += int64(f.Rows)
	return nil
}

// describe notes name, size and checksum of a file of the part.
func (b *backup) describe(f *file, name string) error {
	var err error
	f.Name = name
	f.CRC32C, f.Bytes, err = checksumFile(filepath.Join(b.dir, name), b.read)
	b.part.Bytes += f.Bytes
	return err
}

// read lets the backup end with its context, whatever is read.
func (b *backup) read(int64) error { return b.ctx.Err() }
