package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/sdk/api"
)

// RestoreOptions of a restore. The zero value restores everything.
type RestoreOptions struct {
	UntilAcqNs int64 // only rows with a smaller acq; 0: all that the backup has
	CheckOnly  bool  // read all parts and write nothing
	// Extra gets the files that parts keep beside the store, each as the newest part that is
	// restored has it, after all was checked and before dir appears; may be nil.
	Extra func(files []ExtraFile, untilAcqNs int64) error
	// Progress is called now and then with the bytes checked and written; may be nil.
	Progress func(checked, written int64)
}

// RestoreReport says what was restored.
type RestoreReport struct {
	Parts      int
	Rows       int64 // RowsUnknown when CheckOnly is given and UntilAcqNs divides a part
	UntilAcqNs int64
	Check      api.CheckReport // of the files of the backup
}

// RowsUnknown stands for a number of rows that only a restore tells.
const RowsUnknown = -1

// Check reads every file of the parts of a backup, and checks that they hold all rows from the
// first one on. Damage, and what is missing, is in the report.
func Check(ctx context.Context, from string, opt check.Options) (api.CheckReport, error) {
	c := check.New(ctx, opt)
	parts, err := readParts(from)
	if err != nil {
		err = c.Note(err)
	} else if len(parts) == 0 {
		err = noParts(from)
	}
	for i, p := range parts {
		gap := p.starts()
		if i > 0 {
			gap = p.follows(parts[i-1])
		}
		if gap != nil {
			c.Damaged(filepath.Join(p.dir, partFile), durable.WholeFile, "%v", gap)
		}
		if err == nil {
			err = p.verify(c)
		}
	}
	return c.End(), err
}

// ErrUnfinished means that a restore into a directory was interrupted.
var ErrUnfinished = errors.New("a restore was interrupted before it was whole; remove the " +
	"directory, and restore again")

// CheckFinished returns ErrUnfinished for the directory of a store that a restore has begun and not
// ended: what it had so far is beside the directory of the store.
func CheckFinished(dir string) error {
	_, err := os.Lstat(dir)
	if _, begun := os.Lstat(dir + ".tmp"); begun == nil && errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %w", filepath.Dir(dir), ErrUnfinished)
	}
	return nil
}

// Restore makes dir, which must not exist, the directory of a store that holds what a backup holds.
// All parts are read and compared with their checksums before anything is written, and in the end
// the store is opened and its rows are counted. dir appears whole or not at all. It is a store of
// its own. A backup of it continues the one that it came from if it holds all of that, and nothing
// else has continued it.
//
// Errors: store.ErrExists; ErrGap; *durable.CorruptError; those of the file system.
func Restore(
	ctx context.Context, from, dir string, opt RestoreOptions,
) (RestoreReport, error) {
	r := &restore{opt: opt}
	r.Checker = check.New(ctx, check.Options{Progress: func(done *api.CheckReport) {
		if opt.Progress != nil {
			opt.Progress(done.Bytes, r.written)
		}
	}})
	err := r.choose(from)
	if err == nil {
		err = r.verify()
	}
	r.report.Check = r.End()
	switch {
	case err != nil:
	case opt.CheckOnly:
		r.report.Rows = r.rowsOfParts()
	default:
		err = r.restore(ctx, dir)
	}
	if err != nil {
		return r.report, fmt.Errorf("restore %s: %w", from, err)
	}
	return r.report, nil
}

// restore is one run.
type restore struct {
	*check.Checker
	opt       RestoreOptions
	report    RestoreReport
	parts     []*Part // those that hold rows to be restored
	backdated *Part   // that holds the backdated rows, nil for none
	until     int64
	newest    *Part   // of all, which has the events
	verified  []*Part // parts, and aside
	builder   *store.Builder
	written   int64
}

// choose takes the parts from the first row on.
func (r *restore) choose(from string) error {
	parts, err := Parts(from)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return noParts(from)
	}
	if err := parts[0].starts(); err != nil {
		return err
	}
	end := parts[len(parts)-1].UntilAcqNs
	r.until = end
	if r.opt.UntilAcqNs != 0 {
		r.until = r.opt.UntilAcqNs
	}
	if r.until > end {
		return fmt.Errorf("restore up to acq %d: the backup ends at %d; choose an acq "+
			"up to it", r.until, end)
	}
	for _, p := range parts {
		if p.FromAcqNs < r.until {
			r.parts = append(r.parts, p)
		}
	}
	r.backdated = newestBackdated(parts)
	if r.backdated != nil && !slices.Contains(r.parts, r.backdated) {
		r.verified = []*Part{r.backdated}
	}
	r.verified = append(r.verified, r.parts...)
	r.report.Parts, r.report.UntilAcqNs = len(r.parts), r.until
	r.newest = parts[len(parts)-1]
	return nil
}

func noParts(dir string) error {
	return fmt.Errorf("%s holds no part of a backup: %w", dir, os.ErrNotExist)
}

// verify reads all files and returns the first damage.
func (r *restore) verify() error {
	for _, p := range r.verified {
		if err := p.verify(r.Checker); err != nil {
			return err
		}
	}
	if r.Report.Damages > 0 {
		return firstDamage(r.Checker)
	}
	return nil
}

func (r *restore) restore(ctx context.Context, dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s: %w", dir, store.ErrExists)
	}
	tmp := dir + ".tmp"
	err := os.RemoveAll(tmp) // of an interrupted run
	if err == nil {
		err = r.build(ctx, tmp)
	}
	if err == nil && r.opt.Extra != nil {
		err = r.opt.Extra(besidesOf(r.parts), r.until)
	}
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// file restores what is asked for of a file: a copy, or the rows below the end.
func (r *restore) file(p *Part, f *file) error {
	if err := r.Err(); err != nil {
		return err
	}
	if f.FirstAcqNs >= r.until {
		return nil
	}
	if err := r.builder.Add(p.dir, f.exported(), r.Err); err != nil {
		return err
	}
	r.written += f.Bytes
	return r.Read(0)
}

// build writes a store that holds what is asked for.
func (r *restore) build(ctx context.Context, dir string) (err error) {
	if r.builder, err = store.NewBuilder(dir, r.parts[0].Shards, r.until); err != nil {
		return err
	}
	err = r.files(r.file)
	r.report.Rows = r.builder.Rows()
	if err != nil {
		return err
	}
	last := r.parts[len(r.parts)-1]
	state := last.State
	state.Events = r.newest.State.Events
	return r.builder.Finish(ctx, state, last.dir)
}

// files returns the files of a restore, and the parts that they are in, in the order in which
// their rows are restored.
func (r *restore) files(visit func(p *Part, f *file) error) error {
	for _, p := range r.parts {
		for i := range p.Files {
			if f := &p.Files[i]; !p.isBackdated(f) {
				if err := visit(p, f); err != nil {
					return err
				}
			}
		}
	}
	if r.backdated == nil {
		return nil
	}
	for i := range r.backdated.Files {
		if f := &r.backdated.Files[i]; r.backdated.isBackdated(f) {
			if err := visit(r.backdated, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *restore) rowsOfParts() (rows int64) {
	divided := false
	_ = r.files(func(p *Part, f *file) error {
		if p.isBackdated(f) {
			divided = divided || f.FirstAcqNs < r.until && f.LastAcqNs >= r.until
		} else {
			divided = divided || p.UntilAcqNs > r.until
		}
		if f.LastAcqNs < r.until {
			rows += int64(f.Rows)
		}
		return nil
	})
	if divided {
		return RowsUnknown
	}
	return rows
}
