// Package journal keeps text files of lines "crc32c json" that are appended to and synced: the
// manifest of a store, the catalogue and the cursors of a node, the outbox of an edge.
//
// It owns how such a file is opened after a crash, appended to, and replaced by a shorter one, and
// knows nothing of what lines say but the format and the count of lines in the first one. Its main
// type is [File]; it starts no goroutines.
//
// A crash leaves traces of the line that was being appended, and of nothing else, because each line
// is synced before the next one is written, and the first is there from the beginning. The rules:
//
//	at the end of the file                    meaning
//	no newline                                torn: cut, and reported in Content.Torn
//	a sector of the last line is zero         torn
//	no newline, but all else of a whole line  damage: the newline is another byte
//	anything else                             damage
//
// What was torn was never acknowledged. What is damaged was: a journal with damage is not opened,
// or, where its owner says so, without the lines that are damaged, which [File.Damage] lists.
package journal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/health"
)

// Options say which file it is and what is in it.
type Options struct {
	Folder durable.Folder
	Name   string
	Dir    string // path of the folder, for errors
	What   string // it is, for errors: manifest
	// Format is what the first line must say.
	Format int
	// Apply takes a line that was read; see [Read].
	Apply func(number int, line []byte) error
	// Head returns the first line with a count of lines, which each append brings up to date, so
	// that a file that lost whole lines at its end is damaged. nil: the file does not count them.
	Head func(Count) any
	// KeepsDamaged: a file with damage is opened all the same.
	KeepsDamaged bool
	// MaxBytes of the file; 0: any number.
	MaxBytes int64
	// Failed is what every change fails with after one of which it is not known whether it is on
	// disk.
	Failed error
}

// File is a journal that is open. Its owner makes one call at a time; Failure alone may be called
// at any time.
type File struct {
	opt     Options
	content Content // as it was read; Size and Lines are those of now
	file    durable.File
	failed  health.Latch
}

// Create makes a journal of some lines, whole or not at all, in place of one of that name, and
// opens it.
func Create(opt Options, text []byte) (*File, error) {
	if err := durable.Replace(opt.Folder, opt.Name, text); err != nil {
		return nil, fmt.Errorf("make %s: %w", opt.What, err)
	}
	return Open(opt)
}

// Open reads a journal, cuts off a torn last line and makes durable what is left.
//
// Errors: os.ErrNotExist; *formats.Error; a *Damage, where damaged lines are not left out or the
// file is no journal; those of the file system.
func Open(opt Options) (*File, error) {
	f := &File{opt: opt}
	if err := f.open(); err != nil {
		if f.file != nil {
			err = errors.Join(err, f.file.Close())
		}
		if formats.Is(err) {
			return nil, formats.In(f.path(), err)
		}
		if d := new(Damage); errors.As(err, &d) {
			return nil, fmt.Errorf("%s: %w", f.path(), err)
		}
		return nil, fmt.Errorf("open %s: %w", opt.What, err)
	}
	return f, nil
}

func (f *File) path() string { return filepath.Join(f.opt.Dir, f.opt.Name) }

func (f *File) open() (err error) {
	if f.file, err = f.opt.Folder.Open(f.opt.Name); err != nil {
		f.file = nil
		return err
	}
	size, err := f.file.Size()
	if err != nil {
		return err
	}
	if f.opt.MaxBytes > 0 && size > f.opt.MaxBytes {
		return &Damage{Err: fmt.Errorf("it has %d bytes, %d at most", size, f.opt.MaxBytes)}
	}
	data, err := durable.Read(f.opt.Folder, f.opt.Name, nil)
	if err != nil {
		return err
	}
	content, err := Read(data, f.opt.Format, f.opt.Apply)
	if err != nil {
		return err
	}
	f.content = *content
	if len(content.Damage) > 0 && !f.opt.KeepsDamaged {
		return content.Damage[0]
	}
	return f.mend()
}

// mend cuts a torn last line, or ends one that lost its newline. All that is read is made durable:
// what the last line says is used from now on, and a process that was killed may not have synced
// it, nor the name of the file.
func (f *File) mend() error {
	if f.content.unended {
		if _, err := f.file.WriteAt([]byte("\n"), f.content.Size-1); err != nil {
			return err
		}
	}
	err := f.opt.Folder.Truncate(f.opt.Name, f.content.Size)
	return errors.Join(err, f.opt.Folder.Sync())
}

// Damage returns what is wrong with the file, as Open found it, until Rewrite.
func (f *File) Damage() []*Damage { return f.content.Damage }

// Torn returns how many bytes Open cut off.
func (f *File) Torn() int { return f.content.Torn }

// Lines returns how many lines the file has, damaged ones included.
func (f *File) Lines() int { return f.content.Lines }

// Size returns the bytes of the lines.
func (f *File) Size() int64 { return f.content.Size }

// Failure returns the error that every change returns until the file is opened again; nil for none.
func (f *File) Failure() error { return f.failed.Err() }

// Lost says how the file of this name differs from the one that is open; "": it does not.
func (f *File) Lost() string {
	open, _ := f.file.(durable.Opened)
	return durable.Lost(f.path(), open, f.content.Size)
}

// Append makes a line durable. For lack of space nothing has changed, and it may be tried again.
// After any other failed write or sync the journal stays failed, because what the disk holds is no
// longer known.
//
// Errors: [durable.ErrNoSpace]; Options.Failed.
func (f *File) Append(v any) error {
	if err := f.failed.Err(); err != nil {
		return err
	}
	line := AppendLine(nil, v)
	if _, err := f.file.WriteAt(line, f.content.Size); err != nil {
		return f.undo(err)
	}
	if err := errors.Join(f.vouch(), f.file.Sync()); err != nil {
		return f.fail(err)
	}
	f.content.Size += int64(len(line))
	f.content.Lines++
	return nil
}

// undo cuts off what was written of a line that the disk has no space for.
func (f *File) undo(cause error) error {
	if !durable.IsNoSpace(cause) {
		return f.fail(cause)
	}
	if err := f.opt.Folder.Truncate(f.opt.Name, f.content.Size); err != nil {
		return f.fail(fmt.Errorf("%v; and it cannot be undone: %w", cause, err))
	}
	return f.noSpace(cause)
}

func (f *File) noSpace(cause error) error {
	return fmt.Errorf("append to %s: %w", f.opt.What,
		durable.NoSpace("write", f.opt.Name, cause))
}

// fail makes the journal fail for good. The error is none of a lack of space, whatever its cause.
func (f *File) fail(cause error) error {
	if durable.IsNoSpace(cause) {
		cause = errors.New(cause.Error())
	}
	return f.failed.Set(fmt.Errorf("append to %s: %w: %w", f.opt.What, f.opt.Failed, cause))
}

// vouch writes into the first line how many lines are durable; the caller syncs the file. A file
// that does not say so, or lost lines, is left as it is.
func (f *File) vouch() error {
	c := &f.content
	if f.opt.Head == nil || c.count == "" || c.count.lost(c.Lines) != nil {
		return nil
	}
	text := AppendLine(nil, f.opt.Head(CountOf(c.Lines)))
	if int64(len(text)) != c.first {
		return nil
	}
	_, err := f.file.WriteAt(text, 0)
	return err
}

// Rewrite replaces the file by one of some lines: whole, or not at all. There is no damage then.
//
// Errors: [durable.ErrNoSpace] and others that leave the file as it was; Options.Failed.
func (f *File) Rewrite(text []byte) error {
	if err := f.failed.Err(); err != nil {
		return err
	}
	err := durable.Replace(f.opt.Folder, f.opt.Name, text)
	if errors.Is(err, durable.ErrUnsure) {
		return f.fail(err)
	} else if durable.IsNoSpace(err) {
		return f.noSpace(err)
	} else if err != nil {
		return fmt.Errorf("rewrite %s: %w", f.opt.What, err)
	}
	file, err := f.opt.Folder.Open(f.opt.Name)
	if err != nil {
		return f.fail(err)
	}
	_ = f.file.Close() // what was written to it is in the new one
	f.file = file
	f.content = Content{Lines: bytes.Count(text, []byte("\n")), Size: int64(len(text))}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	return f.content.readFirst(first, f.opt.Format)
}

// Close closes the file. One that counts its lines counts all of them then.
func (f *File) Close() error {
	var err error
	if f.opt.Head != nil && f.failed.Err() == nil {
		err = errors.Join(f.vouch(), f.file.Sync())
	}
	return errors.Join(err, f.file.Close())
}
