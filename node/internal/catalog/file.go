package catalog

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/lines"
	"github.com/pentad-db/pentad/node/segment"
)

const (
	// Name is the file's in its directory.
	Name = "CATALOG"
	// ModuleSuffix is that of the files beside it, which are named by their digests.
	ModuleSuffix = ".wasm"
	// format of the file. 1: first.
	format = 1
	// rewriteLines is how many lines are read before the file is written anew at open.
	rewriteLines = 1000
)

// first is the first line of the file.
type first struct {
	Format int `json:"format"`
	// Unlisted says that a catalogue was lost: what no line names may be wanted all the same.
	Unlisted bool `json:"unlisted,omitempty"`
	// Lines were durable, this one included, when it was written over the last time.
	Lines lines.Count `json:"lines,omitempty"`
}

// ErrFailed is what every change fails with after one of which nobody knows whether it is on disk.
var ErrFailed = errors.New("what the disk holds is not known; start the node again")

// File is a catalogue on disk: a text file of lines "crc32c json", appended and synced.
type File struct {
	State    State
	Damage   []string // lines that could not be read or applied, by number
	Unlisted bool     // a catalogue was lost here
	Cut      int      // bytes of a torn last line
	Made     bool     // there was none

	file   *os.File
	size   int64
	failed health.Latch
	bent   bool        // the last line is whole but for its end
	count  int         // of lines
	head   int         // bytes of the first line
	lines  lines.Count // that it says
}

// Open reads the catalogue in a directory, or makes one; beside modules there must have been one.
//
// A line that is damaged is left out and named in Damage; what stands in the other lines holds, and
// the file stays as it is. A torn last line is cut off: nobody was told that it is there.
func Open(dir string) (*File, error) {
	name := filepath.Join(dir, Name)
	data, err := os.ReadFile(name)
	made := errors.Is(err, os.ErrNotExist)
	if made {
		var modules []string // its error is of the pattern
		modules, _ = filepath.Glob(filepath.Join(dir, "*"+ModuleSuffix))
		data = lines.Append(nil, first{Format: format, Unlisted: len(modules) > 0,
			Lines: lines.CountOf(1)})
		err = Replace(name, data)
	} else if err == nil {
		err = syncDir(dir) // who made it may have been killed before
	}
	if err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	f, good, count, err := parse(data)
	if formats.Is(err) {
		return nil, formats.In(name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.Made = made
	if count > rewriteLines && len(f.Damage) == 0 {
		data = f.bytes()
		f.count = bytes.Count(data, []byte("\n"))
		if err := Replace(name, data); err != nil {
			return nil, fmt.Errorf("shorten catalogue: %w", err)
		}
		good = len(data)
	}
	if f.file, err = os.OpenFile(name, os.O_RDWR, 0o644); err != nil {
		return nil, fmt.Errorf("open catalogue: %w", err)
	}
	if err := f.repair(data, good); err != nil {
		return nil, errors.Join(fmt.Errorf("cut torn end of catalogue: %w", err), f.file.Close())
	}
	return f, nil
}

// parse reads lines. The first good bytes of data are whole lines.
func parse(data []byte) (f *File, good, count int, err error) {
	f = new(File)
	for good < len(data) {
		end := bytes.IndexByte(data[good:], '\n')
		if end < 0 {
			break
		}
		line := data[good : good+end]
		if count++; count == 1 {
			if err := f.parseFirst(line); err != nil {
				return nil, 0, 0, err
			}
			good += end + 1
			f.head = good
			continue
		}
		var c Change
		if err = lines.Parse(line, &c); err == nil {
			err = f.State.Apply(&c)
		} else if lines.Torn(data, good) {
			count--
			break
		}
		if err != nil {
			f.Damage = append(f.Damage, fmt.Sprintf("%s line %d: %v", Name, count, err))
		}
		good += end + 1
	}
	if rest := data[good:]; len(rest) > 0 {
		if f.bent = count > 0 && !lines.Torn(data, good); f.bent {
			f.Damage = append(f.Damage, fmt.Sprintf("%s line %d: it does not end", Name, count+1))
		}
	}
	if err := f.lines.Lost(count); err != nil {
		f.Damage = append(f.Damage, fmt.Sprintf("%s: %v", Name, err))
	}
	f.count = count
	if f.Unlisted && len(f.Damage) == 0 {
		f.Damage = append(f.Damage,
			"an earlier "+Name+" was lost; modules without a name may lie here")
	}
	if count == 0 {
		return nil, 0, 0, errors.New("the first line is missing; move the file away to begin anew")
	}
	return f, good, count, nil
}

// parseFirst reads the first line. One that is damaged has told the format only, of which there is
// one.
func (f *File) parseFirst(line []byte) error {
	var head first
	if err := lines.Parse(line, &head); err != nil {
		f.Damage = append(f.Damage, fmt.Sprintf("%s line 1: %v", Name, err))
		f.Unlisted = true
		return nil
	}
	if e := formats.Of("", "", uint64(head.Format), format); e != nil {
		return e
	}
	if head.Format != format {
		return fmt.Errorf("format %d; this version reads format %d", head.Format, format)
	}
	f.Unlisted, f.lines = head.Unlisted, head.Lines
	return nil
}

// repair cuts a torn last line, or ends one whose end was bent, so that others may follow.
func (f *File) repair(data []byte, good int) error {
	f.size = int64(good)
	if good == len(data) {
		return nil
	}
	if f.bent {
		if _, err := f.file.WriteAt([]byte("\n"), int64(len(data))); err != nil {
			return err
		}
		f.size = int64(len(data)) + 1
		f.count++
		return f.file.Sync()
	}
	f.Cut = len(data) - good
	return errors.Join(f.file.Truncate(f.size), f.file.Sync())
}

// bytes returns a short file with the same state.
func (f *File) bytes() []byte {
	changes := f.State.Changes()
	out := lines.Append(nil, first{Format: format, Unlisted: f.Unlisted,
		Lines: lines.CountOf(1 + len(changes))})
	for _, c := range changes {
		out = lines.Append(out, c)
	}
	return out
}

// vouch writes into the first line how many lines are durable; the caller syncs the file. A file
// that does not say so, or lost lines, is left as it is.
func (f *File) vouch() error {
	text := lines.Append(nil, first{Format: format, Unlisted: f.Unlisted,
		Lines: lines.CountOf(f.count)})
	if f.lines == "" || f.lines.Lost(f.count) != nil || len(text) != f.head {
		return nil
	}
	_, err := f.file.WriteAt(text, 0)
	return err
}

// CopyTo writes a catalogue with the same state into another directory.
func (f *File) CopyTo(dir string) error {
	if err := Replace(filepath.Join(dir, Name), f.bytes()); err != nil {
		return fmt.Errorf("copy catalogue: %w", err)
	}
	return nil
}

// Append makes a change durable and then applies it. For lack of room it may be tried again. After
// any other failed write or sync the file stays failed, because what the disk holds is no longer
// known.
//
// Errors: what Apply refuses, with nothing written; [segment.ErrNoSpace]; [ErrFailed].
func (f *File) Append(c *Change) error {
	if err := f.failed.Err(); err != nil {
		return err
	}
	if err := f.State.Check(c); err != nil {
		return err
	}
	line := lines.Append(nil, c)
	if _, err := f.file.WriteAt(line, f.size); err != nil {
		return f.undo(err)
	}
	if err := errors.Join(f.vouch(), f.file.Sync()); err != nil {
		return f.fail(err)
	}
	f.size += int64(len(line))
	f.count++
	return f.State.Apply(c)
}

// undo cuts off what was written of a line that the disk has no room for.
func (f *File) undo(cause error) error {
	if !segment.IsNoSpace(cause) {
		return f.fail(cause)
	}
	if err := errors.Join(f.file.Truncate(f.size), f.file.Sync()); err != nil {
		return f.fail(errors.Join(cause, err))
	}
	return fmt.Errorf("append to catalogue: %w: %w", segment.ErrNoSpace, cause)
}

func (f *File) fail(err error) error {
	return f.failed.Set(fmt.Errorf("append to catalogue: %w: %v", ErrFailed, err))
}

// Failure returns the error that every Append returns until the file is opened again, an ErrFailed;
// nil for none.
func (f *File) Failure() error { return f.failed.Err() }

// Close closes the file, whose first line then counts all lines.
func (f *File) Close() error {
	var err error
	if f.failed.Err() == nil {
		err = errors.Join(f.vouch(), f.file.Sync())
	}
	return errors.Join(err, f.file.Close())
}

// Check reads the catalogue in a directory, and the modules beside it, and changes nothing: read is
// told of the bytes of each file. What is there must be whole, and what is named must be there.
//
// Errors: those of read and of the file system.
func Check(dir string, read func(bytes int64) error) (damage []*segment.CorruptError, err error) {
	bad := func(name, reason string) {
		damage = append(damage, &segment.CorruptError{File: filepath.Join(dir, name),
			Reason: reason})
	}
	data, err := os.ReadFile(filepath.Join(dir, Name))
	if err == nil {
		err = read(int64(len(data)))
	} else if errors.Is(err, os.ErrNotExist) {
		bad(Name, "the file is missing")
		err = nil
	}
	wanted := map[string]bool{}
	if f, _, _, parsed := parse(data); formats.Is(parsed) {
		return nil, formats.In(filepath.Join(dir, Name), parsed)
	} else if parsed != nil && data != nil {
		bad(Name, parsed.Error())
	} else if parsed == nil {
		for _, d := range f.Damage {
			bad(Name, d)
		}
		for _, p := range f.State.Plugins {
			for _, v := range p.Versions {
				wanted[v.SHA256+ModuleSuffix] = true
			}
		}
	}
	if err != nil {
		return damage, err
	}
	more, err := CheckModules(dir, wanted, read)
	return append(damage, more...), err
}

// CheckModules reads the modules in a directory: the name of each must be its digest. Those that
// are wanted must be there.
func CheckModules(
	dir string, wanted map[string]bool, read func(bytes int64) error,
) (damage []*segment.CorruptError, err error) {
	names, _ := filepath.Glob(filepath.Join(dir, "*"+ModuleSuffix)) // its error is of the pattern
	for _, path := range names {
		text, err := os.ReadFile(path)
		if err == nil {
			err = read(int64(len(text)))
		}
		if err != nil {
			return damage, err
		}
		if d := CheckModule(path, text); d != nil {
			damage = append(damage, d)
		}
		delete(wanted, filepath.Base(path))
	}
	for name := range wanted {
		damage = append(damage, &segment.CorruptError{File: filepath.Join(dir, name),
			Reason: "the module is missing; the catalogue names it"})
	}
	return damage, nil
}

// CheckModule says what is wrong with a file that should hold the module that it is named after;
// nil: nothing.
func CheckModule(path string, text []byte) *segment.CorruptError {
	sum := fmt.Sprintf("%x", sha256.Sum256(text))
	if sum+ModuleSuffix == filepath.Base(path) {
		return nil
	}
	return &segment.CorruptError{File: path,
		Reason: fmt.Sprintf("its digest is %.12s, not what its name says", sum)}
}

// Replace writes a file anew, at once and for good.
func Replace(name string, data []byte) error {
	f, err := os.Create(name + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(name))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
