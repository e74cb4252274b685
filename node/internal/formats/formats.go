// Package formats has the error of files that another version of the program wrote: they are not
// damaged, and no repair may change them.
//
// It knows no format, reads no files and starts no goroutines. Its main type is [Error].
package formats

import (
	"errors"
	"fmt"
)

// mostVersion is the greatest version that a program can have written. A greater one is damage, as
// is 0, which no format has.
const mostVersion = 255

// Error says that a file, or a part of one, is in the format of another version of the program.
type Error struct {
	File    string // "" where that is not known
	What    string // part of the file; "" for all of it
	Version uint64
	Known   uint64 // the newest one that this program reads
}

// Error implements error.
func (e *Error) Error() string {
	name := e.File
	if e.What != "" {
		if name != "" {
			name += ": "
		}
		name += e.What
	}
	if e.Version < e.Known {
		return fmt.Sprintf("%s: written by an older version of pentad in format %d, this one "+
			"reads format %d: export with the version of pentad that wrote it, and import the "+
			"export with this one; the file is not damaged", name, e.Version, e.Known)
	}
	return fmt.Sprintf("%s: written by a newer version of pentad in format %d, this one reads "+
		"format %d: start the version of pentad that wrote it, or a later one; the file is not "+
		"damaged", name, e.Version, e.Known)
}

// Of returns the error of a version that is not the known one. It is nil for a version that no
// program writes, which is damage. The caller has verified the checksum that the version is under.
func Of(file, what string, version, known uint64) *Error {
	if version == 0 || version > mostVersion || version == known {
		return nil
	}
	return &Error{File: file, What: what, Version: version, Known: known}
}

// Is reports whether an error is that of a file of another version.
func Is(err error) bool { return errors.As(err, new(*Error)) }

// In names the file of an error of a part of it, where it has none; other errors are returned as
// they are.
func In(file string, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.File != "" {
		return err
	}
	named := *e
	named.File = file
	return &named
}
