// Package cursors keeps how far readers of changes are: names and the acqs to go on from.
//
// They lie in a text file of lines "crc32c json", one for each commit, which is written anew when
// it has grown. It knows nothing of changes. Its type is [File]; it starts no goroutines.
package cursors

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/lines"
	"github.com/pentad-db/pentad/node/segment"
)

const (
	// Name is the file's in its directory.
	Name = "CURSORS"
	// Max bounds the cursors: a line of some 100 bytes each is written anew now and then.
	Max = 4096
	// format of the file. 1: first.
	format = 1
	// rewriteLines is how many lines the file has, beside those that are in force, before it is
	// written anew.
	rewriteLines = 4096
)

// Errors that callers branch on.
var (
	ErrUnknown = errors.New("there is no such cursor")
	ErrBehind  = errors.New("a cursor only moves forward, lest records come again; force it back " +
		"if they shall")
	ErrFull = fmt.Errorf("%d cursors are the most that a node keeps; remove some", Max)
	// ErrFailed is what every change fails with after one of which nobody knows whether it is on
	// disk.
	ErrFailed = errors.New("what the disk holds of cursors is not known; start the node again")
)

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)

// ValidName reports whether a cursor may be called so.
func ValidName(name string) bool { return nameForm.MatchString(name) }

// Cursor is how far a reader is.
type Cursor struct {
	Name        string `json:"name"`
	AcqNs       int64  `json:"acq_ns"`       // it has everything below
	CommittedNs int64  `json:"committed_ns"` // when it said so
}

// line is a line of the file but the first.
type line struct {
	Cursor
	Removed bool `json:"removed,omitempty"`
}

type first struct {
	Format int `json:"format"`
	// Lines were durable, this one included, when it was written over the last time.
	Lines lines.Count `json:"lines,omitempty"`
}

// File is the cursors of a node on disk. It may be used by many goroutines.
type File struct {
	Made bool // there was no file

	name string

	mu     sync.Mutex
	damage []string // guarded by mu, as all below: lines that could not be read
	file   *os.File
	size   int64             // of whole lines
	lines  int               // in the file
	surely int               // of them, that are durable
	head   int               // bytes of the first line
	count  lines.Count       // of lines, that it says
	all    map[string]Cursor // by name
	failed health.Latch

	unended bool // the end of the last line is bent, as found by Open
}

// Open reads the cursors in a directory, or makes the file. A torn last line is cut off: nobody was
// told that it is there. One that is damaged is left out and told by Damage: its reader gets again
// what came since the line before it. A file without a first line is refused: which readers there
// were is not known any more.
func Open(dir string) (*File, error) {
	f := &File{name: filepath.Join(dir, Name), all: map[string]Cursor{}}
	data, err := os.ReadFile(f.name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read cursors: %w", err)
	}
	f.Made = err != nil
	if err == nil {
		if err := f.parse(data); formats.Is(err) {
			return nil, err
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if f.lines == 0 { // it is written whole under another name first
			return nil, fmt.Errorf("%s: the first line is missing; take the file from a backup or "+
				"a snapshot, or move it away to begin without cursors", f.name)
		}
	}
	if f.Made || f.lines > rewriteLines || f.unended {
		return f, f.rewrite()
	}
	if f.file, err = os.OpenFile(f.name, os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("open cursors: %w", err)
	}
	if err := f.cut(); err != nil {
		return nil, errors.Join(fmt.Errorf("cut torn end of cursors: %w", err), f.file.Close())
	}
	return f, nil
}

// parse reads whole lines and notes where they end.
func (f *File) parse(data []byte) error {
	for {
		text, rest, whole := bytes.Cut(data[f.size:], []byte("\n"))
		if !whole || len(rest) == 0 && f.lines > 0 && lines.Torn(data, int(f.size)) {
			return f.parseEnd(data)
		}
		if f.lines++; f.lines == 1 {
			var head first
			if err := lines.Parse(text, &head); err != nil {
				f.damage = append(f.damage, fmt.Sprintf("%s line 1: %v", Name, err))
			} else if e := formats.Of(f.name, "", uint64(head.Format), format); e != nil {
				return e
			} else if head.Format != format {
				return fmt.Errorf("format %d; this version reads format %d", head.Format, format)
			}
			f.head, f.count = len(text)+1, head.Lines
		} else if err := f.parseLine(text); err != nil {
			f.damage = append(f.damage, fmt.Sprintf("%s line %d: %v", Name, f.lines, err))
		}
		f.size = int64(len(data) - len(rest))
	}
}

// parseEnd looks at what follows the last line.
func (f *File) parseEnd(data []byte) error {
	if rest := data[f.size:]; len(rest) > 0 && f.lines > 0 && !lines.Torn(data, int(f.size)) {
		f.damage = append(f.damage, fmt.Sprintf("%s line %d: it does not end", Name, f.lines+1))
		f.lines++
		f.unended = true
		return f.parseLine(rest[:len(rest)-1])
	}
	f.surely = f.lines
	if err := f.count.Lost(f.lines); err != nil {
		f.damage = append(f.damage, fmt.Sprintf("%s: %v", Name, err))
	}
	return nil
}

func (f *File) parseLine(text []byte) error {
	var l line
	if err := lines.Parse(text, &l); err != nil {
		return err
	}
	if !ValidName(l.Name) || len(f.all) >= Max && f.all[l.Name].Name == "" {
		return fmt.Errorf("%.80q is no cursor's name, or one more than %d", l.Name, Max)
	}
	if l.Removed {
		delete(f.all, l.Name)
	} else {
		f.all[l.Name] = l.Cursor
	}
	return nil
}

// cut drops what follows the last whole line.
func (f *File) cut() error { return errors.Join(f.file.Truncate(f.size), f.file.Sync()) }

// encode returns a short file of cursors, none of them above an acq.
func encode(all []Cursor, maxAcqNs int64) []byte {
	out := lines.Append(nil, first{format, lines.CountOf(1 + len(all))})
	for _, c := range all {
		c.AcqNs = min(c.AcqNs, maxAcqNs)
		out = lines.Append(out, line{Cursor: c})
	}
	return out
}

// Sorted returns cursors by name.
func Sorted(of map[string]Cursor) []Cursor {
	all := make([]Cursor, 0, len(of))
	for _, c := range of {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Cursor) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Unknown is the error of a cursor that is not there.
func Unknown(name string) error { return fmt.Errorf("cursor %.80q: %w", name, ErrUnknown) }

// Check says whether a cursor may become another one, where so many are known.
//
// Errors: ErrBehind, ErrFull.
func Check(old Cursor, known bool, count int, c Cursor, force bool) error {
	switch {
	case !known && count >= Max:
		return ErrFull
	case known && c.AcqNs < old.AcqNs && !force:
		return fmt.Errorf("cursor %s is at acq %d, not to be moved to %d: %w", c.Name, old.AcqNs,
			c.AcqNs, ErrBehind)
	}
	return nil
}

// rewrite makes the file short again.
func (f *File) rewrite() error {
	data := encode(Sorted(f.all), math.MaxInt64)
	if err := catalog.Replace(f.name, data); err != nil {
		return fmt.Errorf("write cursors: %w", err)
	}
	file, err := os.OpenFile(f.name, os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open cursors: %w", err)
	}
	if f.file != nil {
		_ = f.file.Close() // nobody reads it any more
	}
	f.file, f.size, f.lines = file, int64(len(data)), len(f.all)+1
	f.head, f.count, f.surely = bytes.IndexByte(data, '\n')+1, lines.CountOf(f.lines), f.lines
	return nil
}

// Miss notes a damage that the file cannot show.
func (f *File) Miss(damage string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.damage = append(f.damage, damage)
}

// Damage returns what of the file could not be read when it was opened: older lines of the same
// cursor hold. It is told until a cursor is committed with force.
func (f *File) Damage() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.damage)
}

// List returns the cursors by name.
func (f *File) List() []Cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Sorted(f.all)
}

// Get returns a cursor.
//
// Errors: ErrUnknown.
func (f *File) Get(name string) (Cursor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.all[name]
	if !ok {
		return c, Unknown(name)
	}
	return c, nil
}

// Commit makes a cursor, or moves it; on return it is durable. With force it also moves back, and
// damage of the file is known and no longer told.
//
// Errors: ErrBehind, ErrFull, segment.ErrNoSpace, ErrFailed.
func (f *File) Commit(c Cursor, force bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, known := f.all[c.Name]
	if err := Check(old, known, len(f.all), c, force); err != nil {
		return err
	}
	if err := f.append(line{Cursor: c}); err != nil {
		return err
	}
	f.all[c.Name] = c
	return f.shorten(force && len(f.damage) > 0)
}

// Remove forgets a cursor.
//
// Errors: ErrUnknown, segment.ErrNoSpace, ErrFailed.
func (f *File) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.all[name]; !ok {
		return Unknown(name)
	}
	if err := f.append(line{Cursor: Cursor{Name: name}, Removed: true}); err != nil {
		return err
	}
	delete(f.all, name)
	return f.shorten(false)
}

// append makes a line durable. For lack of room it may be tried again.
func (f *File) append(l line) error {
	if err := f.failed.Err(); err != nil {
		return err
	}
	text := lines.Append(nil, l)
	_, err := f.file.WriteAt(text, f.size)
	if err == nil {
		if err = errors.Join(f.vouch(), f.file.Sync()); err == nil {
			f.size += int64(len(text))
			f.lines++
			f.surely++
			return nil
		}
	} else if segment.IsNoSpace(err) {
		if undo := f.cut(); undo == nil {
			return fmt.Errorf("append to cursors: %w: %w", segment.ErrNoSpace, err)
		}
	}
	return f.failed.Set(fmt.Errorf("append to cursors: %w: %v", ErrFailed, err))
}

// vouch writes into the first line how many lines are durable; the caller syncs the file. A file
// that does not say so, or lost lines, is left as it is.
func (f *File) vouch() error {
	text := lines.Append(nil, first{format, lines.CountOf(f.surely)})
	if f.count == "" || f.count.Lost(f.surely) != nil || len(text) != f.head {
		return nil
	}
	_, err := f.file.WriteAt(text, 0)
	return err
}

// shorten writes the file again when most of its lines are not in force any more, or now. What was
// appended is on disk, whether that succeeds or not.
func (f *File) shorten(now bool) error {
	if f.lines < len(f.all)+rewriteLines && !now {
		return nil
	}
	err := f.rewrite()
	if err != nil && !segment.IsNoSpace(err) {
		return f.failed.Set(fmt.Errorf("%w: %v", ErrFailed, err))
	}
	if err == nil {
		f.damage = nil
	}
	return nil
}

// Problems returns what is wrong with the cursors for good.
func (f *File) Problems() (all []health.Problem) {
	if damage := f.Damage(); len(damage) > 0 {
		all = append(all, health.Problem{Code: "cursors_damaged", Message: damage[0],
			Advice: "readers of lost cursors get records again, or begin where they are told to; " +
				"pentad cursor ls shows what is known, and pentad cursor commit --force corrects " +
				"it and ends this problem"})
	}
	err := f.failed.Err()
	if err == nil {
		return all
	}
	return append(all, health.Problem{Code: "cursors_failed", Message: err.Error(), Restart: true,
		Advice: "no cursor moves; find out from the kernel's log what is wrong with the disk, " +
			"then start the process again"})
}

// CopyTo writes the same cursors into another directory, where acqs end at one.
func (f *File) CopyTo(dir string, maxAcqNs int64) error {
	return Copy(dir, f.List(), maxAcqNs)
}

// Copy writes cursors into a directory, where acqs end at one.
func Copy(dir string, all []Cursor, maxAcqNs int64) error {
	if err := catalog.Replace(filepath.Join(dir, Name), encode(all, maxAcqNs)); err != nil {
		return fmt.Errorf("copy cursors: %w", err)
	}
	return nil
}

// Close closes the file, whose first line then counts all lines.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if f.failed.Err() == nil {
		err = errors.Join(f.vouch(), f.file.Sync())
	}
	return errors.Join(err, f.file.Close())
}

// CheckFile reads the cursors in a directory and changes nothing; it returns how large the file is.
func CheckFile(dir string) (damage []*segment.CorruptError, size int64, err error) {
	name := filepath.Join(dir, Name)
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	f := &File{name: name, all: map[string]Cursor{}}
	if err := f.parse(data); formats.Is(err) {
		return nil, int64(len(data)), err
	} else if err != nil {
		f.damage = append(f.damage, err.Error())
	}
	if f.lines == 0 {
		f.damage = append(f.damage, "the first line is missing")
	}
	for _, d := range f.damage {
		damage = append(damage, &segment.CorruptError{File: name, Reason: d})
	}
	return damage, int64(len(data)), nil
}
