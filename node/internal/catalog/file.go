package catalog

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/journal"
)

const (
	// Name is the file's in its directory.
	Name = "CATALOG"
	// ModuleSuffix is that of the files beside it, which are named by their digests.
	ModuleSuffix = ".wasm"
	// format of the file. 1: first.
	format = 1
	// rewriteLines is how many lines are read before the file is written again at open.
	rewriteLines = 1000
)

// first is the first line of the file.
type first struct {
	Format int `json:"format"`
	// Unlisted says that a catalogue was lost: what no line names may be wanted all the same.
	Unlisted bool `json:"unlisted,omitempty"`
	// Lines were durable, this one included, when it was written over the last time.
	Lines journal.Count `json:"lines,omitempty"`
}

// ErrFailed is what every change fails with after one of which it is not known whether it is on
// disk.
var ErrFailed = errors.New("what the disk holds is not known; start the node again")

// File is a catalogue on disk: a journal of changes.
type File struct {
	State    State
	Damage   []string // lines that could not be read or applied, by number
	Unlisted bool     // a catalogue was lost here
	Cut      int      // bytes of a torn last line
	Made     bool     // there was none

	journal *journal.File
}

// Open reads the catalogue in a directory, or makes one; beside modules there must have been one.
//
// A line that is damaged is left out and named in Damage; the other lines hold, and the file stays
// as it is.
func Open(dir string) (*File, error) {
	f := new(File)
	opt := journal.Options{Folder: durable.Dir(dir), Dir: dir, Name: Name, What: "catalogue",
		Format: format, Apply: f.apply, Head: f.head, KeepsDamaged: true, Failed: ErrFailed}
	var err error
	f.journal, err = journal.Open(opt)
	if errors.Is(err, os.ErrNotExist) {
		var modules []string // its error is of the pattern
		modules, _ = filepath.Glob(filepath.Join(dir, "*"+ModuleSuffix))
		f.Made, f.Unlisted = true, len(modules) > 0
		f.journal, err = journal.Create(opt, f.bytes())
	}
	if d := new(journal.Damage); errors.As(err, &d) {
		return nil, fmt.Errorf("%w; move the file away to begin with an empty one", err)
	} else if err != nil {
		return nil, err
	}
	f.Cut = f.journal.Torn()
	f.noteDamage(f.journal.Damage())
	if f.journal.Lines() > rewriteLines && len(f.Damage) == 0 {
		err := f.journal.Rewrite(f.bytes())
		if err != nil && !durable.IsNoSpace(err) { // else the long one serves
			return nil, errors.Join(err, f.journal.Close())
		}
	}
	return f, nil
}

// apply takes a line of the file. A first one that is damaged has told the format only, of which
// there is one.
func (f *File) apply(number int, line []byte) error {
	if number == 1 {
		var head first
		err := journal.ParseLine(line, &head)
		f.Unlisted = head.Unlisted || err != nil
		return err
	}
	var c Change
	if err := journal.ParseLine(line, &c); err != nil {
		return err
	}
	return f.State.Apply(&c)
}

func (f *File) noteDamage(all []*journal.Damage) {
	f.Damage = journal.Texts(Name, all)
	if f.Unlisted && len(f.Damage) == 0 {
		f.Damage = append(f.Damage,
			"an earlier "+Name+" was lost; modules without a name may lie here")
	}
}

func (f *File) head(n journal.Count) any {
	return first{Format: format, Unlisted: f.Unlisted, Lines: n}
}

// bytes returns a short file with the same state.
func (f *File) bytes() []byte {
	changes := f.State.Changes()
	out := journal.AppendLine(nil, f.head(journal.CountOf(1+len(changes))))
	for _, c := range changes {
		out = journal.AppendLine(out, c)
	}
	return out
}

// CopyTo writes a catalogue with the same state into another directory.
func (f *File) CopyTo(dir string) error {
	if err := durable.ReplaceFile(filepath.Join(dir, Name), f.bytes()); err != nil {
		return fmt.Errorf("copy catalogue: %w", err)
	}
	return nil
}

// Append makes a change durable and then applies it. For lack of space it may be tried again. After
// any other failed write or sync the file stays failed.
//
// Errors: what Apply refuses, with nothing written; [durable.ErrNoSpace]; [ErrFailed].
func (f *File) Append(c *Change) error {
	if err := f.journal.Failure(); err != nil {
		return err
	}
	if err := f.State.Check(c); err != nil {
		return err
	}
	if err := f.journal.Append(c); err != nil {
		return err
	}
	return f.State.Apply(c)
}

// Failure returns the error that every Append returns until the file is opened again, an ErrFailed;
// nil for none.
func (f *File) Failure() error { return f.journal.Failure() }

// Close closes the file.
func (f *File) Close() error { return f.journal.Close() }

// parse reads the lines of a file.
func parse(data []byte) (*File, *journal.Content, error) {
	f := new(File)
	content, err := journal.Read(data, format, f.apply)
	if err != nil {
		return nil, nil, err
	}
	f.noteDamage(content.Damage)
	return f, content, nil
}

// Check reads the catalogue in a directory, and the modules beside it, and changes nothing: read is
// told of the bytes of each file. What is there must be whole, and what is named must be there.
//
// Errors: those of read and of the file system.
func Check(dir string, read func(bytes int64) error) (damage []*durable.CorruptError, err error) {
	bad := func(name, reason string) {
		damage = append(damage, &durable.CorruptError{File: filepath.Join(dir, name),
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
	if f, _, parsed := parse(data); formats.Is(parsed) {
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
) (damage []*durable.CorruptError, err error) {
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
		damage = append(damage, &durable.CorruptError{File: filepath.Join(dir, name),
			Reason: "the module is missing; the catalogue names it"})
	}
	return damage, nil
}

// CheckModule says what is wrong with a file that should hold the module that it is named after;
// nil: nothing.
func CheckModule(path string, text []byte) *durable.CorruptError {
	sum := fmt.Sprintf("%x", sha256.Sum256(text))
	if sum+ModuleSuffix == filepath.Base(path) {
		return nil
	}
	return &durable.CorruptError{File: path,
		Reason: fmt.Sprintf("its digest is %.12s, not what its name says", sum)}
}
