// Package cursors is the file of the cursors of a node, names and the acqs from which readers of
// changes go on; package nodecursors chooses between it and the catalog of a cluster.
//
// The file is a journal with a line for each commit, which is written again when it has
// grown. It knows nothing of changes. Its type is [File]; it starts no goroutines.
package cursors

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/journal"
)

const (
	// Name is the file's in its directory.
	Name = "CURSORS"
	// Max bounds the cursors: a line of some 100 bytes each is written again now and then.
	Max = 4096
	// format of the file. 1: first.
	format = 1
	// rewriteLines is how many lines the file has, in addition to those that are in force, before
	// it is written again.
	rewriteLines = 4096
)

// Errors that callers branch on.
var (
	ErrUnknown = errors.New("there is no such cursor")
	ErrBehind  = errors.New("a cursor only moves forward, lest records come again; force it back " +
		"if they shall")
	ErrQuestion = errors.New("the cursor belongs to another question")
	ErrFull     = fmt.Errorf("%d cursors are the most that a node keeps; remove some", Max)
	// ErrFailed is what every change fails with after one of which it is not known whether it is on
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
	// Question is a digest of what the reader asks for, in the form of a name: another reader may
	// have left out what this one wants. Empty: not known.
	Question string `json:"question,omitempty"`
}

// line is a line of the file but the first.
type line struct {
	Cursor
	Removed bool `json:"removed,omitempty"`
}

func head(n journal.Count) any { return journal.Header{Format: format, Lines: n} }

// File is the cursors of a node on disk: a journal of commits. It may be used by many goroutines.
type File struct {
	Made bool // there was no file

	mu        sync.Mutex
	damage    []string // guarded by mu, as all below: lines that could not be read
	journal   *journal.File
	all       map[string]Cursor // by name
	mostLines int               // in addition to those in force, before the file is written again
}

// Open reads the cursors in a directory, or makes the file. A line that is damaged is left out and
// told by Damage: its reader gets again what came since the line before it. A file without a first
// line is refused: which readers there were is not known any more.
func Open(dir string) (*File, error) {
	f := &File{all: map[string]Cursor{}, mostLines: rewriteLines}
	opt := journal.Options{Folder: durable.Dir(dir), Dir: dir, Name: Name, What: "cursors",
		Format: format, Apply: f.apply, Head: head, KeepsDamaged: true, Failed: ErrFailed}
	var err error
	f.journal, err = journal.Open(opt)
	if errors.Is(err, os.ErrNotExist) {
		f.Made = true
		f.journal, err = journal.Create(opt, encode(nil, 0))
	}
	if d := new(journal.Damage); errors.As(err, &d) {
		return nil, fmt.Errorf("%w; take the file from a backup or a snapshot, or move it away to "+
			"begin without cursors", err)
	} else if err != nil {
		return nil, err
	}
	f.damage = journal.Texts(Name, f.journal.Damage())
	if f.journal.Lines() > rewriteLines {
		err := f.journal.Rewrite(encode(Sorted(f.all), math.MaxInt64))
		if err != nil && !durable.IsNoSpace(err) { // else the long one serves
			return nil, errors.Join(err, f.journal.Close())
		}
	}
	return f, nil
}

// apply takes a line of the file.
func (f *File) apply(number int, text []byte) error {
	if number == 1 {
		return journal.ParseLine(text, new(journal.Header))
	}
	var l line
	if err := journal.ParseLine(text, &l); err != nil {
		return err
	}
	if l.Question != "" && !ValidName(l.Question) {
		return fmt.Errorf("%.80q is no question of a cursor", l.Question)
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

// encode returns a short file of cursors, none of them above an acq.
func encode(all []Cursor, maxAcqNs int64) []byte {
	out := journal.AppendLine(nil, head(journal.CountOf(1+len(all))))
	for _, c := range all {
		c.AcqNs = min(c.AcqNs, maxAcqNs)
		out = journal.AppendLine(out, line{Cursor: c})
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

// Next returns what a cursor becomes by a commit, where count of them are known. A commit without a
// question leaves it as it is, or with force removes it.
//
// Errors: ErrBehind, ErrQuestion, ErrFull.
func Next(old Cursor, known bool, count int, c Cursor, force bool) (Cursor, error) {
	switch {
	case !known && count >= Max:
		return old, ErrFull
	case known && c.AcqNs < old.AcqNs && !force:
		return old, fmt.Errorf("cursor %s is at acq %d, not to be moved to %d: %w", c.Name,
			old.AcqNs, c.AcqNs, ErrBehind)
	case force:
		return c, nil
	case c.Question != "" && old.Question != "" && c.Question != old.Question:
		return old, fmt.Errorf("cursor %s is of question %s, not of %s: %w; use another cursor, "+
			"or force it", c.Name, old.Question, c.Question, ErrQuestion)
	}
	c.Question = cmp.Or(c.Question, old.Question)
	return c, nil
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
// Errors: ErrBehind, ErrQuestion, ErrFull, durable.ErrNoSpace, ErrFailed.
func (f *File) Commit(c Cursor, force bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, known := f.all[c.Name]
	c, err := Next(old, known, len(f.all), c, force)
	if err != nil {
		return err
	}
	if err := f.journal.Append(line{Cursor: c}); err != nil {
		return err
	}
	f.all[c.Name] = c
	return f.shorten(force && len(f.damage) > 0)
}

// Remove forgets a cursor.
//
// Errors: ErrUnknown, durable.ErrNoSpace, ErrFailed.
func (f *File) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.all[name]; !ok {
		return Unknown(name)
	}
	if err := f.journal.Append(line{Cursor: Cursor{Name: name}, Removed: true}); err != nil {
		return err
	}
	delete(f.all, name)
	return f.shorten(false)
}

// shorten writes the file again when most of its lines are not in force any more, or now. What was
// appended is on disk, whether that succeeds or not.
func (f *File) shorten(now bool) error {
	if f.journal.Lines() < len(f.all)+f.mostLines && !now {
		return nil
	}
	err := f.journal.Rewrite(encode(Sorted(f.all), math.MaxInt64))
	if durable.IsNoSpace(err) {
		return nil // until there is space
	}
	if err == nil {
		f.damage = nil
	}
	return err
}

// Problems returns what is wrong with the cursors for good.
func (f *File) Problems() (all []health.Problem) {
	if damage := f.Damage(); len(damage) > 0 {
		all = append(all, health.Problem{Code: "cursors_damaged", Message: damage[0],
			Advice: "readers of lost cursors get records again, or begin where they are told to; " +
				"pentad cursor ls shows what is known, and pentad cursor commit --force corrects " +
				"it and ends this problem"})
	}
	err := f.journal.Failure()
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
	if err := durable.ReplaceFile(filepath.Join(dir, Name), encode(all, maxAcqNs)); err != nil {
		return fmt.Errorf("copy cursors: %w", err)
	}
	return nil
}

// Close closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.journal.Close()
}

// CheckFile reads the cursors in a directory and changes nothing; it returns how large the file is.
func CheckFile(dir string) (damage []*durable.CorruptError, size int64, err error) {
	name := filepath.Join(dir, Name)
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	f := &File{all: map[string]Cursor{}}
	content, err := journal.Read(data, format, f.apply)
	var bad *journal.Damage
	if formats.Is(err) {
		return nil, int64(len(data)), formats.In(name, err)
	} else if errors.As(err, &bad) {
		content = &journal.Content{Damage: []*journal.Damage{bad}}
	}
	for _, text := range journal.Texts(Name, content.Damage) {
		damage = append(damage, &durable.CorruptError{File: name, Reason: text})
	}
	return damage, int64(len(data)), nil
}
